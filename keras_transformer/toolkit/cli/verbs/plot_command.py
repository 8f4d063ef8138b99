"""`keras-transformer plot`: plot the curves of runs in one figure."""

import argparse
import dataclasses
import pathlib
from typing import Any

from keras_transformer.files import check_figure, write_output
from keras_transformer.toolkit.cli.program import add_flags, flag, open_in_browser

# Duplicated from `figures`, whose NumPy import is too slow for `--help`.
METRICS = ("loss", "perplexity", "bleu", "learning_rate")
AXES = ("step", "minutes", "tokens")


HELP = "plot the curves of runs in one figure"
DESCRIPTION = """Plot the training loss, dev perplexity, dev BLEU and learning rate of runs, with
one line for each run (needs matplotlib)."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    output: str = flag(
        "output file: .svg, .pdf, or .png at 300 dots per inch (default: %(default)s)",
        "plot.svg",
        metavar="FILE",
    )
    metric: str | None = flag("metric to plot (default: a panel for each)", choices=METRICS)
    x: str = flag(
        "horizontal axis: updates, minutes of training or target tokens (default: %(default)s)",
        AXES[0],
        choices=AXES,
    )
    open: bool = flag("open the file in the browser", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run directory")
    add_flags(parser, _Flags)


def plot(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = check_figure(values.output, "--output")
    from keras_transformer.evaluation.figures import RunCurves, figure_file, run_figure

    runs = [RunCurves.read(path) for path in values.runs]
    metrics: Any = METRICS if values.metric is None else (values.metric,)
    figure = run_figure(runs, metrics, axis=values.x)
    write_output(values.output, figure_file(figure, ending[1:]))
    print(values.output)
    if values.open:
        open_in_browser(pathlib.Path(values.output).absolute().as_uri())
