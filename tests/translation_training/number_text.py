"""Invented text that a small model learns in seconds: digits in words, two languages."""

import itertools

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli

ENGLISH = ("one", "two", "three", "four", "five")
GERMAN = ("eins", "zwei", "drei", "vier", "fünf")


def pairs(length=4):
    """Every sequence of `length` digits: two lists of sentences."""
    sequences = list(itertools.product(range(len(ENGLISH)), repeat=length))
    return tuple(
        [" ".join(words[digit] for digit in sequence) for sequence in sequences]
        for words in (ENGLISH, GERMAN)
    )


def write_pairs(directory, stem, length=4, stop=None):
    """Write the pairs to `stem.en` and `stem.de`; return the two paths as strings."""
    paths = []
    for side, sentences in zip(("en", "de"), pairs(length), strict=True):
        path = directory / f"{stem}.{side}"
        path.write_text("".join(f"{line}\n" for line in sentences[:stop]), encoding="utf-8")
        paths.append(str(path))
    return paths


# A model and a training of a few seconds.
SMALL = {
    "preset": "tiny",
    "num_layers": 1,
    "hidden_dim": 32,
    "intermediate_dim": 64,
    "num_heads": 2,
    "dropout": 0.0,
    "label_smoothing": 0.0,
    "vocabulary_size": 48,
    "byte_fallback": False,
    "batch_tokens": 512,
    "steps": 12,
    "warmup_steps": 6,
    "save_every": 6,
    "log_every": 2,
    "bleu_sentences": 4,
    "held_out": 20,
    "tensorboard": False,
    "beam_size": 2,
}


def flags(**settings):
    """Settings as command-line flags."""
    arguments = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(flag if value else flag.replace("--", "--no-", 1))
        else:
            arguments += [flag, str(value)]
    return arguments


def train_pairs(directory, run, *arguments, **settings):
    """Call `keras-transformer train` on pairs of four digits; return the exit code and the run."""
    source, target = write_pairs(directory, "train")
    command = ["train", "--source", source, "--target", target, "--run", run, *arguments]
    return cli.main([*map(str, command), *flags(**settings)]), RunDirectory(run)
