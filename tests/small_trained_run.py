"""A run that translates: a small model that has learned digits in words, for what uses one."""

import contextlib
import io

from keras_transformer.files import file_lock
from keras_transformer.toolkit import cli
from tests.translation_training.number_text import SMALL, flags, write_pairs

SETTINGS = SMALL | {
    "num_layers": 2,
    "hidden_dim": 64,
    "intermediate_dim": 128,
    "num_heads": 4,
    "vocabulary_size": 304,  # 256 of them bytes
    "byte_fallback": True,
    "batch_tokens": 1024,
    # Twice what it takes, and a cooldown: sums in another order, on another CPU, do not matter.
    "steps": 400,
    "warmup_steps": 40,
    "learning_rate_scale": 0.2,
    "cooldown": 0.5,
    "save_every": 80,
    "log_every": 40,
    "bleu_sentences": 20,
    "beam_size": 4,
    "normalize_first": True,
    "precision": "float32",  # whatever the machine is fastest in
}


def small_trained_run(directory, **settings):
    """The path of the run in `directory`, trained by whichever process comes first."""
    directory.mkdir(exist_ok=True)
    run = directory / "run"
    with file_lock(directory / "lock"):
        if not (directory / "done").is_file():
            source, target = write_pairs(directory, "train", length=4)
            command = ["train", "--source", source, "--target", target, "--run", str(run)]
            with contextlib.redirect_stdout(io.StringIO()):
                assert cli.main([*command, "--overwrite", *flags(**SETTINGS | settings)]) == 0
            (directory / "done").touch()
    return run
