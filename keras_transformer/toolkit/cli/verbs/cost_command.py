"""`keras-transformer cost`: compare the training cost of runs with the paper's Table 2."""

import argparse
import dataclasses
import json

from keras_transformer.argument_checks import positive_number
from keras_transformer.files import check_figure, find_output, write_output
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import add_flags, flag

HELP = "show the training cost of runs in FLOPs, compared with the paper's Table 2"
DESCRIPTION = """Print the floating-point operations used to train each run, computed as in the
paper (time x devices x sustained FLOP/s of one device) and counted from the architecture. The table
also shows BLEU on each run's own test set, and the values of the paper's Table 2."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    device_tflops: float | None = flag(
        "sustained TFLOP/s of one device (default: from the runs' records; unknown for CPUs)",
        type=positive_number,
        metavar="T",
    )
    csv: str | None = flag("write the table as CSV", metavar="FILE")
    plot: str | None = flag(
        "plot BLEU against FLOPs in a .png, .pdf or .svg file (needs matplotlib)", metavar="FILE"
    )
    json: bool = flag("print JSON", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    add_flags(parser, _Flags)


def cost(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = "" if values.plot is None else check_figure(values.plot, "--plot")
    if values.csv is not None:
        find_output(values.csv, "--csv")
    start_backend_quietly(devices=False)
    from keras_transformer.evaluation.figures import figure_file
    from keras_transformer.evaluation.training_cost import (
        cost_figure,
        costs_csv,
        costs_record,
        costs_text,
        run_cost,
    )

    costs = [run_cost(run, values.device_tflops) for run in values.runs]
    if values.csv is not None:
        write_output(values.csv, costs_csv(costs), "--csv")
    if values.plot is not None:
        write_output(values.plot, figure_file(cost_figure(costs), ending[1:]), "--plot")
    record = json.dumps(costs_record(costs), indent=2, ensure_ascii=False)
    print(record if values.json else costs_text(costs))
