"""The number of compiled shapes: as it is said, and as XLA counts it."""

import errno
import io
import os

import keras
import numpy as np
import pytest

from keras_transformer.training import CompiledShapes
from tests.python_programs import run_python


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
from keras_transformer.types import SpecialTokens
from tests.data.corpora import random_corpus

def reader(pairs, **options):
    return data.plan_batches(
        random_corpus(pairs), SpecialTokens(), batch_tokens=256, seed=1, **PLAN, **options
    )

train, dev = reader(200), reader(60, shuffle=False)
model = build_transformer(
    "tiny", vocabulary_size=904, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=8,
    intermediate_dim=8, num_heads=1,
)
if train.plan.rows(0)[-1] + 1 < len(train.plan.batch(0)):
    model = model.packed()
model = training.training_model(model, accumulate=2)
model.compile("sgd", losses.LabelSmoothingCrossEntropy(0.1, reduction="sum"), jit_compile=True)
shapes = training.CompiledShapes(train.plan.padded_shape, file=sys.stdout)
model.fit(
    data.fit_batches(train, row_multiple=2),
    steps_per_epoch=train.plan.steps_per_epoch,
    epochs=2,
    verbose=0,
    callbacks=[shapes],
    validation_data=data.fit_batches(dev, row_multiple=2),
    validation_steps=dev.plan.steps_per_epoch,
)
"""


def compiled_modules(folder, plan, backend):
    """What the program says, and the names of the steps that XLA compiles in it."""
    flags = f"--xla_dump_to={folder} --xla_backend_optimization_level=0"
    flags = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    program = f"PLAN = {plan}\n{PROGRAM}"
    result = run_python("-c", program, KERAS_BACKEND=backend, XLA_FLAGS=flags)
    names = [path.name for path in folder.glob("*before_optimizations.txt")]
    return result.stdout, [name for name in names if "step" in name]


@pytest.mark.slow
def test_xla_compiles_each_shape_once(tmp_path):
    said, modules = compiled_modules(tmp_path, {"shapes": 2}, "tensorflow")
    assert said == "2 compiled shapes\n"
    assert len(modules) == 4  # as many to validate


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_packed_training_compiles_once_and_its_validation_once(tmp_path, backend):
    said, modules = compiled_modules(tmp_path, {"packing": True}, backend)
    assert said == "1 compiled shape\n"
    assert len(modules) == 2, modules
