"""A trained model in another number format."""

import keras

from keras_transformer.models import Transformer


def with_precision(model: keras.Model, precision: str) -> keras.Model:
    """A copy of the model with another dtype policy, or the model itself if it already has it.

    The layers compute some values in float32 under every policy: softmax, normalization, positions,
    logits after their product, log-probabilities and scores.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = with_precision(build_transformer("tiny", vocabulary_size=20), "bfloat16")
        >>> {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights}
        {'bfloat16'}
    """
    transformer = Transformer.of(model)
    if transformer.options.dtype == precision:
        return model
    copied = Transformer.from_config({**transformer.get_config(), "dtype": precision})
    copied.set_weights(model.get_weights())
    return copied
