"""The search that is part of an exported model."""

import dataclasses
from typing import Any

from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import EXPORT, SearchOptions, search_over


def exported_search(translator: Translator, **options: Any) -> SearchOptions:
    """The options of an exported search: the given ones, else the translator's.

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
