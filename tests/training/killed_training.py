"""Small trainings in forks that are killed, stopped, or lose their disk, and are started again.

A job of `tests.forked_processes` has `path`, of the run, and `options` of `train`.
"""

import builtins
import errno
import fcntl
import io
import os
import pathlib
import shutil
import signal
import termios
import time

import keras

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity, StepLoss
from keras_transformer.models import build_language_model
from keras_transformer.optimizers import transformer_adam
from keras_transformer.toolkit.cli.program import run_command
from keras_transformer.training import TrainingRun, enable_lora
from tests.forked_processes import fill_the_disk, serve
from tests.training.small_training import WORK, At, TokenizerStub
from tests.training.small_training import batches as token_batches


class Score(keras.callbacks.Callback):
    """A validator whose score depends on the weights, and has ups and downs."""

    def on_epoch_end(self, epoch, logs=None):
        norm = sum(float(abs(keras.ops.convert_to_numpy(w)).sum()) for w in self.model.weights)
        logs["val_score"] = norm * 1000 % 7


def lose_the_terminal():
    """Have a terminal on stderr, and close its other end: the kernel sends SIGHUP."""
    os.setsid()
    master, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    os.dup2(terminal, 2)
    os.close(terminal)
    handler, arrived = signal.getsignal(signal.SIGHUP), []
    if handler is signal.SIG_IGN:
        os.close(master)
        return
    signal.signal(signal.SIGHUP, lambda *signal_: arrived.append(signal_))
    os.close(master)
    while not arrived:  # another thread may get it, and that one has to be scheduled first
        time.sleep(0.001)
    signal.signal(signal.SIGHUP, handler)
    handler(*arrived[0])


def stop_and_go_on():
    """Be stopped, until a child sees it and lets this process go on."""
    process = os.getpid()
    if os.fork() == 0:
        status = pathlib.Path(f"/proc/{process}/status")
        while "State:\tT" not in status.read_text():
            time.sleep(0.001)
        os.kill(process, signal.SIGCONT)
        os._exit(0)
    os.kill(process, signal.SIGSTOP)


def replace_by_file(path):
    os.rename(path, f"{path}-moved")
    pathlib.Path(path).write_text("in the way")


def largest_event_file(path):
    """Its size in bytes, more than that of any other file of the run."""
    return max(file.stat().st_size for file in pathlib.Path(path, "tensorboard").iterdir())


def make_read_only(path):
    """Refuse what changes files in `path`, as a file system does that became read-only."""

    def refusing(function, changes):
        def call(name, *arguments, **options):
            if str(name).startswith(path) and changes(*arguments, **options):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(name))
            return function(name, *arguments, **options)

        return call

    builtins.open = io.open = refusing(open, lambda mode="r", **options: not mode.startswith("r"))
    for name in ("replace", "rename", "unlink", "mkdir"):
        setattr(os, name, refusing(getattr(os, name), lambda *arguments, **options: True))


HAPPENINGS = {
    "SIGTERM": lambda path: signal.raise_signal(signal.SIGTERM),
    "SIGINT": lambda path: signal.raise_signal(signal.SIGINT),
    "closed terminal": lambda path: lose_the_terminal(),
    "stop": lambda path: stop_and_go_on(),
    "full disk": lambda path: fill_the_disk(2000),
    "no disk": lambda path: fill_the_disk(),
    "full events": lambda path: fill_the_disk(largest_event_file(path)),
    "deleted": shutil.rmtree,
    "replaced": replace_by_file,
    "read-only": make_read_only,
}


def batches(start=0):
    for step, (ids, labels, weights) in enumerate(token_batches()):
        if step >= start:
            yield {"token_ids": ids}, labels, weights


def make_model(ema, loss_scale, lora):
    # A decoder alone has every kind of dropout and of weight, and is traced in half the time.
    model = build_language_model(
        "tiny", vocabulary_size=12, hidden_dim=8, intermediate_dim=16, num_heads=2,
        num_decoder_layers=1, dropout=0.2,
    )  # fmt: skip
    if lora:
        enable_lora(model, 2)
    average = {"use_ema": True, "ema_momentum": 0.75, "cooldown": 0.5} if ema else {}
    optimizer = transformer_adam(8, 5, 0.5, **average)
    if loss_scale:
        # The first steps overflow, and update nothing.
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**127)
    loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
    model.compile(optimizer, loss, metrics=[Perplexity()], weighted_metrics=[StepLoss(loss)])
    return model


def train(
    path,
    steps=20,
    save_every=4,
    ema=False,
    loss_scale=False,
    lora=False,
    at=None,
    tensorboard=False,
    show_progress=False,
    nohup=False,
    seed=5,
    **options,
):
    """Train, or go on. `at` is a place, a step of it from here, and what happens there."""
    # Not what the shell of these tests was told: `nohup make test` is no reason to fail.
    signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    with TrainingRun(
        path,
        steps=steps,
        save_every=save_every,
        keep_last=2,
        monitor="val_score",
        tensorboard=tensorboard,
        log_every=1,
        show_progress=show_progress,
        resume=True,
        settings={"save_every": save_every},
        seed=seed,
        deterministic=True,
        **options,
    ) as run:
        model = make_model(ema, loss_scale, lora)
        run.begin(
            model,
            validation=batches(),
            validation_steps=3,
            tokenizer=TokenizerStub(),
            validators=[Score()],
            callbacks=[At(at[1], lambda model: HAPPENINGS[at[2]](path), at[0])] if at else (),
            work=WORK,
            data_fingerprint="small",
        )
        model.fit(batches(run.step), callbacks=run.callbacks, **run.fit_options)
    return run.record


def main(path, options):
    return run_command(lambda: train(path, **options).exit_code)


if __name__ == "__main__":
    serve(main)
