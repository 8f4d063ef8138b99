"""A trained model in another number format."""

import keras

from keras_transformer.models import TransformerStacks


def with_precision(model, precision):
    """The model with its weights stored, and its layers computing, in another number format.

    What the layers keep in float32 whatever their format stays in it: softmax, normalisation,
    positions, logits behind their product, log-probabilities and scores.

    Args:
        model: a model from `build_transformer`, or one that was reloaded.
        precision: name of a Keras dtype policy, such as "float32" or "bfloat16".

    Returns:
        A copy of the model; the model itself where it has that format already.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = with_precision(build_transformer("tiny", vocabulary_size=20), "bfloat16")
        >>> {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights}
        {'bfloat16'}
    """
    if TransformerStacks.of(model).target_embedding.dtype_policy.name == precision:
        return model

    def copy(layer):
        return type(layer).from_config({**layer.get_config(), "dtype": precision})

    copied = keras.models.clone_model(model, clone_function=copy)
    copied.set_weights(model.get_weights())
    return copied
