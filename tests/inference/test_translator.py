import itertools
import math

import keras
import numpy as np
import pytest

from keras_transformer.decoding import length_penalty
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.inference.row_generator import RowGenerator
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from tests.random_translation import build, sentences


@pytest.fixture(scope="module")
def translator(model, tokenizer):
    return Translator(model, tokenizer, batch_size=4, extra_length=4)


def padded(rows):
    """Rows of ids as one array, wider than any of them."""
    array = np.zeros((len(rows), 40), "int32")
    for row, ids in zip(array, rows, strict=True):
        row[: len(ids)] = ids
    return array


def assert_equal_but_for_ties(n_best, other):
    """Equal scores, and equal texts wherever a score stands clear of its neighbors."""
    scores = np.array([score for _, score in n_best])
    np.testing.assert_allclose([score for _, score in other], scores, atol=1e-4)
    is_clear = np.diff(scores, prepend=np.inf, append=-np.inf) < -1e-4
    for rank in np.flatnonzero(is_clear[:-1] & is_clear[1:]):
        assert n_best[rank][0] == other[rank][0]


@pytest.mark.core
def test_results_keep_the_order_of_the_input(translator, model, tokenizer):
    lines = sentences(11, seed=1)
    one_by_one = Translator(model, tokenizer, batch_size=1, extra_length=4)
    translations = translator.translate(iter(lines))
    assert translations == one_by_one.translate(lines)
    assert translations[::-1] == translator.translate(lines[::-1])
    assert len(set(translations)) > 5


def test_one_sentence_has_one_translation(translator):
    (line,) = sentences(1, seed=2)
    (expected,) = translator.translate([line])
    assert translator.translate(line) == translator(line) == expected
    assert translator([line]) == [expected]
    assert translator("") == ""
    assert translator.translate(line, prefixes="old") == translator([line], ["old"])[0]
    assert translator(line, "old") == translator([line], ["old"])[0]


def test_parts_of_whole_batches_are_computed_as_all_sentences_are(translator, monkeypatch):
    lines, computed, source_ids = ["", *sentences(11, seed=1)], [], RowGenerator._source_ids

    def recorded(generator, rows, indices):
        computed.append(source_ids(generator, rows, indices))
        return computed[-1]

    monkeypatch.setattr(RowGenerator, "_source_ids", recorded)
    whole = translator.translate(lines)
    together = sorted(ids.tolist() for ids in computed)
    computed.clear()
    batches = translator.batches(lines)
    assert sorted(itertools.chain(*batches)) == list(range(1, 12))
    found = [""] * len(lines)
    for start in range(0, len(batches), 2):
        part = list(itertools.chain(*batches[start : start + 2]))
        for i, text in zip(part, translator.translate([lines[i] for i in part]), strict=True):
            found[i] = text
    assert found == whole
    assert sorted(ids.tolist() for ids in computed) == together


def test_a_sentence_alone_and_among_others(tokenizer):
    # In float64: a random model has ties that the rounding of float32 decides by batch size.
    model = build(tokenizer, dtype="float64")
    lines = sentences(100, seed=2)
    translator = Translator(model, tokenizer, extra_length=4)
    for line, n_best in zip(lines, translator.translate_nbest(lines, 4), strict=True):
        (alone,) = translator.translate_nbest([line], 4)
        assert_equal_but_for_ties(alone, n_best)


def test_n_best_is_best_first_and_begins_with_the_translation(translator):
    lines = sentences(5, seed=3)
    n_best = translator.translate_nbest(lines, 3)
    assert [candidates[0][0] for candidates in n_best] == translator.translate(lines)
    for candidates in n_best:
        scores = [score for _, score in candidates]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
        assert all(isinstance(score, float) and score < 0 for score in scores)


def test_an_empty_line_gives_an_empty_line(translator):
    assert translator.translate([]) == []
    assert translator.translate(["", "  \t"]) == ["", ""]
    empty, full, blank = translator.translate_nbest(["", "old house", " "], 2)
    assert empty == blank == [("", 0.0)]
    assert full == translator.translate_nbest(["old house"], 2)[0]


@pytest.mark.core
def test_score_is_the_log_probability_of_each_pair(translator, model, tokenizer):
    sources, targets = sentences(7, seed=4), [*sentences(6, seed=5), ""]
    scores = translator.score(sources, targets)
    target_rows = tokenizer.encode(targets)
    inputs = {
        "source_ids": padded([[*ids, 2] for ids in tokenizer.encode(sources)]),
        "target_ids": padded([[1, *ids] for ids in target_rows]),
    }
    logits = keras.ops.convert_to_numpy(model(inputs)).astype("float64")
    log_probs = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    for row, ids in enumerate(target_rows):
        expected = sum(log_probs[row, i, token] for i, token in enumerate([*ids, 2]))
        assert scores[row] == pytest.approx(expected, abs=1e-3)


def test_scores_and_alignments_that_are_no_numbers_are_refused(tokenizer):
    model = build(tokenizer)
    model.set_weights([np.full_like(weight, np.nan) for weight in model.get_weights()])
    translator = Translator(model, tokenizer)
    for call in (translator.score, translator.align):
        with pytest.raises(UserInputError, match="The model's scores are not finite numbers"):
            call(["old tree"], ["small house"])


def test_what_is_never_produced_may_score_minus_infinity(model, tokenizer):
    options = SearchOptions(renormalize=True)
    generator = RowGenerator([model], tokenizer, tokenizer, options, batch_size=4)
    bos = tokenizer.special_tokens.bos
    scores = dict(generator.score([[5], [5]], [[bos], [6]]))
    assert scores[0] == -np.inf
    assert np.isfinite(scores[1])


def test_a_beam_of_one_is_greedy_search(translator, model, tokenizer):
    greedy = Translator(model, tokenizer, beam_size=1, alpha=0.5, extra_length=4)
    source_ids = np.array([[*tokenizer.encode(["green river"])[0], 2]])
    options = SearchOptions(beam_size=1, alpha=0.0, extra_length=4)
    ids, log_probs = SequenceGenerator(model).search(source_ids, options=options)
    ids = keras.ops.convert_to_numpy(ids)[0]
    penalty = length_penalty(np.sum(ids != 0), 0.5)
    (((text, score),),) = greedy.translate_nbest(["green river"], 1)
    assert text == tokenizer.decode(ids)[0]
    assert score == pytest.approx(float(log_probs[0, 0]) / penalty, abs=1e-4)


def test_loads_a_run(tmp_path, translator, model, tokenizer):
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    loaded = Translator.load(tmp_path / "run", extra_length=4)
    assert loaded.translate(["old green tree"]) == translator.translate(["old green tree"])
    with pytest.raises(UserInputError, match="There is no run directory"):
        Translator.load(tmp_path / "nothing")
    with pytest.raises(UserInputError, match="run.json. Load a Keras model with `keras.saving"):
        Translator.load(run.record_path)


@pytest.mark.core
def test_sees_what_training_changes(tokenizer):
    model = build(tokenizer)
    translator = Translator(model, tokenizer)
    (before,) = translator.score(["old tree"], ["small house"])
    model.set_weights([0.5 * weight for weight in model.get_weights()])
    (after,) = translator.score(["old tree"], ["small house"])
    assert not math.isclose(before, after, rel_tol=0.01)


def test_progress_bar_counts_sentences(translator, capsys):
    translator.translate(sentences(3, seed=7))
    assert capsys.readouterr().err == ""
    translator.translate(sentences(3, seed=7), progress=True)
    assert "3/3" in capsys.readouterr().err


def test_refuses_a_sentence_longer_than_the_learned_positions(tokenizer):
    model = build(tokenizer, positions="learned", max_length=8)
    translator = Translator(model, tokenizer)
    assert len(translator.translate(["old tree"])) == 1
    with pytest.raises(SentenceTooLong, match=r"`sentences\[1\]` has more than 8 tokens, end of"):
        translator.translate(["old tree", "house " * 9])


class TestLongSentences:
    """`max_source_length` and `long_sentences`."""

    @pytest.fixture
    def limited(self, model, tokenizer):
        return lambda **options: Translator(model, tokenizer, extra_length=4, **options)

    def test_the_limit_counts_the_end_of_sentence(self, limited, tokenizer):
        (row,) = tokenizer.encode(["old tree"])
        assert limited(max_source_length=len(row) + 1).translate(["old tree"])
        with pytest.raises(SentenceTooLong) as caught:
            limited(max_source_length=len(row)).translate(["", "old tree"])
        assert (caught.value.name, caught.value.index) == ("sentences", 1)

    def test_every_method_refuses_on_either_side(self, limited):
        translator, short, long = limited(max_source_length=12), ["old"], ["old tree " * 9]
        for call in [
            lambda: translator.translate(short, prefixes=long),
            lambda: translator.translate_nbest(long, 2),
            lambda: translator.sample(long),
            lambda: translator.score(long, short),
            lambda: translator.score(short, long),
            lambda: translator.align(short, long),
            lambda: translator.check_lengths(long),
            lambda: translator.check_lengths(short, long),
        ]:
            with pytest.raises(SentenceTooLong, match="has more than 12 tokens, end of sentence"):
                call()
        translator.check_lengths(short, short)

    def test_a_cut_sentence_is_translated_as_its_first_tokens_are(self, limited, tokenizer):
        (row,) = tokenizer.encode(["old tree"])
        translator = limited(max_source_length=len(row) + 1, long_sentences="cut")
        with pytest.warns(LongSentenceWarning, match=r"`sentences\[1\]` .*its end is cut off"):
            found = translator.translate(["old", "old tree green house"])
        assert found == limited().translate(["old", "old tree"])

    def test_a_split_sentence_is_the_translations_of_its_parts(self, limited, tokenizer):
        parts = ["Old tree.", "Green house by the river.", "Small lamp."]
        limit = max(map(len, tokenizer.encode(parts))) + 1
        translator = limited(max_source_length=limit, long_sentences="split")
        with pytest.warns(LongSentenceWarning, match=r"`sentences\[0\]` .*it is split into 3"):
            found = translator.translate([" ".join(parts), "old", ""])
        *translations, old = limited().translate([*parts, "old"])
        assert found == [" ".join(translations), old, ""]

    def test_a_split_sentence_has_one_translation_alone(self, limited):
        translator = limited(long_sentences="split")
        for call in [
            lambda: translator.translate_nbest(["old"], 2),
            lambda: translator.sample(["old"]),
            lambda: translator.translate(["old"], prefixes=["tree"]),
        ]:
            with pytest.raises(UserInputError, match="works only with `translate`"):
                call()


def test_half_a_surrogate_pair_is_the_replacement_character(translator):
    broken, whole = ["old \ud800 tree"], ["old \ufffd tree"]
    assert translator.translate(broken) == translator.translate(whole)
    assert translator.translate(whole, broken) == translator.translate(whole, whole)
    assert translator.sample(broken) == translator.sample(whole)
    assert translator.score(broken, broken) == translator.score(whole, whole)
    (first,), (second,) = translator.align(broken, broken), translator.align(whole, whole)
    assert first.target_pieces == second.target_pieces


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_source_length": 1}, "`max_source_length` must be an integer that leaves room"),
        ({"long_sentences": "drop"}, "`long_sentences` must be one of"),
        ({"beam_size": 0}, "`beam_size` must be a positive integer. Received: beam_size=0"),
        ({"alpha": -1}, "`alpha` must be a number >= 0. Received: alpha=-1"),
        ({"batch_size": 2.5}, "`batch_size` must be a positive integer. Received: batch_size=2.5"),
        ({"extra_length": -3}, "`extra_length` must be a positive integer. Received: extra_leng"),
    ],
)
def test_refuses_bad_options(model, tokenizer, options, message):
    with pytest.raises(ValueError, match=message):
        Translator(model, tokenizer, **options)


@pytest.mark.parametrize("given", [None, "pieces.model"])
def test_refuses_what_is_no_tokenizer(model, given):
    message = f"`tokenizer` must be the tokenizer .*Received: tokenizer={given!r}$"
    with pytest.raises(UserInputError, match=message):
        Translator(model, given)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("translate", [b"old house"], "`sentences` must be a list of strings. Received: sent"),
        ("translate_nbest", ["old house", 1], "`sentences` must be a list of strings. Received"),
        ("translate", [["old house", None]], r"Received: sentences\[1\]=None"),
        ("translate_nbest", [["old"], 5], "at most the beam size. Received: n=5, beam_size=4"),
        ("translate_nbest", [["old"], 0], "`n` must be a positive integer. Received: n=0"),
        ("score", [["old"], ["a", "b"]], "Received: 1 sources, 2 targets"),
        ("translate", [["old", "tree"], ["small"]], "Received: 2 sentences, 1 prefixes"),
        ("translate", [["old"], [None]], "`prefixes` must be a list of strings. Rec"),
        *(("translate_with_alphas", [["one"], alphas], "alpha") for alphas in ([], [-1.0], [10.0])),
    ],
)
def test_refuses_bad_calls(translator, method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(translator, method)(*arguments)
