"""Translators that XLA compiles on TensorFlow: the same strings, in few shapes."""

import numpy as np
import pytest

from keras_transformer.decoding import sequence_generator
from keras_transformer.inference.translator import Translator
from tests.random_translation import sentences
from tests.translation_training.number_text import pairs

pytestmark = pytest.mark.tensorflow

OPTIONS = {"batch_size": 32, "extra_length": 4}


@pytest.fixture(scope="module")
def both(model, tokenizer):
    """A translator that XLA compiles, and the same without."""
    return [Translator(model, tokenizer, jit_compile=jit, **OPTIONS) for jit in (True, False)]


def test_translations_are_the_same(both, monkeypatch):
    shapes = []

    def beam_search(step, state, **rules):
        shapes.append((rules["batch_size"], rules["max_length"] + 1, rules["with_xla"]))
        return plain(step, state, **rules)

    plain = sequence_generator.beam_search
    monkeypatch.setattr(sequence_generator, "beam_search", beam_search)
    compiled, uncompiled = both
    lines = [*sentences(40, seed=4), ""]
    found = compiled.translate_nbest(lines, 2)
    assert 1 < len(shapes) < 4
    for rows, positions, with_xla in shapes:
        assert rows in (8, 32)
        assert (positions - OPTIONS["extra_length"]) % 8 == 0
        assert with_xla
    expected = uncompiled.translate_nbest(lines, 2)
    assert len({row[0][0] for row in expected}) > 20
    assert [[text for text, _ in row] for row in found] == [
        [text for text, _ in row] for row in expected
    ]
    np.testing.assert_allclose(
        [row[0][1] for row in found], [row[0][1] for row in expected], atol=1e-4
    )


@pytest.mark.slow
def test_so_are_samples_scores_prefixes_and_alignments(both):
    lines, targets = sentences(9, seed=5), sentences(9, seed=6)
    found, expected = (
        (
            [[text for text, _ in row] for row in one.sample(lines, 2, seed=3)],
            one.translate(lines, prefixes=["old"] * 9),
            one.score(lines, targets),
            np.concatenate([found.weights.ravel() for found in one.align(lines, targets)]),
        )
        for one in both
    )
    assert found[:2] == expected[:2]
    for values, others in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(values, others, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_trained_model_translates_alike(trained_run, beam_size):
    lines = pairs()[0][::5]
    compiled, uncompiled = (
        Translator.load(trained_run, beam_size=beam_size, jit_compile=jit).translate(lines)
        for jit in (True, False)
    )
    assert len(set(compiled)) > 100
    assert compiled == uncompiled


@pytest.mark.parametrize("value", ["yes", None, 2])
def test_refuses_another_word(both, value):
    message = '`jit_compile` must be True, False or "auto". Received: jit_compile='
    with pytest.raises(ValueError, match=message):
        Translator(both[0].models[0], both[0].tokenizer, jit_compile=value)
