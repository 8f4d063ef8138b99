"""Ensembles, vocabularies, prefixes, samples and alignments of the translator."""

import dataclasses

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import UserInputError
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences

OPTIONS = {"batch_size": 4, "extra_length": 4, "beam_size": 2}
# What takes the time here is tracing: one layer is traced sooner than two.


@pytest.fixture(scope="module")
def source_tokenizer():
    return SentencePieceTokenizer.train(sentences(200, seed=9), vocabulary_size=40)


@pytest.fixture(scope="module")
def models(model, tokenizer):
    return [model, build(tokenizer, seed=1)]


@pytest.fixture(scope="module")
def translator(models, tokenizer):
    return Translator(models[0], tokenizer, **OPTIONS)


def ids_of(tokenizer, sentence):
    return np.array([[*tokenizer.encode([sentence])[0], tokenizer.special_tokens.eos]])


@pytest.mark.slow
class TestEnsembles:
    @pytest.mark.core
    def test_takes_the_mean_of_the_probabilities(self, models, tokenizer):
        # The empty translation is one token, EOS.
        lines = sentences(5)
        one, other = (np.exp(Translator(m, tokenizer).score(lines, [""] * 5)) for m in models)
        both = Translator(models, tokenizer).score(lines, [""] * 5)
        np.testing.assert_allclose(np.exp(both), (one + other) / 2, rtol=1e-4)

    def test_of_the_same_model_twice_is_that_model(self, models, tokenizer, translator):
        lines = sentences(4, seed=1)
        twice = Translator([models[0]] * 2, tokenizer, **OPTIONS)
        assert twice.translate(lines) == translator.translate(lines)

    @pytest.fixture
    def runs(self, tmp_path, models, tokenizer):
        """Two runs; each has a checkpoint "best" besides, the other one's weights."""
        for name, model, other in zip("ab", models, models[::-1], strict=True):
            run = RunDirectory.create(tmp_path / name)
            run.start(model=model, tokenizer=tokenizer, settings={})
            model.save_weights(run.weights_path)
            other.save_weights(run.checkpoints.best_path)
        return [tmp_path / name for name in "ab"]

    def test_several_runs_or_several_checkpoints_of_one(self, runs, models):
        weights = [[w.tobytes() for w in model.get_weights()] for model in models]

        def members(*arguments):
            """Which of the two models each member of the translator is."""
            loaded = Translator.load(*arguments).models
            return [weights.index([w.tobytes() for w in model.get_weights()]) for model in loaded]

        assert members(runs[0]) == members([runs[0]]) == members(runs[1], "best") == [0]
        assert members([runs[0]], ["best"]) == [1]
        assert members(runs) == [0, 1]
        assert members(runs, "best") == members(runs, ["best", "best"]) == [1, 0]
        own = [run / "model.weights.h5" for run in runs]
        assert members([runs[0], runs[0]], [own[0], "best"]) == [0, 1]
        assert members(runs[1], [str(own[1]), "best"]) == [1, 0]

    def test_each_member_counts(self, runs, models, tokenizer):
        def score(translator):
            return translator.score(["old tree"], ["small house"])[0]

        first, second, both = (
            score(Translator(each, tokenizer)) for each in (models[0], models[1], models)
        )
        assert len({first, second, both}) == 3
        assert score(Translator.load(runs)) == pytest.approx(both, abs=1e-4)

    def test_members_must_fit_each_other(self, runs, models, source_tokenizer):
        with pytest.raises(UserInputError, match="Received: 2 runs, 3 checkpoints"):
            Translator.load(runs, ["best"] * 3)
        other = build(source_tokenizer)
        run = RunDirectory.create(runs[0].parent / "c")
        run.start(model=other, tokenizer=source_tokenizer, settings={})
        other.save_weights(run.weights_path)
        with pytest.raises(UserInputError, match="must have the same tokenizers.*/a, .*/c"):
            Translator.load([runs[0], run.path])


class TestVocabularies:
    def test_padding_of_the_vocabulary_is_never_produced(self, tokenizer):
        # A tenth of this random model's tokens would be padding, which no tokenizer can spell.
        translator = Translator(build(tokenizer, vocabulary_size=71), tokenizer, **OPTIONS)
        translator = translator.with_search(min_length=2)  # no text is empty
        lines = sentences(10)
        assert all(translator.translate(lines))
        assert all(text for texts in translator.sample(lines, 4) for text, _ in texts)

    @pytest.mark.parametrize(
        ("sizes", "message"),
        [
            ({"vocabulary_size": 63}, "64 pieces, 63 source tokens"),
            ({"vocabulary_size": 72}, "64 pieces, 72 source tokens"),
            ({"source_vocabulary_size": 40}, "source tokenizer .* 64 pieces, 40 source tokens"),
            ({"vocabulary_size": 40, "source_vocabulary_size": 64}, "target .* 64 pieces, 40 tar"),
        ],
    )
    def test_a_tokenizer_of_another_size_is_refused(self, tokenizer, sizes, message):
        with pytest.raises(UserInputError, match=message):
            Translator(build(tokenizer, **sizes), tokenizer)

    def test_the_source_may_have_a_tokenizer_of_its_own(self, tokenizer, source_tokenizer):
        model = build(tokenizer, source_vocabulary_size=40)
        translator = Translator(model, tokenizer, source_tokenizer=source_tokenizer, **OPTIONS)
        ids, _ = SequenceGenerator(model).search(
            ids_of(source_tokenizer, "old green tree"),
            options=SearchOptions(beam_size=2, extra_length=4),
        )
        expected = tokenizer.decode(np.array(ids)[0, :1])
        assert translator.translate(["old green tree"]) == expected
        (alignment,) = translator.align(["old green tree"], ["small house"])
        assert alignment.source_pieces[:-1] == source_tokenizer.pieces(
            source_tokenizer.encode(["old green tree"])[0]
        )


class TestPrefixes:
    @pytest.mark.core
    def test_a_translation_begins_with_its_prefix(self, translator):
        lines, prefixes = sentences(6, seed=2), ["small house", "", "gre", "old " * 20, "", "lamp"]
        found = translator.translate(lines, prefixes=iter(prefixes))
        free = translator.translate(lines)
        for text, prefix, freely in zip(found, prefixes, free, strict=True):
            assert text.startswith(prefix.strip())
            assert prefix or text == freely
        assert translator.translate(lines, prefixes=[""] * 6) == free

    def test_n_best_and_samples_begin_with_it_too(self, translator):
        for texts in translator.translate_nbest(["old tree"], 2, prefixes=["small"]):
            assert [text.startswith("small") for text, _ in texts] == [True, True]
        ((first, second),) = translator.sample(["old tree"], 2, prefixes=["small"])
        assert first[0].startswith("small")
        assert second[0].startswith("small")

    def test_an_empty_sentence_has_its_prefix_alone(self, translator):
        assert translator.translate(["", "old tree"], prefixes=["small house", ""])[0] == (
            "small house"
        )


class TestSamples:
    @pytest.mark.core
    def test_depend_on_seed_and_index_alone(self, translator, models, tokenizer):
        lines = sentences(7, seed=3)
        samples = translator.sample(lines, 3, seed=5)
        one_by_one = Translator(models[0], tokenizer, **{**OPTIONS, "batch_size": 1})
        for index, line in enumerate(lines):
            (alone,) = one_by_one.sample([line], 2, seed=5, first_index=index)
            assert [text for text, _ in alone] == [text for text, _ in samples[index][:2]]
            np.testing.assert_allclose(
                [value for _, value in alone], [value for _, value in samples[index][:2]], atol=1e-3
            )
        assert translator.sample(lines, 3, seed=6) != samples
        texts = [text for candidates in samples for text, _ in candidates]
        assert len(set(texts)) > len(texts) // 2

    def test_the_same_sentence_twice_has_other_samples(self, translator):
        first, second = translator.sample(["old green tree"] * 2, 3)
        assert first != second

    def test_among_the_likeliest_token_alone_is_greedy_search(self, models, tokenizer, translator):
        lines = sentences(4, seed=4)
        greedy = Translator(models[0], tokenizer, **{**OPTIONS, "beam_size": 1}).translate(lines)
        found = translator.sample(lines, 2, top_k=1)
        assert [[text for text, _ in texts] for texts in found] == [[text] * 2 for text in greedy]

    def test_an_empty_sentence_has_empty_samples(self, translator):
        assert translator.sample(["", "old tree"], 3)[0] == [("", 0.0)] * 3

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n": 0}, "`n` must be a positive integer. Received: n=0"),
            ({"seed": -1}, "`seed` must be .* Received: seed=-1"),
            ({"first_index": 0.5}, "`first_index` must be .* Received: first_index=0.5"),
            ({"temperature": 0}, "`temperature` must be a finite number > 0. Received: temp"),
            ({"top_k": 0}, "`top_k` must be a positive integer. Received: top_k=0"),
            ({"top_p": 2}, "`top_p` must be .* Received: top_p=2"),
        ],
    )
    def test_bad_options_are_refused(self, translator, options, message):
        for lines in (["old tree"], [""]):
            with pytest.raises(ValueError, match=message):
                translator.sample(lines, **options)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_limits_reach_the_search(models, tokenizer, beam_size):
    options = SearchOptions(beam_size=beam_size, extra_length=4, min_length=6, no_repeat_ngram=1)
    translator = Translator(models[0], tokenizer, **dataclasses.asdict(options))
    generator, ids = SequenceGenerator(models[0]), ids_of(tokenizer, "old green tree")
    found = np.array(generator.search(ids, options=options)[0])[:, 0]
    assert translator.translate(["old green tree"]) == tokenizer.decode(found)
    tokens = found[found > 3].tolist()
    assert len(tokens) >= 6
    assert len(set(tokens)) == len(tokens)


def test_a_normalized_score_is_per_token(translator, tokenizer):
    sources, targets = sentences(3), [*sentences(2, seed=8), ""]
    lengths = [len(ids) + 1 for ids in tokenizer.encode(targets)]
    scores = translator.score(sources, targets)
    expected = [score / n for score, n in zip(scores, lengths, strict=True)]
    assert translator.score(sources, targets, normalize=True) == pytest.approx(expected)
    assert expected[2] == scores[2]


@pytest.mark.core
def test_an_alignment_is_the_attention_of_its_own_pair(tokenizer):
    model = build(tokenizer, num_decoder_layers=2)
    translator, generator = Translator(model, tokenizer, **OPTIONS), SequenceGenerator(model)
    sources, targets = [*sentences(3, seed=6), ""], [*sentences(2, seed=7), "", "old tree"]
    for alignment, source, target in zip(
        translator.align(sources, targets), sources, targets, strict=True
    ):
        source_ids, target_ids = ids_of(tokenizer, source), tokenizer.encode([target])[0]
        assert alignment.source_pieces == tokenizer.pieces(source_ids[0])
        assert alignment.target_pieces == tokenizer.pieces(target_ids)
        decoder_ids = np.array([[tokenizer.special_tokens.bos, *target_ids]])
        expected = np.array(generator.alignment(source_ids, decoder_ids))[0, : len(target_ids)]
        np.testing.assert_allclose(alignment.weights, expected, atol=1e-4)
        words = [word for _, word in alignment.word_pairs()]
        assert sorted(words) == list(range(len(target.split()) if source else 0))
