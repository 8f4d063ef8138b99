"""The model to `fit`: a functional model's layers with an exact training step."""

import keras

from keras_transformer.argument_checks import check_non_negative_number, check_positive_int
from keras_transformer.backend_start import backend_name
from keras_transformer.training.step_sums import StepSums


def training_model(model: keras.Model, accumulate: int = 1, *, r_drop: float = 0.0) -> StepSums:
    """Return a model over the same layers whose training step is exact on any number of devices.

    On every replica, a step reads its batch in `accumulate` slices of rows. It adds up the
    gradients of slices and replicas and updates the weights once: loss, gradients, gradient norm
    and clipping are the same as for the whole batch on one device. The layers, weights and dropout
    seeds are shared with `model`, so save `model` and translate with it.

    With one slice, `losses.LabelSmoothingCrossEntropy` is the mean over the real tokens of all
    replicas, with or without weights. Slices add up only if the loss is a plain sum, such as
    `LabelSmoothingCrossEntropy(reduction="sum")`, and the data include weights `mask / tokens of
    the global batch`, as from `data.fit_batches`. With several slices or R-Drop, `compile` refuses
    other losses, and `fit` refuses data without weights.

    Args:
        model: a functional model, such as `models.build_transformer` returns. Under
            `tf.distribute`, create both models in the strategy's scope.
        accumulate: positive integer, number of slices of a batch on each replica. A step needs the
            memory of one slice. The rows of a batch must be a multiple of replicas x `accumulate`;
            pad the batch with rows of weight 0.
        r_drop: R-Drop's coefficient, such as 5 for translation with little text; 0 is off. A step
            then reads every row twice, with different dropout, and adds the divergence of the two
            predictions to the loss. The result is half the loss of Liang et al., whose coefficient
            this is. A step needs about twice the time and memory. The metrics cover both passes,
            without the divergence.

    Returns:
        A model to compile and fit, a `TensorFlowTrainingModel` or `JaxTrainingModel` depending on
        the backend. Call its method `after_restore()` after assigning its variables from a
        checkpoint.

    Raises:
        ValueError: `accumulate` is not a positive integer, or `r_drop` is negative.
        UserInputError: Keras's backend is neither TensorFlow nor JAX.

    Example:
        >>> from keras_transformer.losses import LabelSmoothingCrossEntropy
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> exact = training_model(model, accumulate=2)
        >>> exact.compile("sgd", LabelSmoothingCrossEntropy(reduction="sum"))
        >>> exact.trainable_weights[0] is model.trainable_weights[0]
        True

    Reference: Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021.
    """
    check_positive_int("accumulate", accumulate)
    check_non_negative_number("r_drop", r_drop)
    if backend_name() == "tensorflow":
        from keras_transformer.training.tensorflow_training_model import TensorFlowTrainingModel

        kind: type[StepSums] = TensorFlowTrainingModel
    else:
        from keras_transformer.training.jax_training_model import JaxTrainingModel

        kind = JaxTrainingModel
    exact = kind(model.input, model.output, accumulate, r_drop, name=model.name)
    exact.packed_tokens = getattr(model, "packed_tokens", None)
    return exact
