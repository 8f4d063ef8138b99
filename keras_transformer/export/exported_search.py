"""The search that is part of an exported model."""

import dataclasses

from keras_transformer.errors import UserInputError
from keras_transformer.search_options import EXPORT

# Far beyond any sentence, and far below what overflows a tensor's size.
MOST = 1_000_000


def exported_search(translator, **options):
    """The `SearchOptions` of an export: the translator's own, but for those that are given.

    None is as if not given. Without them `max_source_length`, to which longer sources are cut, is
    256, and `num_results` is `beam_size`. A model with fewer positions has that limit.
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
