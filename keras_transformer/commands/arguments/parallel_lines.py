"""The flags of verbs that read sources and targets and answer each pair of lines with a line."""

import argparse

from keras_transformer.commands.arguments.cluster_arguments import (
    LINE_JOB,
    add_cluster_arguments,
    check_cluster,
)
from keras_transformer.commands.arguments.model_arguments import add_model_arguments
from keras_transformer.errors import UserInputError

COLUMNS = ("source_column", "target_column")


def add_parallel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a model, the texts and a cluster to a verb's parser."""
    add_model_arguments(parser)
    add = parser.add_argument
    for name, text in (("source", "source sentences"), ("target", "their translations")):
        add(
            f"--{name}",
            required=True,
            nargs="+",
            metavar="FILE",
            help=f"{text}, one a line, or .gz; with --cluster several files and patterns",
        )
    add("--output", metavar="DIR", help="with --cluster, the folder to write")
    add_cluster_arguments(parser, *COLUMNS)


def check_parallel(options: argparse.Namespace) -> None:
    """Refuse flags that do not go together."""
    check_cluster(options, *LINE_JOB, *COLUMNS)
    if (options.cluster is None) != (options.output is None):
        raise UserInputError("`--output` and `--cluster` must be given together.")
    for name in ("source", "target"):
        files = getattr(options, name)
        if options.cluster is None and len(files) > 1:
            raise UserInputError(
                f"`--{name}` takes several files with `--cluster` alone. Received: {len(files)}"
            )
