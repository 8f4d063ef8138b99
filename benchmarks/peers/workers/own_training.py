"""Training with keras_transformer, with the recipes' model and log values."""

import keras
import numpy as np

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.training_inputs import DROPOUT, read_batch
from benchmarks.timed_training import compile_as_recipes
from keras_transformer import training
from keras_transformer.data import ParallelCorpus, fit_batches, plan_batches
from keras_transformer.models import build_transformer
from keras_transformer.types import SpecialTokens


def prepare(job: Job) -> Work:
    """Prepare calls to `fit` with batches that are read as in the recipes."""
    row = job.row
    keras.utils.set_random_seed(0)
    model = build_transformer(
        row["preset"],
        vocabulary_size=row["vocabulary_size"],
        dropout=DROPOUT,
        dtype=job.precision,
    )
    training_model = training.training_model(model)
    compile_as_recipes(
        training_model,
        row["preset"],
        row["vocabulary_size"],
        precision=job.precision,
        jit_compile=keras.backend.backend() == "jax",
    )
    batches = fit_batches(_reader(job))

    def work(only_first: bool) -> int:
        steps = 1 if only_first else row["repeats"]
        training_model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
        return steps * row["batch_size"] * row["length"]

    return work


def _reader(job):
    """Return a reader that repeats one batch with the maximum number of tokens."""
    source_ids, _, labels = read_batch(job.inputs)
    batch_size, length = labels.shape
    # Remove EOS and BOS, because the reader adds them again.
    offsets = np.arange(batch_size + 1) * (length - 1)
    corpus = ParallelCorpus(
        source_ids[:, :-1].ravel(),
        offsets,
        labels[:, :-1].ravel(),
        offsets,
        np.arange(1, batch_size + 1),
        metadata={"vocabulary_size": job.row["vocabulary_size"]},
    )
    return plan_batches(corpus, SpecialTokens(), batch_tokens=batch_size * length, seed=0)
