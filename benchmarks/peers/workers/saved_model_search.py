"""A reloaded SavedModel's search, whose lengths the export has fixed."""

import numpy as np

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import parts, read_batches


def prepare(job: Job) -> Work:
    """The signature `translate_ids`."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  # registers the operations of the vocabularies

    translate = tf.saved_model.load(job.export).signatures["translate_ids"]
    batches = read_batches(job.inputs, job.row)

    def work(only_first: bool) -> int:
        tokens = 0
        for batch in parts(batches, only_first):
            outputs = translate(
                input_ids=tf.constant(batch.tokens), input_lengths=tf.constant(batch.num_tokens)
            )
            lengths = np.asarray(outputs["output_lengths"])
            tokens += int(lengths.sum()) + len(lengths)  # the lengths do not count EOS
        return tokens

    return work
