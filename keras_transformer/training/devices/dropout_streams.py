"""Dropout masks of several replicas: each draws its own."""

# Two streams of one seed are this many draws apart. A draw reads the count modulo 2^31 - 2
# (`keras.random` on TensorFlow), so the streams of 128 replicas lie 2^24 draws apart in that
# circle, while the count itself, an int64, still tells whose stream it is.
STRIDE = 2**24 + 2**10 * (2**31 - 2)


def spread_dropout_seeds(model, strategy):
    """Give every replica of a `tf.distribute` strategy its own stream of dropout masks.

    Keras holds one copy of a seed on every replica, all equal: all would draw one mask. Here the
    copy of replica r counts its draws from `r x STRIDE`. The stream of the first replica is left as
    it is, and every other one follows from it: who restores the first one's and calls this again
    has restored all.
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
