"""A program: a training with and without a probe, then a probe that runs out of memory.

Run on either backend: `python -m tests.training.probed_training FOLDER REPLICAS`.
"""

import json
import pathlib
import resource
import sys

import keras
import numpy as np

from keras_transformer.data import plan_batches
from keras_transformer.errors import UserInputError
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import StepLoss
from keras_transformer.optimizers import transformer_adam
from keras_transformer.training import make_reproducible, probe, training_model
from keras_transformer.training.devices.device_start import start_devices
from keras_transformer.types import SpecialTokens
from tests.data.corpora import corpus_of

SPARE_BYTES = 700 * 2**20


def corpus(*groups):
    """Sentences of the same lengths in groups: few shapes, for JAX compiles each."""
    generator = np.random.default_rng(0)

    def sentences(side):
        return [generator.integers(4, 20, group[side]) for group in groups for _ in range(group[2])]

    return corpus_of(sentences(0), sentences(1))


def trainer(vocabulary_size=20, hidden_dim=16, accumulate=2):
    """As few layers as a step with dropout needs."""
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("source_ids", "target_ids")
    }
    embedding = keras.layers.Embedding(vocabulary_size, hidden_dim)
    source = keras.ops.mean(embedding(inputs["source_ids"]), axis=1, keepdims=True)
    hidden = keras.layers.Dropout(0.2)(embedding(inputs["target_ids"]) + source)
    logits = keras.layers.Dense(vocabulary_size)(hidden)
    model = training_model(keras.Model(inputs, logits), accumulate)
    loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
    optimizer = transformer_adam(hidden_dim, 10, use_ema=True)
    model.compile(optimizer, loss, weighted_metrics=[StepLoss(loss)])
    return model


def weights_after_training(reader, devices, probed):
    make_reproducible(3)
    with devices.scope():
        model = trainer()
    record = str(probe(model, reader, devices, accumulate=2)) if probed else None
    data = devices.batches(reader, accumulate=2)
    losses = model.fit(data, epochs=2, steps_per_epoch=3, verbose=0).history["step_loss"]
    variables = [*model.variables, *model.optimizer.variables]
    return record, losses, [np.array(variable.numpy()) for variable in variables]


def without_memory(devices, batch_tokens):
    """What a probe says where logits of 2.4 GB need more than is left."""
    reader = plan_batches(corpus((19, 19, 1800)), SpecialTokens(), batch_tokens=batch_tokens)
    with devices.scope():
        model = trainer(vocabulary_size=20_000, hidden_dim=128, accumulate=1)
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + SPARE_BYTES, resource.RLIM_INFINITY))
    try:
        return str(probe(model, reader, devices))
    except UserInputError as error:
        return str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def main(folder, replicas):
    devices = start_devices(int(replicas))
    reader = plan_batches(corpus((7, 5, 40)), SpecialTokens(), batch_tokens=80)
    plain, probed = (weights_after_training(reader, devices, probed) for probed in (False, True))
    report = {
        "line": probed[0],
        "losses": [plain[1], probed[1]],
        "equal": [np.array_equal(a, b) for a, b in zip(plain[2], probed[2], strict=True)],
        "out_of_memory": without_memory(devices, batch_tokens=30_000),
    }
    (pathlib.Path(folder) / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
