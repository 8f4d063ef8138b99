"""docs/keras/coming_from_keras_hub.md, and the errors about the names on its left."""

import dataclasses
import inspect

import numpy as np
import pytest

import keras_transformer
from keras_transformer import (
    SearchOptions,
    SequenceGenerator,
    Translator,
    errors,
    layers,
    models,
    search_options,
)
from keras_transformer.text import SentencePieceTokenizer
from tests.pages.page import Page

PAGE = Page("docs/keras/coming_from_keras_hub.md")
# The left and the right of each row of the tables.
ROWS = [line.split("|")[1:3] for line in PAGE.text.splitlines() if line.startswith("| `")]
LAYERS = (layers.TransformerEncoderLayer, layers.TransformerDecoderLayer)
SEARCHES = (SequenceGenerator.search, SequenceGenerator.sample, Translator.translate)


def parameters(function):
    return inspect.signature(function).parameters


def test_its_code_runs():
    names = PAGE.run_code()
    assert tuple(names["logits"].shape) == (1, 4, 100)
    assert tuple(names["best_ids"].shape) == (2, 9)
    assert tuple(names["sampled_ids"].shape) == (2, 3, 9)
    assert np.array(names["continued_ids"])[:, 0, :2].tolist() == [[7, 8], [5, 6]]


@pytest.mark.parametrize(
    "table", [errors.OUR_CLASSES, errors.OUR_CALL_KEYWORDS, search_options.OUR_SEARCH_KEYWORDS]
)
def test_the_page_has_the_names_of_the_errors(table):
    for theirs, ours in table.items():
        (right,) = (right for left, right in ROWS if f"`{theirs}`" in left)
        assert f"`{ours}" in right


def test_our_names_exist():
    for ours in errors.OUR_CLASSES.values():
        found = keras_transformer
        for name in ours.split("."):
            found = getattr(found, name)
    taken = {name for layer in LAYERS for name in parameters(layer.call)}
    assert taken >= set(errors.OUR_CALL_KEYWORDS.values())
    options = {field.name for field in dataclasses.fields(SearchOptions)}
    others = {"SequenceGenerator.sample", "special_tokens"}
    assert options | others >= set(search_options.OUR_SEARCH_KEYWORDS.values())
    assert hasattr(SequenceGenerator, "sample")
    assert "special_tokens" in parameters(SequenceGenerator)


def test_their_names_do_not():
    assert not any(hasattr(keras_transformer, name) for name in errors.OUR_CLASSES)
    for layer in LAYERS:
        assert not errors.OUR_CALL_KEYWORDS.keys() & parameters(layer.call).keys()
    for function in (*SEARCHES, SearchOptions, models.Transformer.generate):
        assert not search_options.OUR_SEARCH_KEYWORDS.keys() & parameters(function).keys()


@pytest.mark.parametrize("module", [layers, models, keras_transformer])
@pytest.mark.parametrize(("theirs", "ours"), errors.OUR_CLASSES.items())
def test_a_class_of_theirs_is_an_error_that_names_ours(module, theirs, ours):
    with pytest.raises(AttributeError, match=f"{theirs}': use `keras_transformer.{ours}`$"):
        getattr(module, theirs)


@pytest.mark.parametrize("module", [layers, models])
def test_any_other_name_is_a_plain_error(module):
    with pytest.raises(AttributeError, match="has no attribute 'Attention'$"):
        module.Attention  # noqa: B018


@pytest.mark.parametrize(("theirs", "ours"), errors.OUR_CALL_KEYWORDS.items())
def test_a_keyword_of_their_layers_is_an_error_that_names_ours(theirs, ours):
    inputs = np.ones((1, 3, 8), "float32")
    for layer in LAYERS:
        message = rf"^{layer.__name__}\(\) got an unexpected .* '{theirs}': use `{ours}`$"
        with pytest.raises(TypeError, match=message):
            layer(8, 2)(**{theirs: inputs})


@pytest.mark.parametrize(("theirs", "ours"), search_options.OUR_SEARCH_KEYWORDS.items())
def test_a_keyword_of_their_searches_is_an_error_that_names_ours(theirs, ours):
    for function in (*SEARCHES, Translator.translate_nbest, SequenceGenerator.search_alphas):
        message = rf"{function.__name__}\(\) got an unexpected .* '{theirs}': use `{ours}`$"
        with pytest.raises(TypeError, match=message):
            function(None, [[7, 2]], **{theirs: 2})
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{theirs}': use `{ours}`$"):
        SearchOptions(**{theirs: 2})


def test_a_number_as_length_penalty_is_the_exponent():
    with pytest.raises(ValueError, match="Received: length_penalty=0.8: use `alpha`"):
        SearchOptions(length_penalty=0.8)


def test_a_tokenizer_is_not_called():
    tokenizer = object.__new__(SentencePieceTokenizer)
    with pytest.raises(
        TypeError, match="'SentencePieceTokenizer' object is not callable: use `encode`"
    ):
        tokenizer("A small house.", return_tensors="np")
