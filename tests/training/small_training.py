"""A training that takes a second: a table of logits that learns to repeat its input."""

import signal

import keras
import numpy as np

from keras_transformer.files import write_bytes
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import (
    Perplexity,
    StepLoss,
    TokenAccuracy,
    TokenLoss,
    training_metrics,
)
from keras_transformer.optimizers import transformer_adam
from keras_transformer.runs.model_weights import load_weights
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import StepWork, TrainingRun, training_model

VOCABULARY_SIZE = 12
TOKENS = 20


class TokenizerStub:
    """As much of a tokenizer as a run directory asks for."""

    vocabulary_size = VOCABULARY_SIZE
    fingerprint = "0" * 64
    output = "text"

    def save(self, path):
        write_bytes(path, b"no real tokenizer")


def small_model(optimizer=None, **compile_options):
    inputs = keras.Input((None,), dtype="int32")
    outputs = keras.layers.Dense(VOCABULARY_SIZE)(
        keras.layers.Dropout(0.1)(keras.layers.Embedding(VOCABULARY_SIZE, 8)(inputs))
    )
    model = keras.Model(inputs, outputs)
    loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
    model.compile(
        optimizer or transformer_adam(8, warmup_steps=5, scale=0.1),
        loss,
        metrics=[Perplexity(), TokenAccuracy(), TokenLoss(loss)],
        weighted_metrics=[
            StepLoss(loss),
            StepLoss(LabelSmoothingCrossEntropy(0.0, reduction="sum"), name="step_nll"),
        ],
        **compile_options,
    )
    return model


def compiled(model, optimizer="sgd", accumulate=1, smoothing=0.1, r_drop=0.0, **options):
    """The training model of any model, with the loss and the metrics of a training."""
    trainer = training_model(model, accumulate, r_drop=r_drop)
    loss = LabelSmoothingCrossEntropy(smoothing, reduction="sum")
    trainer.compile(optimizer, loss, **training_metrics(loss), **options)
    return trainer


def drive(callback, model, steps, logs=None, before_step=lambda step: None):
    """Call a callback as `fit` would, in one epoch."""
    callback.set_model(model)
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch in range(steps):
        callback.on_train_batch_begin(batch)
        before_step(batch + 1)
        values = {"loss": 2.0, "step_loss": 2.0, "perplexity": 7.389}
        callback.on_train_batch_end(batch, {**values, **(logs or {})})


class At(keras.callbacks.Callback):
    """Calls a function with the model at the n-th event of a kind, such as the end of a step."""

    def __init__(self, step, function, place="train_batch_end"):
        super().__init__()
        self.function = function
        self.left = step
        setattr(self, f"on_{place}", self.count)

    def count(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            self.function(self.model)


def interrupt(model=None):
    # To this thread: what `os.kill` sends may reach another one, and two may become one.
    signal.raise_signal(signal.SIGINT)


def loaded(run, checkpoint=None):
    """A small model with the weights of a run."""
    model = small_model()
    load_weights(model, run.find_weights(checkpoint))
    return model


def batches():
    """Endless batches of 4 x 5 tokens, all different."""
    rng = np.random.default_rng(0)
    while True:
        labels = rng.integers(1, VOCABULARY_SIZE, (4, 5)).astype("int32")
        yield labels, labels, np.full(labels.shape, 1 / TOKENS, "float32")


WORK = StepWork(target_tokens=lambda step: TOKENS)


def started_run(path, model):
    run = RunDirectory.create(path)
    run.start(model=model, tokenizer=TokenizerStub(), settings={})
    return run


def train(
    path,
    model=None,
    data=None,
    *,
    validation=None,
    validators=(),
    callbacks=(),
    work=WORK,
    data_fingerprint=None,
    **options,
):
    """Train a small model by a `TrainingRun` with the other options; return run and model."""
    model = model or small_model()
    options = {"show_progress": False, "tensorboard": False, **options}
    with TrainingRun(path, **options) as run:
        run.begin(
            model,
            validation=validation,
            tokenizer=TokenizerStub(),
            validators=validators,
            callbacks=callbacks,
            work=work,
            data_fingerprint=data_fingerprint,
        )
        data = batches() if data is None else data
        model.fit(data, callbacks=run.callbacks, **run.fit_options)
    return run, model
