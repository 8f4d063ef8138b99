"""The search that a run has by default, and how `run.json` keeps it and what was before."""

from collections.abc import Mapping
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.search_options import SearchKeywords, SearchOptions, search_over


def checked_search(found: Mapping[str, Any] | None, place: object) -> SearchKeywords:
    """Return the fields of `SearchOptions` in a record; `place` is its file in errors."""
    search: Any = dict(found or {})
    try:
        SearchOptions(**search)
    except (TypeError, ValueError) as error:
        raise UserInputError(f"The search of {place} is damaged: {error}") from error
    return search


def with_search(record: Mapping[str, Any], options: SearchKeywords | None) -> dict[str, Any]:
    """Return the content of `run.json` with other defaults of the search.

    Args:
        record: the content; names that this version does not know stay.
        options: the fields to set. The first time, those of before are kept as `untuned_search`.
            None: those of before return.

    Returns:
        The new content.

    Example:
        >>> tuned = with_search({"search": {"beam_size": 6}}, {"alpha": 1.1})
        >>> tuned
        {'search': {'beam_size': 6, 'alpha': 1.1}, 'untuned_search': {'beam_size': 6}}
        >>> with_search(tuned, None)
        {'search': {'beam_size': 6}}
    """
    others = {
        name: value for name, value in record.items() if name not in ("search", "untuned_search")
    }
    present, untuned = record.get("search"), record.get("untuned_search")
    if options is None:
        search = present if untuned is None else untuned
        return {**others, "search": search} if search else others
    before = (present or {}) if untuned is None else untuned
    return {**others, "search": search_over(present or {}, options), "untuned_search": before}
