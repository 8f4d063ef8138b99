"""Small trainings in processes of their own that are killed and started again.

TensorFlow is imported once: every training is a fork of this program. It reads jobs as JSON lines
and answers each with the exit code of its training and what it wrote to stderr. A job is a
dictionary: `path` of the run, `options` of `train`, and `kill`: None; a number of seconds after
which to kill it; or the number of the file operation at which it kills itself.
"""

import json
import os
import resource
import signal
import sys
import time
import traceback

import keras

from keras_transformer.command_errors import run_command
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity, StepLoss
from keras_transformer.models import build_transformer
from keras_transformer.optimizers import transformer_adam
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import find_state, fit_model, make_reproducible
from tests.training.small_training import WORK, TokenizerStub
from tests.training.small_training import batches as token_batches


class Score(keras.callbacks.Callback):
    """A validator whose score depends on the weights, and has ups and downs."""

    def on_epoch_end(self, epoch, logs=None):
        norm = sum(float(abs(keras.ops.convert_to_numpy(w)).sum()) for w in self.model.weights)
        logs["val_score"] = norm * 1000 % 7


class At(keras.callbacks.Callback):
    """Calls a function at the end of a step of the training or of a validation."""

    def __init__(self, place, step, function):
        super().__init__()
        self.function = function
        self.left = step
        setattr(self, f"on_{place}_batch_end", self.count)

    def count(self, batch, logs=None):
        self.left -= 1
        if self.left == 0:
            self.function()


def fill_the_disk(left):
    """From now on no file of this process may become larger than a few bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left, left))


HAPPENINGS = {
    "SIGTERM": lambda: signal.raise_signal(signal.SIGTERM),
    "SIGINT": lambda: signal.raise_signal(signal.SIGINT),
    "full disk": lambda: fill_the_disk(2000),
    "no disk": lambda: fill_the_disk(0),
}


def batches(start=0):
    for step, (ids, labels, weights) in enumerate(token_batches()):
        if step >= start:
            yield {"source_ids": ids, "target_ids": ids}, labels, weights


def make_model(ema, loss_scale):
    make_reproducible(5)
    model = build_transformer(
        "tiny", vocabulary_size=12, hidden_dim=8, intermediate_dim=16, num_heads=2,
        num_encoder_layers=1, num_decoder_layers=1, dropout=0.2,
    )  # fmt: skip
    average = {"use_ema": True, "ema_momentum": 0.75} if ema else {}
    optimizer = transformer_adam(8, 5, 0.5, **average)
    if loss_scale:
        # The first steps overflow, and update nothing.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**127)
    loss = LabelSmoothingCrossEntropy(0.1)
    model.compile(optimizer, loss, metrics=[Perplexity()], weighted_metrics=[StepLoss(loss)])
    return model


def train(path, steps=20, save_every=4, ema=False, loss_scale=False, at=None, **options):
    """Train, or go on. `at` is a place, a step of it from here, and what happens there."""
    run = RunDirectory.create(path, resume=True)
    state = find_state(run)
    model = make_model(ema, loss_scale)
    if state is None:
        run.start(model=model, tokenizer=TokenizerStub(), settings={"save_every": save_every})
    return fit_model(
        model,
        batches(state.step if state else 0),
        run=run,
        work=WORK,
        steps=steps,
        save_every=save_every,
        keep_last=2,
        validation_data=batches(),
        validation_steps=3,
        validators=[Score()],
        monitor="val_score",
        ema=ema,
        tensorboard=False,
        log_every=1,
        show_progress=False,
        state=state,
        settings={"save_every": save_every},
        data_fingerprint="small",
        callbacks=[At(*at[:2], HAPPENINGS[at[2]])] if at else (),
        **options,
    )


def kill_at(operation):
    """Let this process kill itself at its n-th rename, sync or removal of a file."""
    count = 0

    def counted(function):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return call

    for name in ("replace", "fsync", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


def run_job(path, options, kill=None):
    """Run a training in a fork; return its exit code, negative where it was killed, and stderr."""
    ours, theirs = os.pipe()  # not a file: a full disk must not keep it from telling so
    child = os.fork()
    if child == 0:
        os.dup2(theirs, 2)
        if isinstance(kill, int):
            kill_at(kill)
        code = 1
        try:
            code = run_command(lambda: train(path, **options).exit_code)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(theirs)
    if isinstance(kill, float):
        time.sleep(kill)
        os.kill(child, signal.SIGKILL)
    with open(ours, errors="replace") as errors:
        text = errors.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run_job(**json.loads(line))), flush=True)
