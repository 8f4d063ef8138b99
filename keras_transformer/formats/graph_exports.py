"""What exports with a search have in common: their backend, search options and precision."""

import dataclasses
from typing import Any

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.formats.guarded_generator import GuardedGenerator
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.models import Transformer
from keras_transformer.search_options import EXPORT, SearchOptions, search_over


def check_tensorflow_backend(what: str) -> None:
    """Require the TensorFlow backend, which writes `what`, such as "A SavedModel"."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UserInputError(
            f"{what} is written by the TensorFlow backend: set KERAS_BACKEND=tensorflow. "
            f"Received: {backend}"
        )


def exported_search(translator: TranslationModel, **options: Any) -> SearchOptions:
    """Return the options of an exported search: the given options, or else the translator's.

    None counts as not given. `max_source_length`, to which longer sources are cut, defaults to 256
    and is at most the model's number of positions; `num_results` defaults to `beam_size`.
    """
    given: Any = {name: value for name, value in options.items() if value is not None}
    given = {"max_source_length": EXPORT.max_source_length, **given}
    own: Any = dataclasses.asdict(translator.search_options)
    search = SearchOptions(**search_over(own, given))
    return dataclasses.replace(
        search,
        max_source_length=search.source_limit(translator.max_length),
        num_results=search.num_results or search.beam_size,
    )


def exported_graph(
    translator: TranslationModel, search: SearchOptions, precision: str, jit_compile: bool = False
) -> tuple[list[keras.Model], GuardedGenerator]:
    """Return the models in a precision, and what an exported graph computes with them."""
    models = [with_precision(model, precision) for model in translator.models]
    generator = GuardedGenerator(
        models,
        translator.source_tokenizer,
        translator.tokenizer,
        search,
        jit_compile,
        translator.shortlist,
    )
    return models, generator


def search_card(translator: TranslationModel, search: SearchOptions, **more: Any) -> dict[str, Any]:
    """Return the options that the model card of an export with a search shows."""
    return {**dataclasses.asdict(search), **more, "shortlist": translator.shortlist is not None}


def with_precision(model: keras.Model, precision: str) -> keras.Model:
    """Return a copy of the model with this dtype policy, or the model itself if it already has it.

    The layers compute some values in float32 under every policy: softmax, normalization, positions,
    logits after their product, log-probabilities and scores.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = with_precision(build_transformer("tiny", vocabulary_size=20), "bfloat16")
        >>> {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights}
        {'bfloat16'}
    """
    transformer = Transformer.of(model)
    if transformer.dtype_policy.name == precision:
        return model

    def copy(layer: keras.layers.Layer) -> keras.layers.Layer:
        return type(layer).from_config({**layer.get_config(), "dtype": precision})

    copied = keras.models.clone_model(transformer, clone_function=copy)
    copied.set_weights(model.get_weights())
    return copied
