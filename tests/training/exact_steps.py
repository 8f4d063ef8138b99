"""Steps of a small Transformer on one device or many, for comparison.

As a program it trains all cases it is asked for in one process, whose devices are fixed at its
start, and writes what they gave to a file:

    python -m tests.training.exact_steps FILE DEVICES CASE...
"""

import contextlib
import os
import sys

import numpy as np

VOCABULARY_SIZE, SOURCE_VOCABULARY_SIZE = 40, 32
# Rows of each batch: fewer than replicas, uneven, one, many, so many that none is empty.
ROWS = (5, 13, 1, 24, 16)
RECORDED = ("step_loss", "loss", "token_loss", "gradient_norm", "updates", "weights")
CASES = {
    # name: (accumulate, options of the model, name of the optimizer)
    "tied": (1, {}, "adam"),
    "tied-accumulate": (3, {}, "adam"),
    "untied": (1, {"source_vocabulary_size": SOURCE_VOCABULARY_SIZE}, "sgd"),
    "untied-accumulate": (3, {"source_vocabulary_size": SOURCE_VOCABULARY_SIZE}, "sgd"),
    "mean": (1, {}, "sgd"),  # the loss by default, where the other cases have a sum
    "muon": (1, {}, "muon"),
    # Each replica's gradients in a graph of their own, as XLA compiles them on several GPUs.
    "apart": (1, {}, "adam"),
    "apart-accumulate": (3, {}, "adam"),
    "float16": (3, {"dtype": "mixed_float16"}, "loss_scale"),
    "guided": (1, {"alignment_layer": 1}, "sgd"),
    "guided-accumulate": (3, {"alignment_layer": 1}, "sgd"),
}


def sentences(rows, length):
    """A batch whose first rows are long and whose last ones are one token each."""
    rng = np.random.default_rng(rows)
    source = rng.integers(1, SOURCE_VOCABULARY_SIZE, (rows, length)).astype("int32")
    target = rng.integers(1, VOCABULARY_SIZE, (rows, length)).astype("int32")
    lengths = np.linspace(length, 1, rows).round().astype(int)[:, None]
    source[np.arange(length) >= lengths] = 0
    target[np.arange(length) >= lengths] = 0
    return source, target


def with_links(inputs, weights):
    """The inputs with links of each real target token to two source positions."""
    links = np.zeros((*weights.shape, inputs["source_ids"].shape[1]), "float32")
    links[:, :, 0], links[:, :, 1] = 0.75 * weights, 0.25 * weights
    return {**inputs, "links": links}


def batches(row_multiple, length=None, overflow=False, guided=False):
    """The global batches, with empty rows up to a multiple; the last one is repeated for ever.

    Args:
        row_multiple: the multiple.
        length: of all sentences' rows; then all batches have one shape.
        overflow: whether the batch of one row, which lies on one replica, weighs so much that its
            gradients are beyond float16.
        guided: whether the batches have links.
    """
    for step in range(1000):
        rows = ROWS[min(step, len(ROWS) - 1)]
        source, labels = sentences(rows, length or 6 + rows % 3)
        filled = max(ROWS) if length else -(-rows // row_multiple) * row_multiple
        source, labels = (np.pad(ids, ((0, filled - rows), (0, 0))) for ids in (source, labels))
        inputs = {"source_ids": source, "target_ids": np.pad(labels, ((0, 0), (1, 0)))[:, :-1]}
        weights = (labels != 0) / (labels != 0).sum()
        if overflow and rows == 1:
            weights = weights * 1e6
        if guided:
            inputs = with_links(inputs, weights)
        yield inputs, labels, weights.astype("float32")


def make_optimizer(name):
    import keras

    from keras_transformer.optimizers import AdamWithGradientNorm, Muon

    if name == "sgd":  # the update is the gradient
        return keras.optimizers.SGD(1.0)
    if name == "adam":
        # Without a large epsilon, the update of a gradient near zero is the sign of its rounding.
        averaged = {"use_ema": True, "ema_momentum": 0.5}
        return AdamWithGradientNorm(0.01, epsilon=1e-3, global_clipnorm=0.5, **averaged)
    if name == "muon":
        return Muon(0.01, global_clipnorm=0.5)
    return keras.optimizers.LossScaleOptimizer(AdamWithGradientNorm(0.01), initial_scale=2.0**10)


def train(case, replicas=1, scope=None, accumulate=None, length=None):
    """Train a case; return the values of every step, and the weights that `fit` left."""
    import keras

    from keras_transformer import losses, metrics, training
    from keras_transformer.models import build_transformer

    slices, options, optimizer = CASES[case]
    slices = slices if accumulate is None else accumulate
    keras.utils.set_random_seed(1)
    with scope or contextlib.nullcontext():
        model = build_transformer(
            "tiny",
            vocabulary_size=VOCABULARY_SIZE,
            num_encoder_layers=1,
            num_decoder_layers=1,
            hidden_dim=16,
            intermediate_dim=32,
            num_heads=2,
            dropout=0.0,
            **options,
        )
        is_guided = case.startswith("guided")
        graph = model.guided(0.5) if is_guided else model
        trainer = training.training_model(graph, accumulate=slices)
        reduction = {} if case == "mean" else {"reduction": "sum"}
        loss = losses.LabelSmoothingCrossEntropy(0.1, **reduction)
        trainer.compile(
            make_optimizer(optimizer),
            loss,
            metrics=[metrics.TokenLoss(loss)],
            weighted_metrics=[metrics.StepLoss(loss)],
        )
    if case.startswith("apart") and replicas > 1:
        import tensorflow as tf

        trainer._replica_gradients = tf.function(trainer._all_slices, autograph=False)
    weights = [flat(trainer)]
    values = {"step_loss": [], "loss": [], "gradient_norm": [], "scale": []}

    def record(batch, logs):
        weights.append(flat(trainer))
        values["step_loss"].append(float(logs["step_loss"]))
        if batch == 0:  # later Keras weighs steps by their rows, empty ones too
            values["loss"].append(float(logs["loss"]))
        inner = getattr(trainer.optimizer, "inner_optimizer", trainer.optimizer)
        if hasattr(inner, "gradient_norm"):
            values["gradient_norm"].append(float(inner.gradient_norm.numpy()))
        if inner is not trainer.optimizer:
            values["scale"].append(float(trainer.optimizer.dynamic_scale.numpy()))

    averaging = [training.EMAWeights()] if optimizer == "adam" else []
    history = trainer.fit(
        batches_for_fit(
            replicas * slices, length, overflow=optimizer == "loss_scale", guided=is_guided
        ),
        steps_per_epoch=len(ROWS),
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=record), *averaging],
        shuffle=False,
        verbose=0,
    )
    values["token_loss"] = history.history["token_loss"]
    values["updates"] = -np.diff(weights, axis=0)
    values["weights"] = flat(trainer)
    return values


def batches_for_fit(*arguments, **options):
    import keras

    if keras.backend.backend() != "tensorflow":
        return batches(*arguments, **options)
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), "int32")
    inputs = {"source_ids": ids, "target_ids": ids}
    if options["guided"]:
        inputs["links"] = tf.TensorSpec((None, None, None))
    signature = inputs, ids, tf.TensorSpec((None, None))
    return tf.data.Dataset.from_generator(
        lambda: batches(*arguments, **options), output_signature=signature
    )


def flat(model):
    """All weights in one vector; those of all replicas must be equal."""
    import keras

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        for weight in model.trainable_weights:
            first, *others = getattr(weight.value, "values", (weight.value,))
            for other in others:
                tf.debugging.assert_equal(first, other)
    else:
        model.jax_state_sync()
    return np.concatenate([np.ravel(np.asarray(each.numpy())) for each in model.trainable_weights])


def on_tensorflow(devices, cases):
    """Yield `(name, values)` of every case on one device and on as many replicas."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * devices
    )
    strategy = tf.distribute.MirroredStrategy(
        [f"CPU:{device}" for device in range(devices)],
        cross_device_ops=tf.distribute.HierarchicalCopyAllReduce(),
    )
    for case in cases:
        if case == "dropout":
            yield case, dropout_masks(strategy)
        else:
            yield f"{case}/one", train(case, accumulate=1)
            yield f"{case}/many", train(case, devices, strategy.scope())


def dropout_masks(strategy):
    """Masks of all replicas: at first, next, and the first again after a restore."""
    import keras
    import tensorflow as tf

    from keras_transformer.training import training_model

    with strategy.scope():
        inputs = keras.Input((50,))
        layer = keras.layers.Dropout(0.5, seed=3)
        model = training_model(keras.Model(inputs, layer(inputs)))
    saved = [variable.numpy() for variable in model.variables]

    @tf.function
    def draw():
        return strategy.run(layer, (tf.ones((1, 50)),), {"training": True})

    masks = [strategy.experimental_local_results(draw()) for _ in range(2)]
    for variable, value in zip(model.variables, saved, strict=True):
        variable.assign(value)
    model.after_restore()
    masks.append(strategy.experimental_local_results(draw()))
    alone = keras.layers.Dropout(0.5, seed=3)(tf.ones((1, 50)), training=True)
    return {"masks": np.array(masks), "alone": np.array(alone)}


def on_jax(devices, cases):
    """Yield `(name, values)` of every case on one device and on all."""
    import keras

    for case in cases:
        yield f"{case}/one", train(case, accumulate=1, length=6)
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    for case in cases:
        yield f"{case}/many", train(case, devices, length=6)


def main(path, devices, *cases):
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
        " --xla_backend_optimization_level=0"
    )
    import keras

    run = on_tensorflow if keras.backend.backend() == "tensorflow" else on_jax
    results = {
        f"{name}/{key}": value
        for name, values in run(int(devices), cases)
        for key, value in values.items()
    }
    np.savez(path, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
