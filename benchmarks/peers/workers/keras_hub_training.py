"""Training of a Transformer with KerasHub layers. KerasHub cannot decode with this model."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
from keras import ops

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.training_inputs import (
    ADAM,
    DROPOUT,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    read_batch,
)


def prepare(job: Job) -> Work:
    """Prepare calls to `fit` for a model compiled with Keras's defaults."""
    row = job.row
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy(job.precision)
    model = build(job.sizes, row["vocabulary_size"])
    model.compile(keras.optimizers.Adam(LEARNING_RATE, **ADAM), smoothed_loss)
    source_ids, target_ids, labels = read_batch(job.inputs)

    def batches():
        while True:
            yield (source_ids, target_ids), labels

    def work(only_first: bool) -> int:
        steps = 1 if only_first else row["repeats"]
        model.fit(batches(), steps_per_epoch=steps, verbose=0)
        return steps * labels.size

    return work


def build(sizes: Mapping[str, Any], vocabulary_size: int) -> keras.Model:
    """Return a Transformer with tied embeddings that maps source and target ids to logits."""
    embedding = keras_hub.layers.ReversibleEmbedding(vocabulary_size, sizes["hidden_dim"])
    positions = keras_hub.layers.SinePositionEncoding()
    options = {
        "intermediate_dim": sizes["intermediate_dim"],
        "num_heads": sizes["num_heads"],
        "dropout": DROPOUT,
    }

    def embed(ids):
        vectors = embedding(ids) * sizes["hidden_dim"] ** 0.5
        return keras.layers.Dropout(DROPOUT)(vectors + positions(vectors))

    source_ids, target_ids = (
        keras.Input((None,), dtype="int32"),
        keras.Input((None,), dtype="int32"),
    )
    memory, outputs = embed(source_ids), embed(target_ids)
    for _ in range(sizes["num_encoder_layers"]):
        memory = keras_hub.layers.TransformerEncoder(**options)(memory)
    for _ in range(sizes["num_decoder_layers"]):
        outputs = keras_hub.layers.TransformerDecoder(**options)(outputs, memory)
    logits = embedding(outputs, reverse=True)
    return keras.Model((source_ids, target_ids), logits)


def smoothed_loss(labels, logits):
    """Return the label-smoothed cross-entropy in float32, (batch, length)."""
    logits = ops.cast(logits, "float32")
    gold = ops.take_along_axis(logits, ops.expand_dims(ops.cast(labels, "int32"), -1), axis=-1)
    target = (1 - LABEL_SMOOTHING) * gold[..., 0] + LABEL_SMOOTHING * ops.mean(logits, axis=-1)
    return ops.logsumexp(logits, axis=-1) - target
