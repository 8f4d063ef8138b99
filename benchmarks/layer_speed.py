"""Speed of an encoder layer compared with an equivalent block of Keras layers.

KERAS_BACKEND=jax python -m benchmarks.layer_speed --rounds 50
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer import layers
from keras_transformer.argument_checks import positive_int
from keras_transformer.installation import start_backend_quietly
from keras_transformer.layers.sublayers import LayerNormalization
from keras_transformer.toolkit.cli.program import CommandParser, run_command


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the times and ratios for each part. `arguments` are command-line arguments."""
    options = _parser().parse_args(arguments)
    start_backend_quietly(devices=False)
    shape = (options.rows, options.length, options.width)
    print(f"{keras.backend.backend()}, {options.precision}, {shape}, dropout {options.dropout}")
    print(f"{'ms, ours / Keras':<18}{'forward':>26}{'training step':>26}")
    for name, (ours, theirs) in _parts(options).items():
        found = []
        for method in ("predict_on_batch", "train_on_batch"):
            times = _paired_times(ours, theirs, method, shape, options)
            found.append("{:8.2f} / {:6.2f} = {:5.3f}".format(*times))
        print(f"{name:<18}{found[0]:>26}{found[1]:>26}", flush=True)


def _parts(options: argparse.Namespace) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return each part as two functions of vectors, one with our layers and one with Keras's."""
    heads, inner, rate = options.heads, 4 * options.width, options.dropout
    epsilon = 1e-6

    def attention(x: Any) -> Any:
        return layers.MultiHeadAttention(heads, options.width // heads)(x)

    def keras_attention(x: Any) -> Any:
        each = keras.layers.MultiHeadAttention(heads, options.width // heads, use_bias=False)
        return each(x, x)

    def feed_forward(x: Any) -> Any:
        return layers.FeedForward(inner)(x)

    def keras_feed_forward(x: Any) -> Any:
        expanded = keras.layers.Dense(inner, activation="relu")(x)
        return keras.layers.Dense(options.width)(expanded)

    def encoder_layer(x: Any) -> Any:
        return layers.TransformerEncoderLayer(inner, heads, dropout=rate)(x)

    def keras_encoder_layer(x: Any) -> Any:
        for part in (keras_attention, keras_feed_forward):
            x = x + keras.layers.Dropout(rate)(part(x))
            x = keras.layers.LayerNormalization(epsilon=epsilon)(x)
        return x

    return {
        "encoder layer": (encoder_layer, keras_encoder_layer),
        "attention": (attention, keras_attention),
        "feed-forward": (feed_forward, keras_feed_forward),
        "normalization": (
            lambda x: LayerNormalization(epsilon=epsilon)(x),
            lambda x: keras.layers.LayerNormalization(epsilon=epsilon)(x),
        ),
    }


def _paired_times(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    method: str,
    shape: tuple[int, ...],
    options: argparse.Namespace,
) -> tuple[float, float, float]:
    """Run both functions alternately. Return their median milliseconds and the median ratio."""
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    batch = (x,) if method == "predict_on_batch" else (x, x)
    calls = [getattr(_model(part, shape, options), method) for part in (ours, theirs)]
    for call in calls:  # the first call compiles
        call(*batch)
        call(*batch)
    times = np.empty((options.rounds, 2))
    for number in range(options.rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            began = time.perf_counter()
            calls[which](*batch)
            times[number, which] = time.perf_counter() - began
    one, other = 1000 * np.median(times, axis=0)
    return one, other, float(np.median(times[:, 0] / times[:, 1]))


def _model(part: Callable[..., Any], shape: tuple[int, ...], options: argparse.Namespace) -> Any:
    """Return a stack of copies of a part, compiled with Keras's defaults."""
    keras.config.set_dtype_policy(options.precision)
    inputs = keras.Input(shape[1:], batch_size=shape[0])
    outputs = inputs
    for _ in range(options.layers):
        outputs = part(outputs)
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m benchmarks.layer_speed", description=__doc__)
    add = parser.add_argument
    add("--rows", type=positive_int, default=32, metavar="N", help="sequences per batch")
    add("--length", type=positive_int, default=64, metavar="N", help="positions per sequence")
    add("--width", type=positive_int, default=256, metavar="N", help="width of the vectors")
    add("--heads", type=positive_int, default=4, metavar="N", help="number of attention heads")
    add("--layers", type=positive_int, default=2, metavar="N", help="copies of the layer")
    add("--dropout", type=float, default=0.1, metavar="RATE", help="dropout rate for the layer")
    add("--precision", default="float32", metavar="POLICY", help="dtype policy of the layers")
    add("--rounds", type=positive_int, default=30, metavar="N", help="timed pairs per part")
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
