"""A trained model in another number format."""

import keras

from keras_transformer.models import TransformerStacks


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
    if TransformerStacks.of(model).target_embedding.dtype_policy.name == precision:
        return model

    def copy(layer):
        return type(layer).from_config({**layer.get_config(), "dtype": precision})

    copied = keras.models.clone_model(model, clone_function=copy)
    copied.set_weights(model.get_weights())
    return copied
