"""Size, BLEU and speed of a model's exports, compared with the model."""

import argparse
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.argument_checks import number_from_zero, positive_int
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command

if TYPE_CHECKING:
    from benchmarks.exported_systems import Result

COLUMNS = "{:<12} {:<10} {:<16} {:>9} {:>7} {:>7} {:>11} {:>7} {:>12} {:>7}"
HEADER = (
    "runtime",
    "precision",
    "search",
    "MB",
    "BLEU",
    "chrF",
    "equal",
    "no tie",
    "sentences/s",
    "ratio",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Export a run in every format, translate a test set and print a table."""
    options = _parser().parse_args(arguments)
    start_backend_quietly()
    from benchmarks.exported_systems import Measurement, systems
    from keras_transformer.data.parallel_text import read_parallel_text
    from keras_transformer.evaluation.scores import bleu_metric

    bleu_metric(options.tokenize)  # report an unknown tokenizer immediately
    sources, references = read_parallel_text(options.source, options.reference)
    print(COLUMNS.format(*HEADER))
    with tempfile.TemporaryDirectory() as directory:
        measurement = Measurement(sources, references, options.tokenize)
        for system in systems(options, pathlib.Path(directory)):
            print(COLUMNS.format(*_figures(measurement.of(system))), flush=True)
    print(f"\nBLEU {measurement.bleu_signature}")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.exports", description=__doc__)
    add = parser.add_argument
    add("run", metavar="RUN", help="run directory")
    add("--source", required=True, metavar="FILE", help="source sentences, plain or .gz")
    add("--reference", required=True, metavar="FILE", help="reference translations, plain or .gz")
    add("--tokenize", default="13a", metavar="NAME", help="sacrebleu tokenizer (default: 13a)")
    add("--beam-size", type=positive_int, default=4, metavar="N", help="default: 4")
    add("--alpha", type=number_from_zero, default=0.6, metavar="A", help="default: 0.6")
    add("--batch-size", type=positive_int, default=32, metavar="N", help="default: 32")
    add("--threads", type=positive_int, default=2, metavar="N", help="default: 2")
    return parser


def _figures(result: "Result") -> tuple[str, ...]:
    return (
        result.system.runtime,
        result.system.precision,
        result.system.search,
        f"{result.megabytes:.2f}",
        f"{result.bleu:.2f}",
        f"{result.chrf:.2f}",
        f"{result.equal} / {result.sentences}",
        str(result.beyond_ties),
        f"{result.sentences_per_second:.1f}",
        f"{result.ratio:.2f}",
    )


if __name__ == "__main__":
    sys.exit(run_command(main))
