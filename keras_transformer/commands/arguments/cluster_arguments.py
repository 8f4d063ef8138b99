"""The flags of verbs that can run on a Ray cluster."""

import argparse

from keras_transformer.command_line.program import positive_int
from keras_transformer.commands.arguments.model_arguments import BATCHES_A_PIECE
from keras_transformer.errors import UserInputError

_WORKERS = ("workers", "worker_cpus")  # names of the parsed command line
_ADDRESS = "`auto` or HOST:PORT of a running one; without ADDRESS"


def add_cluster_arguments(parser: argparse.ArgumentParser, *columns: str) -> None:
    """Add `--cluster` and what goes with it to a verb's parser.

    `columns` are the names of the flags of Parquet columns, such as `source_column`; the default of
    each is its first word, or `text`.
    """
    group = parser.add_argument_group("many files, on a Ray cluster")
    add = group.add_argument
    add(
        "--cluster",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help=f"divide the lines of the files among the workers of a Ray cluster: {_ADDRESS} all "
        "cores of this machine. --output is a folder then, with a file for each input. Inputs may "
        "be URIs such as s3://bucket/news.en.gz, and Parquet. The same command continues after an "
        "interruption",
    )
    _add_workers(group)
    add(
        "--block-lines",
        type=positive_int,
        metavar="N",
        help="lines that a worker answers at a time, and most that a lost worker repeats "
        f"(default: {BATCHES_A_PIECE} batches)",
    )
    for name in columns:
        default = column_of(name)
        add(
            f"--{name.replace('_', '-')}",
            metavar="NAME",
            help=f"column of Parquet files that has the texts (default: {default})",
        )


def add_training_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a training on a cluster to its parser."""
    group = parser.add_argument_group("several machines, on a Ray cluster")
    group.add_argument(
        "--cluster",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help=f"train with the workers of a Ray cluster as one training: {_ADDRESS} this machine "
        "alone. All machines must see the text and the run directory. When one is lost, the others "
        "go on from the last checkpoint",
    )
    _add_workers(group)


def _add_workers(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--workers",
        type=positive_int,
        metavar="N",
        help="processes that have the model (default: one for each GPU of the cluster; without "
        "GPUs, what its CPUs suffice for)",
    )
    group.add_argument(
        "--worker-cpus",
        type=positive_int,
        metavar="N",
        help="CPUs of a worker (default: 4, or those of the smallest machine if they are fewer; "
        "with a GPU 1)",
    )


def column_of(name: str) -> str:
    """The default of a column's flag.

    Example:
        >>> column_of("source_column"), column_of("column")
        ('source', 'text')
    """
    return name.removesuffix("column").rstrip("_") or "text"


def check_cluster(options: argparse.Namespace, *names: str) -> None:
    """Refuse the flags of a cluster, among them those of `names`, without one."""
    if options.cluster is not None:
        return
    for name in (*_WORKERS, *names):
        if getattr(options, name) is not None:
            raise UserInputError(f"`--{name.replace('_', '-')}` needs `--cluster`.")
