"""The record of what a search does: its rules, and the keyword arguments that are made of it."""

import dataclasses
import inspect
import json
from typing import get_type_hints

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.search_options import (
    PARSING,
    HasSearchOptions,
    SearchKeywords,
    SearchOptions,
    search_over,
    search_record,
    search_text,
    takes_search_options,
)

NAMES = [field.name for field in dataclasses.fields(SearchOptions)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"beam_size": 0}, ValueError, "`beam_size` must be a positive integer"),
        ({"beam_size": 10_001}, UserInputError, "`beam_size` must be at most 10,000. Received: be"),
        ({"beam_size": 10**4000}, UserInputError, "at most 10,000. Received: beam_size=1000000"),
        ({"alpha": -1.0}, ValueError, "`alpha` must be a number >= 0"),
        ({"alpha": 10}, UserInputError, "`alpha` must be less than 10. Received: alpha=10"),
        ({"alpha": 9, "length_penalty": "power"}, UserInputError, "less than 9 with the length"),
        ({"length_penalty": "none"}, ValueError, "`length_penalty` must be one of"),
        ({"ending": "last"}, ValueError, "`ending` must be one of"),
        ({"renormalize": 1}, ValueError, "`renormalize` must be True or False"),
        ({"extra_length": 2.5}, ValueError, "`extra_length` must be a positive integer"),
        ({"extra_length": 2**31 - 1}, UserInputError, "`extra_length` must be at most 1,000,000"),
        ({"max_source_length": 10**7}, UserInputError, "`max_source_length` must be at most 1,0"),
        ({"min_length": -1}, ValueError, "`min_length` must be an integer >= 0"),
        ({"no_repeat_ngram": 1.5}, ValueError, "`no_repeat_ngram` must be an integer >= 0"),
        ({"no_repeat_ngram": 10**9}, UserInputError, "`no_repeat_ngram` must be at most 100"),
        ({"max_repeats": -1}, ValueError, "`max_repeats` must be an integer >= 0"),
        ({"max_repeats": 10**7}, UserInputError, "`max_repeats` must be at most 1,000,000"),
        ({"max_source_length": 1}, UserInputError, "`max_source_length` must be an integer that"),
        ({"num_results": 0}, ValueError, "`num_results` must be a positive integer"),
        ({"num_results": 5}, UserInputError, "`num_results` must be at most `beam_size`"),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        SearchOptions(**options)


def test_own_results_give_way_to_a_smaller_beam():
    own = {"beam_size": 4, "num_results": 4, "alpha": 1.0}
    assert search_over(own, {"beam_size": 1}) == {"beam_size": 1, "num_results": None, "alpha": 1.0}
    assert search_over(own, {"alpha": 2.0}) == {**own, "alpha": 2.0}
    asked = search_over(own, {"beam_size": 2, "num_results": 3})
    with pytest.raises(UserInputError, match="`num_results` must be at most `beam_size`"):
        SearchOptions(**asked)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "beam 4, alpha 0.6"),
        ({"alpha": 1.0, "length_penalty": "power"}, "beam 4, alpha 1 (power)"),
        ({"beam_size": 1}, "greedy"),
    ],
)
def test_a_search_in_a_few_words(options, text):
    assert search_text(search_record(SearchOptions(**options))) == text


def test_a_class_has_the_options_as_arguments_and_attributes():
    class Searching(HasSearchOptions):
        @takes_search_options(PARSING)
        def __init__(self, model, **options):
            self.search_options = dataclasses.replace(PARSING, **options)

    parameters = inspect.signature(Searching).parameters
    assert list(parameters) == ["model", *NAMES]
    assert parameters["beam_size"].default == 21
    searching = Searching("model", alpha=0.5)
    found = {name: getattr(searching, name) for name in NAMES}
    assert found == dataclasses.asdict(PARSING) | {"alpha": 0.5}
    with pytest.raises(AttributeError):
        searching.alpha = 0.6  # would change no search


def test_type_checkers_know_every_option():
    assert get_type_hints(SearchKeywords) == get_type_hints(SearchOptions)


def test_numbers_of_numpy_become_pythons_own():
    options = SearchOptions(beam_size=np.int64(4), alpha=np.float32(0.5), min_length=np.int8(2))
    assert json.loads(json.dumps(search_record(options))) == search_record(options)
    assert options == SearchOptions(beam_size=4, alpha=0.5, min_length=2)
