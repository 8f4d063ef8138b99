"""`keras-transformer cost`: the training cost of runs, beside the paper's Table 2."""

import argparse
import json

from keras_transformer.argument_checks import positive_number
from keras_transformer.files import check_figure, find_output, write_output
from keras_transformer.installation import start_backend_quietly

HELP = "show the training cost of runs in FLOPs, beside the paper's Table 2"
DESCRIPTION = """Print the floating-point operations of training runs, computed the paper's way
(time x devices x sustained FLOP/s of one device) and counted from the architecture, with BLEU on
each run's own test text, beside the paper's Table 2."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run directory of a training")
    add(
        "--device-tflops",
        type=positive_number,
        metavar="T",
        help="TFLOP/s that one device of the runs sustains (default: from the runs' records; the "
        "speed of a CPU is not known)",
    )
    add("--csv", metavar="FILE", help="write the table as CSV")
    add(
        "--plot",
        metavar="FILE",
        help="draw BLEU over FLOPs, as a .png, .pdf or .svg file (needs matplotlib)",
    )
    add("--json", action="store_true", help="print JSON, for programs")


def cost(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = "" if values.plot is None else check_figure(values.plot, "--plot")
    for flag in ("csv", "plot"):
        if getattr(values, flag) is not None:
            find_output(getattr(values, flag), f"--{flag}")
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
