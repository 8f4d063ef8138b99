"""Metrics and loss with two replicas of a `tf.distribute` strategy on one CPU."""

import json

import pytest

from tests.python_programs import run_python

# The number of logical devices is fixed once per process, so this runs in one of its own.
PROGRAM = """
import contextlib, json
import keras, numpy as np, tensorflow as tf
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity, StepLoss, TokenLoss

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
labels = np.random.default_rng(0).integers(1, 9, (4, 5)).astype("int32")
labels[2:, 1:] = 0
real = (labels != 0).astype("float32")
CASES = {  # the first replica has 10 tokens, the second 2
    "shares": ("sum", real / real.sum()),
    "none": ("mean_with_sample_weight", None),
    "mask": ("mean_with_sample_weight", real),
    "sentences": ("mean_with_sample_weight", np.array([1, 2, 3, 4], "float32")),
    "by-tokens": ("mean", np.array([1, 2, 3, 4], "float32")),
}


def train(scope, reduction, weights):
    keras.utils.set_random_seed(1)
    with scope:
        inputs = keras.Input((None,), dtype="int32")
        model = keras.Model(inputs, keras.layers.Dense(9)(keras.ops.one_hot(inputs, 9)))
        loss = LabelSmoothingCrossEntropy(0.1, reduction=reduction)
        model.compile(
            keras.optimizers.SGD(1.0), loss, metrics=[Perplexity(), TokenLoss(loss)],
            weighted_metrics=[StepLoss(loss)],
        )
    steps = []
    record = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: steps.append(logs["step_loss"])
    )
    batch = (labels, labels) if weights is None else (labels, labels, weights)
    data = tf.data.Dataset.from_tensors(batch).repeat()
    logs = model.fit(
        data, steps_per_epoch=3, callbacks=[record], verbose=0, shuffle=False
    ).history
    return {
        "steps": steps,
        "epoch": {name: values[0] for name, values in logs.items()},
        "validation": model.evaluate(data, steps=1, verbose=0, return_dict=True),
        "weights": [float(value) for value in model.get_weights()[0].ravel()],
    }


def strategy():
    copy = tf.distribute.HierarchicalCopyAllReduce()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=copy)


print(json.dumps({
    name: [train(scope, *case) for scope in (contextlib.nullcontext(), strategy().scope())]
    for name, case in CASES.items()
}))
"""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_two_replicas_report_and_learn_what_one_does():
    done = run_python("-c", PROGRAM)
    cases = json.loads(done.stdout.splitlines()[-1])
    for alone, replicated in cases.values():
        assert alone["steps"][2] < alone["steps"][0]
        assert replicated["steps"] == pytest.approx(alone["steps"], rel=1e-5)
        assert replicated["epoch"] == pytest.approx(alone["epoch"], rel=1e-5)
        assert replicated["validation"] == pytest.approx(alone["validation"], rel=1e-5)
        assert replicated["weights"] == pytest.approx(alone["weights"], rel=1e-5, abs=1e-6)
    for name in ("none", "mask"):  # of ones, the mean is that of the shares
        assert cases[name][0]["steps"] == pytest.approx(cases["shares"][0]["steps"], rel=1e-5)
