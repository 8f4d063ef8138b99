"""The recipe's command line."""

import argparse
import dataclasses
import pathlib
from collections.abc import Collection, Sequence
from typing import TypeAlias

from keras_transformer import RunDirectory
from keras_transformer.errors import UserInputError
from keras_transformer.settings import read_settings_file
from keras_transformer.training import TrainingCommand
from keras_transformer.translation_training import add_text_arguments
from recipes.distilled.settings import DistilledSettings
from recipes.recipe_options import recipe_options

Options: TypeAlias = TrainingCommand[DistilledSettings]
# Settings that default to the teacher's values, like the tokenizers.
OF_TEACHER = (
    "max_tokens",
    "max_ratio",
    "drop_duplicates",
    "drop_copies",
    "bleu_tokenize",
    "language",
)


def student_options(
    description: str | None, arguments: Sequence[str] | None
) -> tuple[Options, argparse.Namespace]:
    """Read the recipe's command line.

    Args:
        description: text at the top of `--help`.
        arguments: command-line arguments. None means the arguments of the process.

    Returns:
        `(options, values)`: the options for training the student, and the namespace with the texts
        and the recipe's own flags. The settings default to the teacher's tokenizers, filters and
        scoring.

    Raises:
        UserInputError: the dev text is missing, nothing provides the translations, or the student
            would replace its teacher.
    """
    options, values = recipe_options(
        "distilled",
        DistilledSettings,
        description,
        arguments=arguments,
        add=_add_arguments,
        fine_tuning=False,
    )
    if values.dev_source is None:
        raise UserInputError(
            "A student is validated on real text: pass --dev-source and --dev-target."
        )
    if not values.teacher and values.translations is None:
        raise UserInputError("A student learns from --teacher RUN or --translations FILE.")
    if not values.teacher and values.more_source:
        raise UserInputError("--more-source needs --teacher RUN, which translates it.")
    for path in (*values.teacher, *values.backward):
        if path.resolve() == pathlib.Path(options.run).resolve():
            raise UserInputError(f"A student cannot replace its teacher: {path}")
    settings = options.settings
    is_new = not (options.resume and RunDirectory(options.run).is_run())
    if is_new and values.teacher:  # a run keeps its settings
        in_file = read_settings_file(values.settings) if values.settings else {}
        teacher = RunDirectory(values.teacher[0])
        settings = _as_the_teacher(settings, teacher, vars(values).keys() | in_file.keys())
    return dataclasses.replace(options, settings=settings), values


def _as_the_teacher(
    settings: DistilledSettings, teacher: RunDirectory, given: Collection[str]
) -> DistilledSettings:
    """Return settings with the teacher's values, unless a flag or a file sets them."""
    recorded = teacher.settings() if teacher.is_run() else {}  # other folders are refused later
    taken = {name: recorded[name] for name in OF_TEACHER if name in recorded.keys() - set(given)}
    if settings.tokenizer is None:
        source = teacher.source_tokenizer_path
        taken["tokenizer"] = str(teacher.tokenizer_path)
        taken["source_tokenizer"] = str(source) if source.is_file() else None
    return dataclasses.replace(settings, **taken)


def int8_options(options: Options) -> Options:
    """Return the options of the run that continues a student with rounded matrices."""
    path = pathlib.Path(options.run)
    return dataclasses.replace(
        options,
        settings=options.settings.for_int8(),
        run=path.with_name(f"{path.name}-int8"),
        origin=path,
        minutes=None,
    )


def add_comparison_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the teacher and the comparison to a parser."""
    add = parser.add_argument
    add(
        "--teacher",
        nargs="+",
        default=[],
        type=pathlib.Path,
        metavar="RUN",
        help="run directory of the teacher; multiple runs form an ensemble",
    )
    add(
        "--no-exports",
        dest="exports",
        action="store_false",
        help="compare only with Translator, not also as SavedModels and LiteRT models",
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_comparison_arguments(parser)
    add_text_arguments(parser)
    add = parser.add_argument
    add(
        "--translations",
        type=pathlib.Path,
        metavar="FILE",
        help="translations of the source text by any system, one per line, instead of the "
        "teacher's; without --teacher, nothing is compared with the student",
    )
    add(
        "--more-source",
        nargs="+",
        default=[],
        metavar="FILE",
        help="more source sentences, without translations: the teacher translates them",
    )
    add(
        "--backward",
        nargs="+",
        default=[],
        type=pathlib.Path,
        metavar="RUN",
        help="run or ensemble of the opposite direction: the student also reads the target "
        "sentences of the text, paired with this model's translations of them",
    )
    add(
        "--distilled",
        type=pathlib.Path,
        metavar="DIR",
        help="folder of the teacher's translations, which are created if they are missing "
        "(default: one folder for each teacher, text and search in distilled/ next to the run, or "
        "next to a run in distilled/)",
    )
