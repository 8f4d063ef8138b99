"""The number of compiled shapes: as it is said, and as XLA counts it."""

import errno
import io
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_transformer.training import CompiledShapes


def test_shapes_are_counted_and_said_when_there_are_more(capsys):
    callback = CompiledShapes(lambda step: [(4, 8, 8), (2, 9, 16), (4, 8, 8), (1, 32, 32)][step])
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    said = []

    class AfterEpoch(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            said.append(capsys.readouterr().err)

    batches = ((np.ones((2, 1)), np.ones((2, 1))) for _ in range(4))
    model.fit(batches, steps_per_epoch=1, epochs=4, verbose=0, callbacks=[callback, AfterEpoch()])
    assert said == ["1 compiled shape\n", "2 compiled shapes\n", "", "3 compiled shapes\n"]
    assert callback.shapes == {(4, 8, 8), (2, 9, 16), (1, 32, 32)}


class ClosedTerminal(io.StringIO):
    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_a_closed_terminal_is_no_error():
    callback = CompiledShapes(lambda step: (4, 8), file=ClosedTerminal())
    callback.shapes.add((4, 8))
    callback.on_epoch_end(0)


PROGRAM = """
import sys
import keras
from keras_transformer import data, losses, training
from keras_transformer.models import build_transformer
from keras_transformer.special_tokens import SpecialTokens
from tests.data.corpora import random_corpus

corpus = random_corpus(200)
reader = data.plan_batches(corpus, SpecialTokens(), batch_tokens=256, seed=1, shapes=2)
model = build_transformer(
    "tiny", vocabulary_size=904, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=8,
    intermediate_dim=8, num_heads=1,
)
model = training.training_model(model, accumulate=2)
model.compile("sgd", losses.LabelSmoothingCrossEntropy(0.1, reduction="sum"), jit_compile=True)
shapes = training.CompiledShapes(reader.plan.padded_shape, file=sys.stdout)
batches = data.fit_batches(reader, row_multiple=2)
steps = reader.plan.steps_per_epoch
model.fit(batches, steps_per_epoch=steps, epochs=2, verbose=0, callbacks=[shapes])
"""


@pytest.mark.slow
def test_xla_compiles_each_shape_once(tmp_path):
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "XLA_FLAGS": f"--xla_dump_to={tmp_path}",
        "PYTHONPATH": os.getcwd(),
    }
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "2 compiled shapes\n"
    assert len(list(tmp_path.glob("*before_optimizations.txt"))) == 2
