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


def with_search(
    record: Mapping[str, Any], options: SearchKeywords | None, in_training: bool = False
) -> dict[str, Any]:
    """Return the content of `run.json` with other defaults of the search.

    Args:
        record: the content; names that this version does not know stay.
        options: the fields to set. The first time, the earlier ones are kept as `untuned_search`.
            None: the earlier ones return.
        in_training: whether the run's own training has tuned them.

    Returns:
        The new content.

    Example:
        >>> tuned = with_search({"search": {"beam_size": 6}}, {"alpha": 1.1})
        >>> tuned
        {'search': {'beam_size': 6, 'alpha': 1.1}, 'untuned_search': {'beam_size': 6}}
        >>> with_search(tuned, None)
        {'search': {'beam_size': 6}}
    """
    names = ("search", "untuned_search", "tuned_in_training")
    others = {name: value for name, value in record.items() if name not in names}
    present, untuned = record.get("search"), record.get("untuned_search")
    if options is None:
        search = present if untuned is None else untuned
        return {**others, "search": search} if search else others
    if in_training:
        others["tuned_in_training"] = True
    before = (present or {}) if untuned is None else untuned
    return {**others, "search": search_over(present or {}, options), "untuned_search": before}


def without_tuning(record: Mapping[str, Any], own: SearchKeywords, place: object) -> dict[str, Any]:
    """Return the content of `run.json` without the search that the run's own training has tuned.

    Args:
        record: the content.
        own: the fields that the settings of the training decide; they outrank those that came from
            the run to start from.
        place: the record's file, in errors.

    Returns:
        The content; unchanged where the search was tuned after the training.

    Example:
        >>> tuned = with_search({"search": {"beam_size": 6}}, {"alpha": 1.1}, in_training=True)
        >>> without_tuning(tuned, {"beam_size": 4, "alpha": 0.6}, "run.json")
        {'search': {'beam_size': 4, 'alpha': 0.6}}
        >>> tuned = with_search({}, {"alpha": 1.1}, in_training=True)
        >>> without_tuning(tuned, {"alpha": 0.6}, "run.json")
        {}
    """
    if record.get("untuned_search") is not None and not record.get("tuned_in_training"):
        return dict(record)
    content = with_search(record, None)
    if before := checked_search(content.get("search"), place):
        content["search"] = search_over(before, own)
        SearchOptions(**content["search"])  # checks that they go together
    return content
