"""Text files on a command line: to train on, to mix in, to validate and to test on."""

import argparse

from keras_transformer.data import ParallelFiles
from keras_transformer.errors import UserInputError
from keras_transformer.translation_training.translation_data import TranslationData

_PARTS = {"dev": "choose the weights that translate", "test": "score at the end"}


def add_text_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags that `text_of` reads to a parser."""
    add = parser.add_argument_group("text (UTF-8, one sentence a line, plain or .gz)").add_argument
    for side in ("source", "target"):
        add(
            f"--{side}",
            nargs="+",
            required=True,
            metavar="FILE",
            help=f"{side} sentences to train on; several files or quoted patterns are joined",
        )
    for part, purpose in _PARTS.items():
        for side in ("source", "target"):
            add(f"--{part}-{side}", metavar="FILE", help=f"{side} sentences to {purpose}")
    add(
        "--mix",
        nargs=3,
        action="append",
        default=[],
        metavar=("SOURCE", "TARGET", "WEIGHT"),
        help="further sentences to train on, read WEIGHT times an epoch: 2, 0.25; repeatable",
    )


def text_of(values: argparse.Namespace) -> TranslationData:
    """The texts that a command line names.

    Args:
        values: the namespace of a parser that `add_text_arguments` extended.

    Raises:
        UserInputError: a file is missing, two sides do not fit, or a weight is not a positive
            number.
    """
    mixed = [
        (ParallelFiles(source, target, name=source), _weight(weight))
        for source, target, weight in values.mix
    ]
    main = ParallelFiles(values.source, values.target, name=" ".join(values.source))
    return TranslationData(
        train=[main, *(text for text, _ in mixed)],
        weights=[1.0, *(weight for _, weight in mixed)],
        dev=_part(values, "dev"),
        test=_part(values, "test"),
    )


def _part(values: argparse.Namespace, part: str) -> ParallelFiles | None:
    source, target = (getattr(values, f"{part}_{side}") for side in ("source", "target"))
    if (source is None) != (target is None):
        given, missing = ("source", "target") if target is None else ("target", "source")
        raise UserInputError(f"--{part}-{given} needs --{part}-{missing} as well")
    return None if source is None else ParallelFiles(source, target)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise UserInputError(f"The WEIGHT of --mix must be a number above 0. Received: {text}")
    return weight
