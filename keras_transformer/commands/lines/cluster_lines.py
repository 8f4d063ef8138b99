"""Verbs that answer lines, on a Ray cluster."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.backend_start import backend_name
from keras_transformer.command_line.line_stream import next_piece
from keras_transformer.commands.arguments.cluster_arguments import LINE_JOB, column_of
from keras_transformer.commands.arguments.long_lines import Line, told_by_line
from keras_transformer.commands.arguments.model_arguments import lines_a_piece, model_digests
from keras_transformer.commands.arguments.search_arguments import settle_search
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell
from keras_transformer.search_options import TRANSLATION

if TYPE_CHECKING:
    from keras_transformer.cluster.line_workers import LineWork

# Of the parsed command line.
CHANGE_NO_LINE = ("arguments", "batch_size", "cluster", "output", "verb", *LINE_JOB)


def run_on_cluster(
    options: argparse.Namespace, work: "LineWork", sides: Sequence[tuple[str, str]]
) -> None:
    """Answer the lines of the inputs on the cluster of `--cluster`, into the folder `--output`.

    Args:
        options: the parsed command line.
        work: what a worker does.
        sides: for each input of the verb the names of its files' and its column's option, such as
            `("source", "source_column")`.
    """
    from keras_transformer.cluster.block_folder import BlockFolder, begun_block_lines
    from keras_transformer.cluster.input_files import is_uri
    from keras_transformer.cluster.line_job import run_lines, scan_inputs
    from keras_transformer.cluster.ray_start import ray_cluster, told_by_ray
    from keras_transformer.cluster.worker_resources import (
        Workers,
        resources_of,
        tell_of_other_work,
    )

    if is_uri(options.output):
        raise UserInputError(
            f"`--output` must be a folder of a file system, not a URI. Received: {options.output}"
        )
    files = _files_of(options, sides)
    settle_search(options)
    names = {name for side in sides for name in side}
    settings = {
        name: value
        for name, value in vars(options).items()
        if name not in CHANGE_NO_LINE and name not in names
    }
    settings["backend"] = backend_name()
    settings["model_digests"] = model_digests(options)
    block_lines = options.block_lines or lines_a_piece(options)
    if (begun := begun_block_lines(options.output) or block_lines) != block_lines:
        tell(f"{options.output}: blocks have {begun:,} lines, as the job began with them")
    workers = Workers(options.workers, options.worker_cpus)
    with (
        ray_cluster(options.cluster) as ray,
        told_by_ray(ray, "Tasks of the Ray cluster that read or answer lines"),
    ):
        tell_of_other_work(ray, resources_of(ray, workers))
        inputs = scan_inputs(ray, files, begun)
        with BlockFolder(options.output, inputs, settings, provisional) as folder:
            run_lines(ray, work, inputs, folder, workers)


def provisional(begun: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """The settings that no finished block of a job depends on.

    Args:
        begun: the settings that the job began with.
        now: those that it would go on with.
    """
    names = set()
    # A line that is too long has ended the job; `score` and `align` can do nothing else with it.
    # Under a smaller limit, lines of finished blocks may be too long.
    if begun.get("long_lines", "refuse") == "refuse" and _most_tokens(now) >= _most_tokens(begun):
        names |= {"long_lines", "max_source_length"}
    if begun.get("long_lines") != "split":
        names.add("source_language")
    if "backend" not in begun:  # by an older version
        names.add("backend")
    return names


def _most_tokens(settings: Mapping[str, Any]) -> int:
    return settings.get("max_source_length") or TRANSLATION.max_source_length


def answer_in_pieces(
    answer: Callable[[list[Line], int], list[str]],
    lines: Iterable[Line],
    first_index: int,
    most: int,
    places: Mapping[str, str],
) -> list[str]:
    """The answers to the lines of a block, as to those of a file: at most `most` lines together.

    Args:
        answer: answers lines, given the number of lines before them.
        lines: lines, or tuples of parallel ones.
        first_index: number of lines before these.
        most: lines of a piece.
        places: as of `told_by_line`.
    """
    rest, answers = iter(lines), []
    while piece := next_piece(rest, most):
        with told_by_line(first_index, places):
            answers += answer(piece, first_index)
        first_index += len(piece)
    return answers


def _files_of(
    options: argparse.Namespace, sides: Sequence[tuple[str, str]]
) -> list[list[tuple[str, str]]]:
    """For each output its inputs, as pairs of path and column."""
    found = []
    for name, column in sides:
        texts = getattr(options, column) or column_of(column)
        found.append([(path, texts) for path in _expanded(getattr(options, name))])
    numbers = [len(paths) for paths in found]
    if len(set(numbers)) > 1:
        flags = " and ".join(f"`--{name}`" for name, _ in sides)
        raise UserInputError(
            f"{flags} must name as many files. Received: {' and '.join(map(str, numbers))}"
        )
    return [list(files) for files in zip(*found, strict=True)]


def _expanded(paths: Iterable[str]) -> Iterator[str]:
    """Paths, absolute and with patterns expanded; URIs as they are."""
    from keras_transformer.cluster.input_files import is_uri
    from keras_transformer.data.text_files import find_text_files
    from keras_transformer.text.sentence_batches import without_surrogates

    for path in paths:
        if is_uri(path):
            yield path
            continue
        for found in find_text_files(path):
            name = str(Path(found).absolute())
            if name != without_surrogates(name):
                raise UserInputError(f"The name of a file on a cluster must be UTF-8: {name!r}")
            yield name
