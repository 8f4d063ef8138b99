"""The search that is part of an exported model."""

import dataclasses
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import EXPORT, SearchOptions

# More than any sentence has, and far less than overflows a tensor's size.
MOST = 1_000_000


def exported_search(translator: Translator, **options: Any) -> SearchOptions:
    """The options of an exported search: the given ones, else the translator's.

    None counts as not given. `max_source_length`, to which longer sources are cut, defaults to 256
    and is at most the model's number of positions; `num_results` defaults to `beam_size`.
    """
    given = {name: value for name, value in options.items() if value is not None}
    given = {"max_source_length": EXPORT.max_source_length, **given}
    search = dataclasses.replace(translator.search_options, **given)
    search = dataclasses.replace(
        search,
        max_source_length=search.source_limit(translator.max_length),
        num_results=search.num_results or search.beam_size,
    )
    for name in ("beam_size", "extra_length", "max_source_length"):
        value = getattr(search, name)
        if value > MOST:
            raise UserInputError(f"`{name}` must be at most {MOST}. Received: {name}={value}")
    return search
