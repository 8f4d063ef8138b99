"""Decoding with a keras_transformer model."""

import dataclasses

import keras
from keras import ops

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import (
    ALPHA,
    EOS,
    Batch,
    batches_at_once,
    num_tokens,
    parts,
    read_batches,
    total_of,
)
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.row_generator import GraphCalls
from keras_transformer.models import build_transformer
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import Tensor


def prepare(job: Job) -> Work:
    """Prepare decoding with lengths forced by options, or by a constraint if they are mixed."""
    row = job.row
    keras.utils.set_random_seed(0)
    model = build_transformer(
        row["preset"], vocabulary_size=row["vocabulary_size"], dtype=job.precision
    )
    call = GraphCalls([model])
    generator = SequenceGenerator(model, jit_compile=call.with_xla)
    batches = read_batches(job.inputs, row)
    options = SearchOptions(beam_size=row["beam_size"], alpha=ALPHA, num_results=1)
    if row["corpus"] == "random":
        options = dataclasses.replace(options, extra_length=1, min_length=row["length"])
    else:
        extra = max(int((batch.output_lengths - batch.num_tokens).max()) for batch in batches)
        options = dataclasses.replace(options, extra_length=max(1, extra))

    def search(source_ids, output_lengths):
        forced = [] if row["corpus"] == "random" else [ForcedLengths.of(output_lengths, row)]
        ids, _ = generator.search(source_ids, options=options, constraints=forced)
        return ids[:, 0]

    at_once = batches_at_once(batches, job.threads)

    def tokens_of(batch: Batch) -> int:
        return num_tokens(call(search, batch.ended, batch.output_lengths))

    def work(only_first: bool) -> int:
        return total_of(tokens_of, parts(batches, only_first), at_once)

    return work


class ForcedLengths:
    """A constraint that forces a number of tokens for each output, followed by EOS.

    Args:
        lengths: int32 (batch,), number of tokens per output.
        vocabulary_size: number of logits.
    """

    def __init__(self, lengths: Tensor, vocabulary_size: int) -> None:
        self.lengths = lengths
        self.is_eos = ops.arange(vocabulary_size) == EOS  # (vocabulary,)

    @classmethod
    def of(cls, lengths, row):
        """Return a function that creates the constraint from the limits of a search."""
        return lambda limits: cls(lengths, row["vocabulary_size"])

    def of_sentences(self, rows: Tensor) -> "ForcedLengths":
        """Return the constraint for a subset of the batch."""
        return ForcedLengths(ops.take(self.lengths, rows, axis=0), self.is_eos.shape[0])

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        """Return a mask of the allowed next tokens: bool (batch, 1, vocabulary)."""
        return ops.equal(self.is_eos, index >= ops.reshape(self.lengths, (-1, 1, 1)))
