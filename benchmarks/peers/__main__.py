"""Speed of decoding and training compared with other programs, measured alternately."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers.engines import GPU_ENGINES, chosen_engines
from benchmarks.peers.report import COLUMNS, HEADER, lines, record
from benchmarks.peers.rows import GPU_ROWS, ROWS, Row, growth_rows
from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell, write_json
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command

DATA = "KERAS_TRANSFORMER_TEST_DATA"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    names = options.engines or (GPU_ENGINES if options.gpu else None)
    engines = chosen_engines(names)
    rows = chosen_rows(options.rows, options.growth, options.gpu)
    start_backend_quietly(devices=False)
    from benchmarks.peers.comparison import Comparison  # imports Keras, for the preset sizes

    given = sys.argv[1:] if arguments is None else arguments
    command = shlex.join(["python", "-m", "benchmarks.peers", *given])
    data = Path(os.environ[DATA]) if os.environ.get(DATA) else None
    results = []
    print(COLUMNS.format(*HEADER))
    with tempfile.TemporaryDirectory() as directory:
        comparison = Comparison(Path(directory), data, options.threads, tell_once())
        for result in comparison.run(rows, engines, options.rounds):
            print("\n".join(lines(result)), flush=True)
            results.append(result)
            if options.json:
                write_json(options.json, record(results, command, options.threads, options.rounds))
    print(
        "\nspeed: sentences per second in decoding, target tokens per second in training. "
        "ratio: relative to the best other program of the row."
    )


def chosen_rows(names: Sequence[str] | None, growth: bool, gpu: bool = False) -> list[Row]:
    """Return the rows with these names. None selects all rows or those of `--growth` or `--gpu`.

    Raises:
        UserInputError: an unknown name.
    """
    known = {row.name: row for row in (*ROWS, *GPU_ROWS, *growth_rows())}
    if names is None:
        return list(growth_rows() if growth else GPU_ROWS if gpu else ROWS)
    for name in names:
        if name not in known:
            raise UserInputError(f"--rows must be among {', '.join(known)}. Received: {name}")
    return [known[name] for name in names]


def tell_once() -> Callable[[str], None]:
    """Return a function that prints each line to stderr only once."""
    told = set()

    def tell_new(line: str) -> None:
        if line not in told:
            told.add(line)
            tell(line)

    return tell_new


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.peers", description=__doc__)
    add = parser.add_argument
    add(
        "--rows",
        type=_names,
        metavar="NAMES",
        help="comma-separated rows to measure (default: all)",
    )
    add(
        "--engines",
        type=_names,
        metavar="NAMES",
        help="comma-separated engines, such as ctranslate2-int8, or programs with all precisions "
        "(default: all except keras_transformer_jax and keras_transformer-bfloat16)",
    )
    alternatives = parser.add_mutually_exclusive_group()
    alternatives.add_argument(
        "--growth",
        action="store_true",
        help="measure beam search with increasing length, batch size and beam size",
    )
    alternatives.add_argument(
        "--gpu",
        action="store_true",
        help="compare large bfloat16 batches with Hugging Face, for a GPU; also runs on a CPU",
    )
    add(
        "--rounds",
        type=positive_int,
        default=5,
        metavar="N",
        help="default: 5, after a warm-up round",
    )
    add("--threads", type=positive_int, default=2, metavar="N", help="default: 2")
    add(
        "--json",
        metavar="FILE",
        help="write all measurements to this file, with the machine and versions",
    )
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
