"""The model that `fit` trains: the functional model's layers with an exact step."""

import keras

from keras_transformer.argument_checks import check_positive_int


def training_model(model, accumulate=1):
    """Return a model over the same layers whose training step is exact on any number of devices.

    A step reads its batch in `accumulate` slices of rows on every replica, adds up the gradients of
    slices and replicas, and updates the weights once: loss, gradients, gradient norm and clipping
    are those of the whole batch on one device. Weights, dropout seeds and layers are the given
    model's own, so that one goes on to be what is saved and what translates.

    The loss must be a plain sum, as `losses.LabelSmoothingCrossEntropy` is where the data bring
    weights `mask / tokens of the global batch`. With several slices `compile` refuses other losses,
    and `fit` data without weights.

    Args:
        model: a functional `keras.Model`, such as `models.build_transformer` returns. Under
            `tf.distribute` both are made in the strategy's scope.
        accumulate: positive integer, slices of a batch on each replica. The memory of a step is
            that of one slice. The rows of a batch must be a multiple of replicas x `accumulate`;
            rows of padding alone, of weight 0, fill it up.

    Returns:
        A `keras.Model` to compile and fit, of the backend's class: `TensorFlowTrainingModel` or
        `JaxTrainingModel`. Its method `after_restore()` is to be called when its variables were
        assigned from a checkpoint.

    Raises:
        ValueError: `accumulate` is no positive integer, or the backend is another one.

    Example:
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> trainer = training_model(model, accumulate=2)
        >>> trainer.compile("sgd", LabelSmoothingCrossEntropy())
        >>> trainer.trainable_weights[0] is model.trainable_weights[0]
        True
    """
    check_positive_int("accumulate", accumulate)
    backend = keras.backend.backend()
    if backend == "tensorflow":
        from keras_transformer.training.tensorflow_training_model import TensorFlowTrainingModel

        return TensorFlowTrainingModel(model.input, model.output, accumulate, name=model.name)
    if backend == "jax":
        from keras_transformer.training.jax_training_model import JaxTrainingModel

        return JaxTrainingModel(model.input, model.output, accumulate, name=model.name)
    raise ValueError(
        f"Training needs the backend tensorflow or jax. Received: KERAS_BACKEND={backend}"
    )
