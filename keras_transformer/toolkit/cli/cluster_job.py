"""Flags and line processing for verbs that run on a Ray cluster."""

import argparse
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import (
    json_bytes,
    note,
    remove_left_over,
    write_json,
    writing,
)
from keras_transformer.input_files import read_record
from keras_transformer.installation import backend_name
from keras_transformer.search_options import TRANSLATION
from keras_transformer.toolkit.cli.named_models import BATCHES_A_PIECE, NamedModels
from keras_transformer.toolkit.cli.text_streams import (
    ResumableOutput,
    check_new_output,
    check_same_settings,
    line_bar,
    sole_writer,
)

if TYPE_CHECKING:
    from keras_transformer.toolkit.cluster.cluster_inputs import ScannedFile
    from keras_transformer.toolkit.cluster.line_workers import LineWork
    from keras_transformer.toolkit.cluster.worker_resources import Workers

_RECORD = ".job.json"
_FILES = f"{_RECORD} and the other files in it"
_WORKERS = {  # attribute of the parsed command line -> help text
    "workers": "number of worker processes, each of which loads the model (default: one per GPU in "
    "the cluster; without GPUs, as many as the CPUs allow)",
    "worker_cpus": "CPUs per worker (default: 4, or fewer if the smallest machine has fewer; 1 "
    "with a GPU)",
}


def add_cluster_arguments(parser: argparse.ArgumentParser, *columns: str) -> None:
    """Add `--cluster` and related flags to a verb's parser.

    `columns` lists flags for Parquet columns, such as `source_column`. See `column_of` for their
    defaults.
    """
    group = parser.add_argument_group("many files on a Ray cluster")
    _add_cluster(
        group,
        "divide the lines of the files among the workers of a Ray cluster",
        "all cores of this machine",
        "--output is then a folder with one file per input. Inputs may be Parquet files, and URIs "
        "such as s3://bucket/news.en.gz. Rerun the same command to resume after an interruption",
    )
    group.add_argument(
        "--block-lines",
        type=positive_int,
        metavar="N",
        help="number of lines that a worker processes at a time; if the worker is lost, all of "
        f"them are processed again (default: {BATCHES_A_PIECE} batches)",
    )
    for name in columns:
        help_text = f"Parquet column that contains the text (default: {column_of(name)})"
        group.add_argument(f"--{name.replace('_', '-')}", metavar="NAME", help=help_text)


def add_training_cluster(parser: argparse.ArgumentParser) -> None:
    """Add flags for training on a cluster to a parser."""
    group = parser.add_argument_group("several machines on a Ray cluster")
    _add_cluster(
        group,
        "train on the workers of a Ray cluster",
        "only this machine",
        "All machines must be able to access the text and the run directory. If a machine is lost, "
        "the others resume from the last checkpoint",
    )


def _add_cluster(
    group: argparse._ArgumentGroup, what: str, without_address: str, more: str
) -> None:
    """Add `--cluster` and the worker flags. The text arguments are parts of the help text."""
    help_text = (
        f"{what}; ADDRESS is `auto`, or HOST:PORT of a running cluster (without ADDRESS: "
        f"{without_address}). {more}"
    )
    group.add_argument("--cluster", nargs="?", const="local", metavar="ADDRESS", help=help_text)
    for name, help_text in _WORKERS.items():
        flag = f"--{name.replace('_', '-')}"
        group.add_argument(flag, type=positive_int, metavar="N", help=help_text)


def column_of(name: str) -> str:
    """Return the default value of a column flag.

    Example:
        >>> column_of("source_column"), column_of("column")
        ('source', 'text')
    """
    return name.removesuffix("column").rstrip("_") or "text"


def check_cluster(values: argparse.Namespace, files: Iterable[str] = (), *names: str) -> None:
    """Refuse flags that require `--cluster` if it is missing.

    Args:
        values: the parsed command line.
        files: flags that accept multiple files only with `--cluster`.
        names: other flags that require `--cluster`.
    """
    if values.cluster is not None:
        return
    for name in (*_WORKERS, *names):
        if getattr(values, name) is not None:
            raise UserInputError(f"`--{name.replace('_', '-')}` needs `--cluster`.")
    for name in files:
        if len(given := getattr(values, name) or ()) > 1:
            raise UserInputError(
                f"`--{name}` accepts several files only with `--cluster`. Received: {len(given)}"
            )


def block_lines_of(values: argparse.Namespace, models: NamedModels) -> int:
    """Return the number of lines that a worker processes at a time."""
    return values.block_lines or models.lines_a_piece


def run_on_cluster(
    values: argparse.Namespace,
    work: "LineWork",
    inputs: Mapping[str, str],
    models: NamedModels,
    settings: Mapping[str, Any],
) -> None:
    """Process the lines of files on a cluster.

    Args:
        values: parsed command line with the cluster, the output folder and the files.
        work: function that loads the model in each worker.
        inputs: dict that maps file flags to their Parquet column flags. The files of multiple flags
            are parallel.
        models: models to use.
        settings: all settings other than files and weights that affect the output. Resuming
            requires the same settings.
    """
    from keras_transformer.toolkit.cluster.cluster_inputs import is_uri
    from keras_transformer.toolkit.cluster.line_workers import scan_inputs
    from keras_transformer.toolkit.cluster.ray_start import ray_cluster, told_by_ray
    from keras_transformer.toolkit.cluster.worker_resources import (
        Workers,
        resources_of,
        tell_of_other_work,
    )

    if is_uri(values.output):
        raise UserInputError(
            f"`--output` must be a folder of a file system, not a URI. Received: {values.output}"
        )
    files = _side_by_side(values, inputs)
    paths = [Path(values.output, name) for name in output_names([path for (path, _), *_ in files])]
    settings = {**settings, "backend": backend_name(), "model_digests": models.digests()}
    with (
        ray_cluster(values.cluster) as ray,
        told_by_ray(ray, "Tasks of the Ray cluster that read or process lines"),
        _locked(Path(values.output)) as folder,
    ):
        resources = resources_of(ray, Workers(values.workers, values.worker_cpus))
        tell_of_other_work(ray, resources)
        begun, block_lines = None, block_lines_of(values, models)
        part_lines = block_lines
        if (folder / _RECORD).exists():
            begun = read_record(folder / _RECORD, _Record, f"Remove {_FILES} to start over.")
            part_lines = begun.part_lines
        else:
            for path in paths:
                check_new_output(path)
        if part_lines != block_lines:
            note(f"{folder}: keeping blocks of {part_lines:,} lines, with which the job started")
        scanned = scan_inputs(ray, files, part_lines)
        record = _Record(
            json.loads(json_bytes(settings)),  # as they will be read back
            msgspec.to_builtins([[one.file for one in parallel] for parallel in scanned]),
            part_lines,
        )
        if begun:
            _check_same(folder, begun, record)
        write_json(folder / _RECORD, msgspec.to_builtins(record))
        # Fixed here, so that the job does not start more workers if a lost machine returns.
        workers = Workers(resources.number, resources.num_cpus)
        _write_outputs(ray, work, scanned, paths, workers)
        remove_left_over(folder)
        (folder / _RECORD).unlink(missing_ok=True)


class _Record(msgspec.Struct):
    """The contents of `.job.json`: everything that affects the output."""

    settings: dict[str, Any]
    inputs: list[Any]  # for each output, the state of the files when they were read
    part_lines: Annotated[int, msgspec.Meta(ge=1)]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Create a folder if necessary and lock it to exclude other jobs."""
    with contextlib.ExitStack() as stack:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(sole_writer(folder, folder / ".job.lock"))
        yield folder


def _check_same(folder: Path, begun: _Record, record: _Record) -> None:
    """Refuse to resume a different job."""
    if begun.inputs != record.inputs:
        raise UserInputError(
            f"{folder} was started with different input lines. Pass the same input to resume, or "
            f"remove {_FILES} to start over."
        )
    may_differ = provisional(begun.settings, record.settings)
    check_same_settings(
        f"{folder} was started", begun.settings, record.settings, _FILES, may_differ
    )


def _write_outputs(
    ray: ModuleType,
    work: "LineWork",
    inputs: "Sequence[Sequence[ScannedFile]]",
    paths: Sequence[Path],
    workers: "Workers",
) -> None:
    """Write each unfinished output one part at a time."""
    from keras_transformer.toolkit.cluster.line_workers import answered_parts

    totals = [files[0].file.lines for files in inputs]
    done = [total if path.exists() else 0 for path, total in zip(paths, totals, strict=True)]
    parts = answered_parts(ray, work, inputs, done, workers)
    with contextlib.closing(parts), line_bar(sum(totals), sum(done)) as bar:
        for index, (path, total) in enumerate(zip(paths, totals, strict=True)):
            if path.exists():
                continue
            with ResumableOutput(path, {}, total, hide=True) as output:
                if output.lines_read > done[index]:  # resumed
                    done[index] = output.lines_read
                    bar.update(output.lines_read)
                while output.lines_read < total:
                    part = next(parts)
                    output.append(*part)
                    bar.update(part.lines_read)


def output_names(paths: Sequence[str]) -> list[str]:
    """Return output file names: the input names with the suffixes of uncompressed text.

    Example:
        >>> output_names(["/data/news.en.gz", "s3://bucket/web.parquet"])
        ['news.en', 'web.txt']
    """
    from keras_transformer.toolkit.cluster.cluster_inputs import PARQUET, path_of

    names: list[str] = []
    for path in paths:
        name = path_of(path).rstrip("/").rpartition("/")[2].removesuffix(".gz")
        if name.endswith(PARQUET):
            name = name.removesuffix(PARQUET) + ".txt"
        if name in names:
            first = paths[names.index(name)]
            raise UserInputError(
                "The names of the inputs must differ, because the outputs are named after them. "
                f"Received: {first} and {path}"
            )
        names.append(name)
    return names


def provisional(begun: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Return the settings that may change because no finished block depends on them.

    Args:
        begun: settings with which the job was started.
        now: settings with which to resume.
    """
    names = set()
    # A line that was too long stopped the job, as it always does for `score` and `align`. With a
    # smaller limit, lines in finished blocks may be too long.
    if begun.get("long_lines", "refuse") == "refuse" and _most_tokens(now) >= _most_tokens(begun):
        names |= {"long_lines", "max_source_length"}
    if begun.get("long_lines") != "split":
        names.add("source_language")
    return names


def _most_tokens(settings: Mapping[str, Any]) -> int:
    return settings.get("max_source_length") or TRANSLATION.max_source_length


def _side_by_side(
    values: argparse.Namespace, inputs: Mapping[str, str]
) -> list[list[tuple[str, str]]]:
    """Return the parallel inputs of each output as pairs of path and column."""
    columns = [getattr(values, name) or column_of(name) for name in inputs.values()]
    paths = [_expanded(getattr(values, name)) for name in inputs]
    found = [[(path, name) for path in each] for each, name in zip(paths, columns, strict=True)]
    numbers = [len(files) for files in found]
    if len(set(numbers)) > 1:
        flags = " and ".join(f"`--{name}`" for name in inputs)
        raise UserInputError(
            f"{flags} must name the same number of files. "
            f"Received: {' and '.join(map(str, numbers))}"
        )
    return [list(files) for files in zip(*found, strict=True)]


def _expanded(paths: Iterable[str]) -> Iterator[str]:
    """Yield absolute paths with patterns expanded. URIs are unchanged."""
    from keras_transformer.argument_checks import without_surrogates
    from keras_transformer.data.parallel_text import find_text_files
    from keras_transformer.toolkit.cluster.cluster_inputs import is_uri

    for path in paths:
        if is_uri(path):
            yield path
            continue
        for found in find_text_files(path):
            name = str(Path(found).absolute())
            if name != without_surrogates(name):
                raise UserInputError(f"The name of a file on a cluster must be UTF-8: {name!r}")
            yield name
