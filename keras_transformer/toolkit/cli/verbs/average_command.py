"""`keras-transformer average`: average a run's checkpoints into a new checkpoint."""

import argparse

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.installation import start_backend_quietly

HELP = "average checkpoints of a run"
DESCRIPTION = """Average the weights of several checkpoints, write the result next to them, and
print its name for use with `--checkpoint`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument("run", metavar="RUN", help="run directory")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--last", type=positive_int, metavar="N", help="average the last N checkpoints"
    )
    which.add_argument(
        "--best",
        type=positive_int,
        metavar="N",
        help="average the N checkpoints with the best validation results",
    )


def average(values: argparse.Namespace) -> None:
    """Run the verb."""
    start_backend_quietly()
    from keras_transformer.runs.run_checkpoints import step_of
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.training.checkpoints.checkpoints import average_checkpoints

    run = RunDirectory.open(values.run)
    run.check_no_links()
    kind, n = ("last", values.last) if values.last else ("best", values.best)
    if kind == "last":
        save_every = run.settings().get("save_every")
        there = run.checkpoints.last(save_every if isinstance(save_every, int) else None)
    else:
        there = run.checkpoints.best()
    there = run.checkpoints.whole(there)
    if len(there) < n:
        noun = ("" if kind == "last" else "best ") + (
            "checkpoint" if len(there) == 1 else "checkpoints"
        )
        raise UserInputError(f"The run {run.path} has {len(there)} {noun}. Received: --{kind} {n}")
    chosen = sorted(there[-n:] if kind == "last" else there[:n])
    destination = run.checkpoints.average_path(kind, n, step_of(chosen[-1]))
    average_checkpoints(chosen, destination)
    print(destination.name.removesuffix(".weights.h5"))
