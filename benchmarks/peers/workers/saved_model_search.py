"""Decoding with a reloaded SavedModel, which determines the lengths."""

import numpy as np

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import (
    Batch,
    batches_at_once,
    parts,
    read_batches,
    total_of,
)


def prepare(job: Job) -> Work:
    """Call the `translate_ids` signature."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the tokenizers' operations

    translate = tf.saved_model.load(job.export).signatures["translate_ids"]
    batches = read_batches(job.inputs, job.row)

    at_once = batches_at_once(batches, job.threads)

    def tokens_of(batch: Batch) -> int:
        outputs = translate(
            input_ids=tf.constant(batch.tokens), input_lengths=tf.constant(batch.num_tokens)
        )
        lengths = np.asarray(outputs["output_lengths"])
        return int(lengths.sum()) + len(lengths)  # lengths exclude EOS

    def work(only_first: bool) -> int:
        return total_of(tokens_of, parts(batches, only_first), at_once)

    return work
