"""The runs of a table, in one folder: one run per row, with shared settings and text."""

import argparse
import dataclasses
import functools
import math
import pathlib
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

import keras

from keras_transformer import RunDirectory
from keras_transformer.data import ParallelFiles, find_text
from keras_transformer.errors import UserInputError
from keras_transformer.files import say
from keras_transformer.toolkit.cli import CommandParser
from keras_transformer.training import TrainingCommand
from keras_transformer.translation_training import TranslationData
from recipes.table3.report import write_table
from recipes.table3.row_result import RowRun, fingerprints, finished_rows
from recipes.table3.rows import ROWS
from recipes.table3.settings import Table3Settings

MODULE = "recipes.table3.train"
_DEV = ("dev", "val")
_VOCABULARIES = ("tokenizer", "source_tokenizer")


def read_arguments(
    arguments: Sequence[str] | None, description: str | None
) -> tuple[list[RowRun], pathlib.Path]:
    """Read the recipe's command line.

    Args:
        arguments: command-line arguments. None means the arguments of the process.
        description: text at the top of `--help`.

    Returns:
        `(rows, runs)`: the rows to train, and the folder for their runs.

    Raises:
        UserInputError: a row is unknown or impossible, or the folder contains rows of a different
            table.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    values = _parser(description).parse_args(arguments)
    settings = Table3Settings.from_arguments(values, values.settings).decided()
    minutes = values.minutes_per_row
    if minutes is not None and not 0 < minutes < math.inf:
        raise UserInputError(f"--minutes-per-row must be a number above 0. Received: {minutes}")
    row_of = {row.preset: name for name, row in ROWS.items()}
    names = list(dict.fromkeys(row_of.get(name, name) for name in values.rows.split(",")))
    rows = {name: settings.row(name) for name in names}
    _check_same_settings(settings, values.runs)
    source, target = values.languages
    read_text = functools.partial(_read_text, values.data, source, target, values.runs)
    command = shlex.join(["python", "-m", MODULE, *arguments])
    return [
        RowRun(
            name,
            TrainingCommand(row, values.runs / name, resume=True, minutes=minutes, command=command),
            read_text,
        )
        for name, row in rows.items()
    ], values.runs


def train_rows(
    rows: Sequence[RowRun], runs: pathlib.Path, train_row: Callable[[RowRun], int | None]
) -> int | None:
    """Train the unfinished rows, and write the table after each row.

    Args:
        rows: the rows to train.
        runs: the folder for their runs and the table.
        train_row: function that trains a row, and returns the exit code if a signal stopped
            training, otherwise None.

    Returns:
        The exit code if a signal stopped training, otherwise None.
    """
    for number, row in enumerate(rows, 1):
        row = _with_vocabulary(row)
        says = f"Row {row.name}, {number} of {len(rows)}: {row.path}"
        if row.has_finished():
            say(f"{says} has finished")
            continue
        say(f"\n{says}")
        keras.utils.clear_session()  # frees the previous row's model
        exit_code = train_row(row)
        if exit_code is not None:
            return exit_code
        write_table(runs)
    write_table(runs, show=True)
    return None


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = CommandParser(prog=f"python -m {MODULE}", description=description)
    add = parser.add_argument
    add(
        "--data",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="folder with train and dev (or val) in both languages, such as train.en, plain or .gz",
    )
    add(
        "--languages",
        nargs=2,
        default=["en", "de"],
        metavar=("SOURCE", "TARGET"),
        help="file extensions of the languages (default: en de)",
    )
    add(
        "--rows",
        default=",".join(ROWS),
        metavar="A1,A2",
        help=f"rows to train, in this order (default: {','.join(ROWS)})",
    )
    add(
        "--runs",
        type=pathlib.Path,
        default=pathlib.Path("runs", "table3"),
        metavar="DIR",
        help="folder for the runs and the table (default: runs/table3); finished rows are skipped, "
        "and an interrupted row is resumed",
    )
    add(
        "--minutes-per-row",
        type=float,
        metavar="M",
        help="stop training each row after M minutes (default: no time limit)",
    )
    add("--settings", type=pathlib.Path, metavar="FILE", help="JSON or TOML settings file")
    Table3Settings.add_arguments(parser)
    return parser


def _read_text(
    directory: pathlib.Path, source: str, target: str, runs: pathlib.Path
) -> TranslationData:
    """Read the training and dev texts in a folder. Rows in `runs` must have the same texts."""

    def has(part: str) -> bool:
        return any((directory / f"{part}.{source}{end}").is_file() for end in ("", ".gz"))

    dev_part = next(filter(has, _DEV), _DEV[0])
    train, dev = (
        ParallelFiles(
            find_text(directory, f"{part}.{source}"), find_text(directory, f"{part}.{target}"), part
        )
        for part in ("train", dev_part)
    )
    texts = TranslationData([train], dev=dev)
    for result in finished_rows(runs):
        if result.data != fingerprints(texts):
            raise UserInputError(
                "The rows of a table share their text: choose a different --runs. "
                f"{runs / result.row} was trained on a different text"
            )
    return texts


def _check_same_settings(settings: Table3Settings, runs: pathlib.Path) -> None:
    """Require all rows of a table to have the same settings."""
    may_differ = {*settings.may_change, *_VOCABULARIES}
    for run in (RunDirectory(runs / name) for name in ROWS):
        if not run.is_run():
            continue
        recorded = run.settings()
        for setting, value in settings.row(run.path.name).to_dict().items():
            if setting not in may_differ and recorded.get(setting, value) != value:
                raise UserInputError(
                    "The rows of a table share their settings: choose a different --runs. In "
                    f"{run.path} `{setting}` is {recorded[setting]!r}. Received: {value!r}"
                )


def _with_vocabulary(row: RowRun) -> RowRun:
    """Return the row with the vocabulary of the row that was started first."""
    settings, run = row.options.settings, RunDirectory(row.path)
    if settings.tokenizer:
        return row
    files: dict[str, Any] = {}
    if run.is_run():
        recorded = run.settings()
        files = {name: recorded[name] for name in _VOCABULARIES}
    else:
        begun = (RunDirectory(row.path.with_name(name)) for name in ROWS)
        first = next((other for other in begun if other.is_run()), None)
        if first is not None:
            source = first.source_tokenizer_path
            files = {
                "tokenizer": str(first.tokenizer_path),
                "source_tokenizer": str(source) if source.is_file() else None,
            }
    options = dataclasses.replace(row.options, settings=dataclasses.replace(settings, **files))
    return dataclasses.replace(row, options=options)
