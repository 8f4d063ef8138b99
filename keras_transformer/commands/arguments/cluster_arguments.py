"""The flags of verbs that can run on a Ray cluster."""

import argparse

from keras_transformer.command_line.command_errors import positive_int
from keras_transformer.commands.arguments.model_arguments import BATCHES_A_PIECE
from keras_transformer.errors import UserInputError

# Names of the parsed command line; none of them changes an output line.
WORKERS = ("workers", "worker_cpus", "block_lines")


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
        help="divide the lines of the files among the workers of a Ray cluster: `auto` or "
        "HOST:PORT of a running one; without ADDRESS all cores of this machine. --output is a "
        "folder then, with a file for each input. Inputs may be URIs such as "
        "s3://bucket/news.en.gz, and Parquet. The same command continues after an interruption",
    )
    add(
        "--workers",
        type=positive_int,
        metavar="N",
        help="processes that have the model (default: one for each GPU of the cluster; without "
        "GPUs, what its CPUs suffice for)",
    )
    add(
        "--worker-cpus",
        type=positive_int,
        metavar="N",
        help="CPUs of a worker (default: 4, or those of the smallest machine if they are fewer; "
        "with a GPU 1)",
    )
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


def column_of(name: str) -> str:
    """The default of a column's flag.

    Example:
        >>> column_of("source_column"), column_of("column")
        ('source', 'text')
    """
    return name.removesuffix("column").rstrip("_") or "text"


def check_cluster(options: argparse.Namespace, *columns: str) -> None:
    """Refuse the flags of a cluster without one."""
    if options.cluster is not None:
        return
    for name in (*WORKERS, *columns):
        if getattr(options, name) is not None:
            raise UserInputError(f"`--{name.replace('_', '-')}` needs `--cluster`.")
