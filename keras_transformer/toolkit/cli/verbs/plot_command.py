"""`keras-transformer plot`: draw the curves of runs in one figure."""

import argparse
import pathlib
from typing import Any

from keras_transformer.files import check_figure, find_output, write_output
from keras_transformer.toolkit.cli.program import open_in_browser

# The same as in `figures`, whose NumPy takes too long to import for `--help`.
METRICS = ("loss", "perplexity", "bleu", "learning_rate")
AXES = ("step", "minutes", "tokens")


HELP = "compare the curves of runs in a figure"
DESCRIPTION = """Draw the training loss, dev perplexity, dev BLEU and learning rate of runs, one
line for each run (needs matplotlib)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="run directory of a training")
    add(
        "--output",
        default="plot.svg",
        metavar="FILE",
        help="file to write: .svg or .pdf, or .png at 300 dots per inch (default: %(default)s)",
    )
    add("--metric", choices=METRICS, help="what to draw (default: a panel for each metric)")
    add(
        "--x",
        choices=AXES,
        default=AXES[0],
        help="the horizontal axis: updates, minutes of training or target tokens "
        "(default: %(default)s)",
    )
    add("--open", action="store_true", help="open the file in the browser")


def plot(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = check_figure(values.output, "--output")
    find_output(values.output)
    from keras_transformer.evaluation.figures import RunCurves, figure_file, run_figure

    runs = [RunCurves.read(path) for path in values.runs]
    metrics: Any = METRICS if values.metric is None else (values.metric,)
    figure = run_figure(runs, metrics, axis=values.x)
    write_output(values.output, figure_file(figure, ending[1:]))
    print(values.output)
    if values.open:
        open_in_browser(pathlib.Path(values.output).absolute().as_uri())
