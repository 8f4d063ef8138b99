"""Load the models of a translator from one or more runs and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    import keras

Origin = tuple[RunDirectory, Path]  # run and weight file of a model


def load_ensemble(
    run_directory: PathLike | Sequence[PathLike], checkpoint: PathLike | Sequence[PathLike] | None
) -> tuple[list[keras.Model], SentencePieceTokenizer, SentencePieceTokenizer, list[Origin]]:
    """Load the models, the source and target tokenizers, and the origin of each model."""
    origins = [
        (run, run.find_weights(name)) for run, name in ensemble_members(run_directory, checkpoint)
    ]
    runs = {run.path: run for run, _ in origins}.values()
    tokenizers = [run.load_tokenizers() for run in runs]
    fingerprints = {tuple(one.fingerprint for one in pair) for pair in tokenizers}
    models = [run.load_model(weights) for run, weights in origins]
    if len(fingerprints) > 1 or len({model.output_shape[-1] for model in models}) > 1:
        raise UserInputError(
            "The runs of an ensemble must have the same tokenizers and vocabulary sizes. "
            f"Received: {', '.join(str(run.path) for run in runs)}"
        )
    return models, *tokenizers[0], origins


def ensemble_members(
    run_directory: PathLike | Sequence[PathLike], checkpoint: PathLike | Sequence[PathLike] | None
) -> Iterator[tuple[RunDirectory, PathLike | None]]:
    """Yield the run and checkpoint of each model for `Translator.load`."""
    paths: Sequence[Any] = (
        run_directory if isinstance(run_directory, (list, tuple)) else [run_directory]
    )
    runs = [RunDirectory.open(path) for path in paths]
    names = checkpoint if isinstance(checkpoint, (list, tuple)) else [checkpoint]
    if len(runs) == 1:
        runs = runs * len(names)
    elif len(names) == 1:
        names = names * len(runs)
    if not runs or len(runs) != len(names):
        raise UserInputError(
            "There must be one run, one checkpoint, or as many checkpoints as runs. "
            f"Received: {len(runs)} runs, {len(names)} checkpoints"
        )
    return zip(runs, names, strict=True)
