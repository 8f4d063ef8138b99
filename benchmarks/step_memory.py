"""Memory that XLA plans for a training step on JAX. The step is compiled but not run.

python -m benchmarks.step_memory --preset base --rows 392 --length 64
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_transformer.argument_checks import positive_int
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.program import CommandParser, run_command


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the sizes of a step's buffers. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    os.environ["KERAS_BACKEND"] = "jax"
    start_backend_quietly(devices=False)
    sizes = planned_bytes(options)
    print(f"{options.preset}, {options.precision}, {options.rows} x {options.length} tokens a side")
    for name, size in {**sizes, "sum": sum(sizes.values())}.items():
        print(f"{name:<10} {size / 2**30:8.2f} GiB")


def planned_bytes(options: argparse.Namespace) -> dict[str, int]:
    """Return the sizes in bytes of a step's temporary values, arguments and outputs.

    Args:
        options: the parsed command line.
    """
    import jax

    from benchmarks.timed_training import compile_as_recipes
    from keras_transformer import models, training

    model = training.training_model(
        models.build_transformer(
            options.preset,
            vocabulary_size=models.padded_vocabulary_size(options.vocabulary_size),
            dtype=options.precision,
        )
    )
    compile_as_recipes(
        model,
        options.preset,
        options.vocabulary_size,
        precision=options.precision,
        jit_compile=True,
    )
    model.train_on_batch(*_batch(1, 2))  # creates the variables of the metrics and the optimizer
    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([variable.value for variable in each] for each in variables)
    specs = jax.tree.map(
        lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype),
        (state, _batch(options.rows, options.length)),
    )
    plan: Any = (
        jax.jit(model.train_step, donate_argnums=0).lower(*specs).compile().memory_analysis()
    )
    return {
        "temporary": plan.temp_size_in_bytes,
        "arguments": plan.argument_size_in_bytes,
        "outputs": plan.output_size_in_bytes,
    }


def _batch(rows: int, length: int) -> tuple[Any, ...]:
    ids = np.ones((rows, length), "int32")
    return {"source_ids": ids, "target_ids": ids}, ids, np.ones((rows, length), "float32")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.step_memory", description=__doc__)
    add = parser.add_argument
    add("--preset", default="base", metavar="NAME", help="model size: base, big, tiny, ...")
    add("--precision", default="float32", metavar="POLICY", help="dtype policy of the layers")
    add(
        "--vocabulary-size",
        type=positive_int,
        default=37_000,
        metavar="N",
        help="default: 37,000, as in the paper",
    )
    add("--rows", type=positive_int, default=392, metavar="N", help="sentences per step")
    add("--length", type=positive_int, default=64, metavar="N", help="tokens per sentence")
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
