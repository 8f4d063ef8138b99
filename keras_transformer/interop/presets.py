"""Presets: a model with its tokenizers and its search, in the files of a run."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_directories import check_new_directory, write_new_directory
from keras_transformer.interop.preset_folders import ARCHIVE, pack
from keras_transformer.runs.model_weights import save_weights
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.safetensors_weights import save_safetensors
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike


def save_preset(
    path: PathLike,
    *,
    model: keras.Model,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    search: dict[str, Any],
    settings: Mapping[str, object],
    weights: str = "keras",
    origin: PathLike | None = None,
) -> Path:
    """Write a preset, whole or not at all.

    Args:
        path: folder that must not exist or be empty, or a file with the ending ".zip" that must
            not exist.
        model: a functional model.
        source_tokenizer, tokenizer: its tokenizers, one object or equal ones if they are shared.
        search: fields of `SearchOptions`.
        settings: names and values of the training's settings, those of the architecture at least.
        weights: "keras" or "safetensors".
        origin: where the model is from.

    Returns:
        The path.

    Raises:
        UserInputError: something is there, or the files cannot be written.
    """
    check_new_preset(path)

    def write(folder: Path) -> None:
        run = RunDirectory(folder)
        has_two = source_tokenizer.fingerprint != tokenizer.fingerprint
        run.start(
            model=model,
            tokenizer=tokenizer,
            source_tokenizer=source_tokenizer if has_two else None,
            settings=settings,
            origin=origin,
            search=search,
        )
        if weights == "safetensors":
            save_safetensors(model, run.safetensors_path)
        else:
            save_weights(model, run.weights_path)

    if Path(path).suffix != ARCHIVE:
        return write_new_directory(path, write)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        pack(Path(folder), path)
    return Path(path)


def check_new_run(path: PathLike) -> None:
    """Require a path that `save_preset` would write a run to, before what takes long."""
    if Path(path).suffix == ARCHIVE:
        raise UserInputError(f"A run is a folder, not an archive. Received: {path}")
    check_new_directory(path)


def check_new_preset(path: PathLike) -> None:
    """Require a path that `save_preset` would write to, before what takes long."""
    if Path(path).suffix != ARCHIVE:
        check_new_directory(path)
    elif Path(path).exists():
        raise UserInputError(f"{path} exists: name another archive.")
