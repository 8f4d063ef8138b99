"""Answering the lines of many files on a Ray cluster, block by block."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType

from keras_transformer.cli.text_streams import line_bar
from keras_transformer.cluster.block_folder import BlockFolder
from keras_transformer.cluster.input_files import InputFile, scan_file
from keras_transformer.cluster.line_workers import Block, LineWork, LineWorkers
from keras_transformer.cluster.worker_resources import Workers, resources_of
from keras_transformer.data.text_files import unequal_lines
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell


def scan_inputs(
    ray: ModuleType, outputs: Sequence[Sequence[tuple[str, str]]], block_lines: int
) -> list[list[InputFile]]:
    """Count the lines of all inputs, a task for each file.

    Args:
        ray: the module, connected.
        outputs: the inputs of each output, as `(path, column)`: one, or several parallel ones.
        block_lines: number of lines of a block.

    Raises:
        UserInputError: a file cannot be read, or parallel files differ in their lines.
    """
    scan = ray.remote(_scanned)  # with a CPU each, as the workers do not run yet
    tasks = [[scan.remote(*file, block_lines) for file in files] for files in outputs]
    found = [[_given(file) for file in ray.get(files)] for files in tasks]
    for first, *others in found:
        for other in others:
            if other.lines != first.lines:
                raise unequal_lines(first.path, first.lines, other.path, other.lines)
    return found


def run_lines(
    ray: ModuleType,
    work: LineWork,
    inputs: Sequence[Sequence[InputFile]],
    folder: BlockFolder,
    workers: Workers,
) -> None:
    """Answer the blocks that a folder misses, and write them as they come.

    This process reads the inputs, each from its first missing block on.

    Args:
        ray: the module, connected.
        work: what the workers do.
        inputs: as of the folder.
        folder: the folder, entered.
        workers: how many workers, and how large.

    Raises:
        UserInputError: an input cannot be read, or as of `LineWorkers.answers`. The finished blocks
            stay.
    """
    missing = len(folder.missing)
    total = sum(files[0].lines for files in inputs)
    if missing < sum(files[0].num_blocks for files in inputs):
        tell(f"{folder.path}: resuming after {folder.lines_done:,} of {total:,} lines")
    if not missing:
        return
    # A machine may have been lost since the workers were asked for.
    line_workers = LineWorkers(ray, work, resources_of(ray, workers, or_fewer=True))
    answers = line_workers.answers(_missing_blocks(inputs, folder), missing)
    with line_bar(total, folder.lines_done) as bar, contextlib.closing(answers):
        for block, lines in answers:
            folder.write(block.name, lines)
            bar.update(len(block.lines))


def _missing_blocks(inputs: Sequence[Sequence[InputFile]], folder: BlockFolder) -> Iterator[Block]:
    """Read what a folder misses."""
    for file, names in itertools.groupby(folder.missing, key=lambda name: name.file):
        of_file, files = list(names), inputs[file]
        paths = [one.path for one in files]
        sides = [one.part([name.block for name in of_file]).read() for one in files]
        for name, *columns in zip(of_file, *sides, strict=True):
            lines = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
            yield Block(name, paths, files[0].first_line(name.block), lines)


def _scanned(path: str, column: str, block_lines: int) -> InputFile | UserInputError:
    """`scan_file` for a task, whose errors Ray would wrap."""
    try:
        return scan_file(path, column, block_lines)
    except UserInputError as error:
        return error


def _given(found: InputFile | UserInputError) -> InputFile:
    if isinstance(found, UserInputError):
        raise found
    return found
