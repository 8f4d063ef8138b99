"""Time per training step, and the effect of lower precision on the loss."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchmarks.wmt_lengths import LONGEST
from keras_transformer.argument_checks import positive_int, positive_number
from keras_transformer.files import write_text
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command

if TYPE_CHECKING:
    from benchmarks.timed_training import StepTimes

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
COLUMNS = "{:<15} {:>10}  {:<15} {:>13} {:>7} {:>12} {:>8}"
HEADER = ("precision", "ms/step", "(middle half)", "tokens/s", "MFU", "memory", "compile")
LOSS_ROWS = 10


def main(arguments: Sequence[str] | None = None) -> None:
    """Train on invented sentences and print a table. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    if options.backend:
        os.environ["KERAS_BACKEND"] = options.backend
    start_backend_quietly(devices=False)
    # These import the backend.
    from benchmarks.timed_training import TimedTraining
    from keras_transformer import training

    devices = training.start_devices(options.replicas)
    timed = TimedTraining(options, devices)
    print("\n".join(timed.description()), end="\n\n")
    print(COLUMNS.format(*HEADER))
    losses = {}
    for precision in dict.fromkeys([options.precision, options.compare or options.precision]):
        result = timed.run(precision)
        print(COLUMNS.format(precision, *_figures(result)), flush=True)
        losses[precision] = result.losses
    if len(losses) > 1:
        print("\n" + "\n".join(comparison(losses)))
    if options.losses:
        _write_losses(options.losses, losses)


def comparison(losses: Mapping[str, list[float]]) -> list[str]:
    """Compare the losses of two precisions.

    Args:
        losses: loss of each step, by precision.

    Returns:
        The lines of a table.
    """
    (name, values), (other_name, other_values) = losses.items()
    differences = [value - other for value, other in zip(values, other_values, strict=True)]
    sizes = list(map(abs, differences))
    row = "{:>6}  {:>15}  {:>15}  {:>11}"
    lines = [row.format("step", name, other_name, "difference")]
    every = max(1, len(values) // LOSS_ROWS)
    for step in sorted({1, *range(every, len(values) + 1, every)}):
        losses_of_step = (f"{of[step - 1]:.4f}" for of in (values, other_values))
        lines.append(row.format(step, *losses_of_step, f"{differences[step - 1]:+.4f}"))
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    lines.append(
        f"In {len(sizes)} steps, the losses differ by {sum(sizes) / len(sizes):.5f} on average, "
        f"and by at most {sizes[largest]:.5f} (step {largest + 1})."
    )
    return lines


def _figures(result: "StepTimes") -> tuple[str, ...]:
    low, high = result.middle_half
    return (
        f"{1000 * result.seconds:,.1f}",
        f"({1000 * low:,.1f}-{1000 * high:,.1f})",
        f"{result.target_tokens_per_second:,.0f}",
        "" if result.utilization is None else f"{result.utilization:.1%}",
        f"{result.peak_bytes / 2**30:.1f} GiB",
        f"{result.start_seconds:,.0f} s",
    )


def _write_losses(path: str, losses: Mapping[str, list[float]]) -> None:
    rows = zip(*losses.values(), strict=True)
    table = [["step", *losses], *([step, *row] for step, row in enumerate(rows, start=1))]
    write_text(path, "".join(",".join(map(str, row)) + "\n" for row in table))


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.training_step", description=__doc__)
    add = parser.add_argument
    add("--preset", default="base", metavar="NAME", help="model size: base, big, tiny, ...")
    add("--precision", default="mixed_bfloat16", choices=PRECISIONS)
    add(
        "--compare",
        choices=PRECISIONS,
        help="also train in this precision and compare speed and losses",
    )
    add("--losses", metavar="FILE", help="write the loss of each step to this CSV file")
    add("--steps", type=positive_int, default=200, metavar="N", help="number of training steps")
    add(
        "--batch-tokens",
        type=positive_int,
        default=25_000,
        metavar="N",
        help="maximum number of tokens per step, on each side (default: 25,000, as in the paper)",
    )
    add(
        "--num-layers",
        type=positive_int,
        metavar="N",
        help="number of layers per stack (default: the preset's)",
    )
    add("--vocabulary-size", type=positive_int, default=37_000, metavar="N", help="default: 37,000")
    add(
        "--max-tokens",
        type=positive_int,
        default=LONGEST,
        metavar="N",
        help="maximum number of tokens per sentence",
    )
    add("--backend", choices=("jax", "tensorflow"), help="default: KERAS_BACKEND, or TensorFlow")
    add("--replicas", type=positive_int, metavar="N", help="devices to use (default: all)")
    add("--accumulate", type=positive_int, default=1, metavar="N", help="number of slices per step")
    add(
        "--shapes",
        type=positive_int,
        metavar="N",
        help="number of batch shapes without packing (default: 16 if each shape is compiled)",
    )
    add(
        "--packing",
        action=argparse.BooleanOptionalAction,
        help="pack several pairs into each row, for one batch shape (default: if each shape is "
        "compiled)",
    )
    add(
        "--xla",
        action=argparse.BooleanOptionalAction,
        help="compile with XLA (default: on a GPU; always on JAX)",
    )
    add(
        "--device-tflops",
        type=positive_number,
        metavar="X",
        help="peak TFLOP/s of one device, if unknown",
    )
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
