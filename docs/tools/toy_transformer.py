"""Trains the toy translator in docs/the_paper.md: `python -m docs.tools.toy_transformer`.

The translator converts English number words to German. The model is the paper's, with one encoder
layer, one decoder layer and vectors of 16 numbers. The script writes the words and weights to
docs/assets/toy_translator.json. Training takes about a minute on two CPU cores. The result is
reproducible on the same machine, but rounding differs between machines.
"""

import argparse
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

ASSET = pathlib.Path(__file__).parents[1] / "assets" / "toy_translator.json"
SENTENCE = "one hundred twenty one"
WIDTH, INNER_WIDTH, HEADS = 16, 32, 2
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
PAD, START, END = 0, 1, 2
DIGITS = [
    *("one eins", "two zwei", "three drei", "four vier", "five fünf", "six sechs", "seven sieben"),
    *("eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf", "thirteen dreizehn"),
    *("fourteen vierzehn", "fifteen fünfzehn", "sixteen sechzehn", "seventeen siebzehn"),
    *("eighteen achtzehn", "nineteen neunzehn"),
]
TENS = [
    *("twenty zwanzig", "thirty dreißig", "forty vierzig", "fifty fünfzig", "sixty sechzig"),
    *("seventy siebzig", "eighty achtzig", "ninety neunzig"),
]
NUMBERS = range(1, 1000)
# German has two forms of 100 to 199. This is the long form's share in the training text.
SHARE_OF_LONG_FORM = 0.505
BATCH, UPDATES, WARMUP, RATE = 64, 4000, 500, 0.7
DECIMALS = 4  # per weight in the file


def english(number: int) -> str:
    """Return a number from 1 to 999 in English words, without hyphens and "and"."""
    hundreds, rest = divmod(number, 100)
    found = [DIGITS[hundreds - 1].split()[0], "hundred"] if hundreds else []
    if rest >= 20:
        found.append(TENS[rest // 10 - 2].split()[0])
        rest %= 10
    return " ".join([*found, DIGITS[rest - 1].split()[0]] if rest else found)


def german(number: int, *, long_form: bool = True) -> str:
    """Return a number from 1 to 999 in German, with spaces between its parts.

    Units come before tens. 1 is "eins" at the end and "ein" elsewhere. The short form of 100 to
    199 omits "ein" before "hundert".
    """
    hundreds, rest = divmod(number, 100)
    found = []
    if hundreds > 1 or (hundreds and long_form):
        found.append("ein" if hundreds == 1 else DIGITS[hundreds - 1].split()[1])
    found += ["hundert"] if hundreds else []
    tens, units = divmod(rest, 10) if rest >= 20 else (0, rest)
    if units:
        found.append("ein" if units == 1 and tens else DIGITS[units - 1].split()[1])
    if tens:
        found += ["und"] if units else []
        found.append(TENS[tens - 2].split()[1])
    return " ".join(found)


def vocabulary() -> list[str]:
    """Return the words of both languages. A word's index is its id."""
    sides = zip(*(pair.split() for pair in DIGITS + TENS), strict=True)
    english_words, german_words = map(list, sides)
    return [*SPECIAL, *english_words, "hundred", "ein", *german_words, "hundert", "und"]


def held_out() -> set[int]:
    """Return the numbers excluded from training: a tenth, and the number used on the page."""
    chosen = np.random.default_rng(1).permutation(NUMBERS)[: len(NUMBERS) // 10]
    return {int(number) for number in chosen} | {
        number for number in NUMBERS if english(number) == SENTENCE
    }


def ids_of(texts: list[str], words: list[str]) -> np.ndarray:
    """Convert texts to ids, int32 (texts, length), with the end token and padding."""
    rows = [[words.index(word) for word in text.split()] + [END] for text in texts]
    length = max(map(len, rows))
    return np.array([row + [PAD] * (length - len(row)) for row in rows], "int32")


def training_batches(words: list[str], updates: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the source and target ids of all updates, int32 (updates * BATCH, length)."""
    chance = np.random.default_rng(1)
    numbers = chance.choice(sorted(set(NUMBERS) - held_out()), updates * BATCH)
    is_long = chance.random((len(numbers), 1)) < SHARE_OF_LONG_FORM
    sources = ids_of([english(number) for number in NUMBERS], words)
    short, long = (
        ids_of([german(number, long_form=form) for number in NUMBERS], words)
        for form in (False, True)
    )
    return sources[numbers - 1], np.where(is_long, long[numbers - 1], short[numbers - 1])


def build() -> Any:
    """Build the package's model in the toy's size, with random weights."""
    import keras_transformer as kt

    return kt.build_transformer(
        "tiny",
        vocabulary_size=len(vocabulary()),
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=WIDTH,
        intermediate_dim=INNER_WIDTH,
        num_heads=HEADS,
        dropout=0.0,
    )


def train(updates: int = UPDATES) -> tuple[Any, list[float]]:
    """Train the package's model. Return the model and the mean loss per 100 updates."""
    import keras

    import keras_transformer as kt

    keras.utils.set_random_seed(1)
    model = build()
    sources, targets = training_batches(vocabulary(), updates)
    starts = np.full((len(targets), 1), START, "int32")
    read = np.hstack([starts, targets[:, :-1]])
    optimizer = kt.transformer_adam(WIDTH, warmup_steps=WARMUP, scale=RATE)
    model.compile(optimizer, kt.LabelSmoothingCrossEntropy(0.1))
    losses = []
    for start in range(0, len(targets), 100 * BATCH):
        part = slice(start, start + 100 * BATCH)
        inputs = {"source_ids": sources[part], "target_ids": read[part]}
        done = model.fit(inputs, targets[part], batch_size=BATCH, shuffle=False, verbose=0)
        losses.append(done.history["loss"][0])
    return model, losses


def variables(model: Any) -> dict[str, Any]:
    """Return the model's variables by the page's names. `|` joins the names of a fused matrix."""
    encoder, decoder = model.encoder_layers[0], model.decoder_layers[0]
    found = {"embedding": model.target_embedding.token_embedding.matrix}
    for name, attention, block in (
        ("encoder.self", encoder.attention, encoder.attention_block),
        ("decoder.self", decoder.self_attention, decoder.self_attention_block),
        ("decoder.cross", decoder.cross_attention, decoder.cross_attention_block),
    ):
        for fused, projection in attention.projections.items():
            found["|".join(f"{name}.{part}" for part in fused.split("_"))] = projection.kernel
        found |= {f"{name}.gain": block.norm.gamma, f"{name}.shift": block.norm.beta}
    for name, layer in (("encoder.feed_forward", encoder), ("decoder.feed_forward", decoder)):
        network, norm = layer.feed_forward, layer.feed_forward_block.norm
        found |= {
            f"{name}.matrix_1": network.expand.kernel,
            f"{name}.bias_1": network.expand.bias,
            f"{name}.matrix_2": network.contract.kernel,
            f"{name}.bias_2": network.contract.bias,
            f"{name}.gain": norm.gamma,
            f"{name}.shift": norm.beta,
        }
    return found


def weights_of(model: Any) -> dict[str, np.ndarray]:
    """Return the model's rounded weights by the names in the file."""
    import keras

    weights = {}
    for names, variable in variables(model).items():
        parts = names.split("|")
        values = keras.ops.convert_to_numpy(variable).astype("float64")
        arrays = np.split(values, len(parts), axis=-1)
        weights |= dict(zip(parts, (array.round(DECIMALS) for array in arrays), strict=True))
    return weights


def load(weights: Mapping[str, Any]) -> Any:
    """Build the package's model with the weights from the file."""
    model = build()
    for names, variable in variables(model).items():
        parts = [np.array(weights[name], "float32") for name in names.split("|")]
        variable.assign(np.concatenate(parts, axis=-1))
    return model


def write(words: list[str], weights: Mapping[str, np.ndarray]) -> None:
    """Write the file, with one line per weight."""
    lines = [
        f"  {json.dumps(name)}: {json.dumps(array.tolist(), separators=(',', ':'))}"
        for name, array in weights.items()
    ]
    text = f'{{\n"words": {json.dumps(words, ensure_ascii=False)},\n"weights": {{\n'
    ASSET.write_text(text + ",\n".join(lines) + "\n}\n}\n", "utf-8")


def accuracy(model: Any, numbers: list[int], **options: Any) -> float:
    """Return the share of numbers whose translation is one of the valid forms."""
    words = vocabulary()
    ids, _ = model.generate(ids_of([english(number) for number in numbers], words), **options)
    right = 0
    for number, row in zip(numbers, np.array(ids)[:, 0], strict=True):
        text = " ".join(words[token] for token in row if token > END)
        right += text in {german(number), german(number, long_form=False)}
    return right / len(numbers)


def main() -> None:
    """Train the model, write the file and print the accuracy of its weights."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    weights = weights_of(train()[0])
    write(vocabulary(), weights)
    model, unseen = load(weights), sorted(held_out())
    print(f"{model.count_params():,} weights, {ASSET.stat().st_size:,} bytes")
    print(f"right: {accuracy(model, unseen, beam_size=1):.1%} of {len(unseen)} unseen numbers")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
