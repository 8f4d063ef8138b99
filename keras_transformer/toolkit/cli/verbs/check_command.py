"""`keras-transformer check`: check the files of runs and exports for damage."""

import argparse
import pathlib
from collections.abc import Callable
from typing import TypeVar

from keras_transformer.errors import UserInputError
from keras_transformer.files import printable, say
from keras_transformer.formats.registry import check_export, is_export
from keras_transformer.installation import start_backend_quietly
from keras_transformer.runs.checksums import CHECKSUMS, has_checksums

Result = TypeVar("Result")

HELP = "check the files of runs and exports against their checksums"
DESCRIPTION = """Compare the files of runs and exports with the checksums that were written with
them, for example after copying, and load the weights of runs. The command prints the names of
damaged and missing files, and then exits with code 2."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument(
        "directories",
        nargs="+",
        metavar="DIRECTORY",
        help="a run (with the exports in its engines/), an export, or a directory with versions of "
        "a SavedModel",
    )


def check(values: argparse.Namespace) -> None:
    """Run the verb."""
    errors = []
    for directory in map(pathlib.Path, values.directories):
        for path in _things_to_check(directory):
            try:
                # File names in an untrusted folder may contain control characters.
                say(printable(f"{path}: {_check(path)}").replace("\n", " "), result=True)
            except UserInputError as error:
                errors.append(str(error))
    if errors:
        raise UserInputError(" ".join(errors))


def _things_to_check(directory: pathlib.Path) -> list[pathlib.Path]:
    """Return the run or export at a path and any exports inside it, such as SavedModel versions."""
    from keras_transformer.runs.run_directory import RunDirectory

    engines = RunDirectory(directory).engines_path
    below = (directory.glob("*"), engines.glob("*"), engines.glob("*/*"))
    found = [path for paths in below for path in sorted(paths)]
    exports = [path for path in found if is_export(path) and not _is_hidden(path, directory)]
    is_one = is_export(directory) or RunDirectory(directory).record_path.is_file()
    return [directory, *exports] if is_one or not exports else exports


def _is_hidden(path: pathlib.Path, directory: pathlib.Path) -> bool:
    """Return whether a path is hidden, like files that a process is writing or left behind."""
    return any(part.startswith(".") for part in path.relative_to(directory).parts)


def _check(directory: pathlib.Path) -> str:
    """Check an export or a run and return a report."""
    if is_export(directory):
        if not has_checksums(directory):
            raise UserInputError(
                f"{directory} has no {CHECKSUMS}: nothing was compared. Copy the export again, or "
                "create it again."
            )
        return f"{check_export(directory)} files are intact"
    start_backend_quietly()
    from keras_transformer.parsing.linearization import TreeTokenizer
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.text import SentencePieceTokenizer

    run = RunDirectory.open(directory)
    is_parser = run.record().output == TreeTokenizer.output
    tokenizer = TreeTokenizer if is_parser else SentencePieceTokenizer
    number, files = _result(run.checksums.check_files)
    _, tokenizers = _result(lambda: run.load_tokenizers(tokenizer))
    if faults := [*files, *tokenizers]:
        raise UserInputError(" ".join(faults))
    run.load_model()
    return f"{number} files are intact"


def _result(examine: Callable[[], Result]) -> tuple[Result | None, list[str]]:
    """Return the result of an examination, and the fault that it found, if any."""
    try:
        return examine(), []
    except UserInputError as error:
        return None, [str(error)]
