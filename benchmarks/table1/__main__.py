"""Time and memory of attention, recurrence and convolution by sequence length."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence

from benchmarks.table1.figure import draw
from benchmarks.table1.layer_types import NAMES, Sizes
from benchmarks.table1.measuring import Measuring
from benchmarks.table1.report import (
    Measurements,
    heading,
    memory_row,
    record,
    summary,
    time_row,
)
from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import check_figure, find_output, write_bytes, write_json
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the tables. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    sizes = _checked_sizes(options)
    figure = check_figure(options.plot, "--plot") if options.plot else ""
    for flag, path in (("--json", options.json), ("--plot", options.plot)):
        if path:
            find_output(path, flag)
    if options.backend:
        os.environ["KERAS_BACKEND"] = options.backend
    start_backend_quietly(devices=False)
    from keras_transformer.runs.run_records import machine, package_versions

    measuring = Measuring(options.layers, sizes, options.rounds, options.xla)
    measured = Measurements.of(options.layers, sizes)
    print(_description(sizes, package_versions(), options.xla), end="\n\n")
    print(heading(measured, "ms"))
    for length in options.lengths:
        measured.seconds[length] = measuring.seconds(length)
        print(time_row(length, measured.seconds[length]), flush=True)
    print("\n" + heading(measured, "MB"))
    for length in options.lengths:
        measured.peak_bytes[length] = measuring.peak_bytes(length)
        print(memory_row(length, measured.peak_bytes[length]), flush=True)
    print("\n" + "\n".join(summary(measured)))
    if options.json:
        given = sys.argv[1:] if arguments is None else arguments
        command = shlex.join(["python", "-m", "benchmarks.table1", *given])
        facts = {"machine": machine(), "versions": package_versions(), "xla": options.xla}
        write_json(options.json, record(measured, command=command, rounds=options.rounds, **facts))
    if figure:
        write_bytes(options.plot, draw(measured, figure[1:]))


def _description(sizes: Sizes, versions: dict[str, str], xla: bool) -> str:
    backend = versions["backend"]
    compiler = ", XLA" if xla or backend == "jax" else ""
    return (
        f"Forward pass and gradient of a layer: {backend} {versions[backend]}{compiler}, float32, "
        f"batch {sizes.batch_size}, d = {sizes.hidden_dim}, {sizes.num_heads} heads, "
        f"r = {sizes.window}, k = {sizes.kernel_size}"
    )


def _checked_sizes(options: argparse.Namespace) -> Sizes:
    sizes = Sizes(
        options.batch_size,
        options.hidden_dim,
        options.num_heads,
        options.window,
        options.kernel_size,
    )
    if sizes.hidden_dim % sizes.num_heads:
        raise UserInputError(
            "--hidden-dim must be a multiple of --num-heads. Received: "
            f"{sizes.hidden_dim} and {sizes.num_heads}"
        )
    for flag, value in (("--window", sizes.window), ("--kernel-size", sizes.kernel_size)):
        if value < 3 or value % 2 == 0:
            raise UserInputError(f"{flag} must be odd and at least 3. Received: {value}")
    return sizes


def _lengths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"must be positive integers separated by commas: {text!r}")
    return sorted(set(map(int, parts)))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"must be among {', '.join(NAMES)}: {unknown[0]!r}")
    return [name for name in NAMES if name in names]


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.table1", description=__doc__)
    add = parser.add_argument
    lengths = ",".join(map(str, LENGTHS))
    add("--lengths", type=_lengths, default=LENGTHS, metavar="N,...", help=f"default: {lengths}")
    add("--layers", type=_names, default=NAMES, metavar="NAMES", help=f"default: {','.join(NAMES)}")
    add("--batch-size", type=positive_int, default=1, metavar="N", help="default: 1")
    add("--hidden-dim", type=positive_int, default=256, metavar="N", help="default: 256")
    add("--num-heads", type=positive_int, default=4, metavar="N", help="default: 4")
    add(
        "--window",
        type=positive_int,
        default=65,
        metavar="N",
        help="number of positions that each position attends to (default: 65)",
    )
    add("--kernel-size", type=positive_int, default=3, metavar="N", help="default: 3")
    add(
        "--rounds",
        type=positive_int,
        default=5,
        metavar="N",
        help="default: 5, after a warm-up round",
    )
    add("--backend", choices=("jax", "tensorflow"), help="default: KERAS_BACKEND, or TensorFlow")
    add(
        "--xla",
        action="store_true",
        help="compile TensorFlow's graphs with XLA; JAX always does so",
    )
    add(
        "--json",
        metavar="FILE",
        help="write all measurements to this file, with the machine and versions",
    )
    add("--plot", metavar="FILE", help="draw a figure to this PNG, PDF or SVG file")
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
