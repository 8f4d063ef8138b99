"""Dropout masks of several replicas: each draws its own."""

import keras
import tensorflow as tf

# Draws between the streams of two replicas. A draw reads the count modulo 2^31 - 2 (`keras.random`
# on TensorFlow), so the streams of 128 replicas lie 2^24 draws apart in that circle, while the
# count itself, an int64, still tells whose stream it is.
STRIDE = 2**24 + 2**10 * (2**31 - 2)


def spread_dropout_seeds(model: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Give every replica of a strategy its own stream of dropout masks.

    Keras keeps equal copies of a seed on all replicas, which would draw equal masks. Here the copy
    of replica r counts its draws from `r x STRIDE`. The first replica's stream stays as it is and
    decides all others: restoring the first stream and calling this again restores all.
    """
    if strategy.num_replicas_in_sync == 1:
        return
    replicas = strategy.experimental_local_results(
        strategy.experimental_distribute_values_from_function(
            lambda context: context.replica_id_in_sync_group
        )
    )
    for variable in model.non_trainable_variables:
        if variable.path.endswith("seed_generator_state"):
            copies = strategy.experimental_local_results(variable.value)
            seed, count = copies[0].numpy()
            for replica, copy in zip(replicas, copies, strict=True):
                copy.assign([seed, count % STRIDE + int(replica) * STRIDE])
