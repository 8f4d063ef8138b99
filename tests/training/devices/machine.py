"""One of the machines that train a small model together, or the only one:

    python -m tests.training.devices.machine RUN STEPS [--pace SECONDS] [--alone RUN]

It goes on with the run if there is one. With `--pace` it waits after each step; with `--alone` the
chief then trains once more, by itself.
"""

import argparse
import sys
import time

import keras
import numpy as np

from keras_transformer import losses, metrics, training
from keras_transformer.data import ParallelCorpus, plan_batches
from keras_transformer.models import build_transformer
from keras_transformer.optimizers import transformer_adam
from keras_transformer.toolkit.cli.program import run_command
from keras_transformer.types import SpecialTokens
from tests.training.small_training import TokenizerStub

VOCABULARY_SIZE = TokenizerStub.vocabulary_size
ACCUMULATE = 2


def corpus(pairs, seed):
    """Sentences of 1 to 9 tokens."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 10, pairs))])
    ids = rng.integers(4, VOCABULARY_SIZE, offsets[-1])
    return ParallelCorpus(ids, offsets, ids, offsets, np.arange(1, pairs + 1), metadata={})


def train(path, devices, steps, pace=0.0):
    """Train or go on; return the exit code."""
    # One shape, so that JAX compiles once; the last batch of an epoch is not full.
    reader, dev = (
        plan_batches(corpus(pairs, seed), SpecialTokens(), batch_tokens=60, seed=1, shapes=1)
        for seed, pairs in enumerate((20, 7))
    )
    options = {"save_every": 5, "tensorboard": False, "log_every": 1, "show_progress": False}
    options |= {"devices": devices, "accumulate": ACCUMULATE, "seed": 3, "probe": False}
    with training.TrainingRun(path, steps=steps, resume=True, **options) as run:
        with run.scope():
            model = build_transformer(
                "tiny", vocabulary_size=VOCABULARY_SIZE, hidden_dim=8, intermediate_dim=16,
                num_heads=2, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0,
            )  # fmt: skip
            trainer = training.training_model(model, ACCUMULATE)
            loss = losses.LabelSmoothingCrossEntropy(0.1, reduction="sum")
            trainer.compile(
                transformer_adam(8, warmup_steps=5, scale=0.5),
                loss,
                metrics=[metrics.Perplexity()],
                weighted_metrics=[metrics.StepLoss(loss)],
            )
        wait = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: time.sleep(pace)
        )
        run.begin(trainer, reader, dev, tokenizer=TokenizerStub(), callbacks=[wait])
        trainer.fit(run.batches(reader), callbacks=run.callbacks, **run.fit_options)
    return run.exit_code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("steps", type=int)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--alone")
    options = parser.parse_args()
    devices = training.start_devices()
    exit_code = train(options.run, devices, options.steps, options.pace)
    if options.alone and devices.is_chief:
        train(options.alone, training.Devices(devices.device_name), options.steps)
    return exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
