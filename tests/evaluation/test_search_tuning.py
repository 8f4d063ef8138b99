"""The choice of a search by its score, with a translator whose translations are known."""

import pytest
import sacrebleu

from keras_transformer.evaluation import tune_search
from keras_transformer.search_options import SearchOptions

SOURCES = ["one", "two"]
REFERENCES = ["das ist ein kleines Haus am See .", "der alte Baum ist groß und grün ."]
WORDS = [reference.split() for reference in REFERENCES]


class LengthTranslator:
    """Translates with a word more for every 0.5 of alpha and every hypothesis of the beam."""

    def __init__(self, asked=None, **options):
        self.search_options = SearchOptions(**options)
        self.asked = [] if asked is None else asked

    def with_search(self, **options):
        return LengthTranslator(self.asked, **options)

    def translate_with_alphas(self, sentences, alphas, progress=False):
        search = self.search_options
        self.asked.append((search.beam_size, search.extra_length, list(alphas)))
        lengths = [search.beam_size + int(alpha / 0.5) for alpha in alphas]
        padded = [[*words, *["zu", "viel"] * 9] for words in WORDS]
        return [[" ".join(words[:length]) for words in padded] for length in lengths]


def bleu_of(length):
    texts = [" ".join(words[:length]) for words in WORDS]
    return sacrebleu.BLEU().corpus_score(texts, [REFERENCES])


def test_every_alpha_is_scored_and_the_best_is_chosen():
    translator = LengthTranslator()
    tuning = tune_search(translator, SOURCES, REFERENCES, alphas=[0.0, 0.5, 1.0, 2.0])
    assert [one.alpha for one in tuning.results] == [0.0, 0.5, 1.0, 2.0]
    assert [one.score for one in tuning.results] == [bleu_of(n).score for n in (4, 5, 6, 8)]
    assert [one.length_ratio for one in tuning.results] == [0.5, 0.625, 0.75, 1.0]
    assert tuning.best == tuning.results[-1]
    assert tuning.best.options == {"alpha": 2.0, "beam_size": 4, "extra_length": 50}
    # The default was not asked for: it is scored beside the others, in the same search.
    assert (tuning.default.alpha, tuning.default.score) == (0.6, bleu_of(5).score)
    assert translator.asked == [(4, 50, [0.0, 0.5, 1.0, 2.0, 0.6])]
    assert (tuning.sentences, tuning.metric) == (2, "bleu")
    assert "tok:13a" in tuning.signature


def test_the_default_alphas_are_tenths_without_rounding_errors():
    translator = LengthTranslator()
    tune_search(translator, SOURCES, REFERENCES)
    ((_, _, alphas),) = translator.asked
    assert [str(alpha) for alpha in alphas] == [f"{i // 10}.{i % 10}" for i in range(21)]


def test_of_equal_scores_the_nearest_to_the_default_is_chosen():
    # 1.0 to 1.4 give the same translations, and so do 0.0 to 0.4.
    tuning = tune_search(LengthTranslator(beam_size=6), SOURCES, REFERENCES)
    assert (tuning.best.alpha, tuning.best.score) == (1.0, pytest.approx(100))
    near = tune_search(LengthTranslator(beam_size=6, alpha=1.3), SOURCES, REFERENCES)
    assert near.best.alpha == 1.3
    beams = tune_search(
        LengthTranslator(beam_size=6), SOURCES, REFERENCES, alphas=[0, 0.5, 1], beam_sizes=[8, 7, 6]
    )
    assert (beams.best.beam_size, beams.best.alpha) == (6, 1)


def test_each_beam_size_and_extra_length_has_a_search():
    translator = LengthTranslator(beam_size=5)
    tuning = tune_search(
        translator, SOURCES, REFERENCES, alphas=[0.0], beam_sizes=[8, 2], extra_lengths=[9, 50]
    )
    found = [(one.beam_size, one.extra_length) for one in tuning.results]
    assert found == [(8, 9), (8, 50), (2, 9), (2, 50)]
    assert tuning.best.options == {"alpha": 0.0, "beam_size": 8, "extra_length": 50}
    assert translator.asked[-1] == (5, 50, [0.6])  # the default, which is none of them
    assert (tuning.default.beam_size, tuning.default.score) == (5, bleu_of(6).score)


def test_chrf_chooses_too():
    tuning = tune_search(LengthTranslator(), SOURCES, REFERENCES, alphas=[0.0, 2.0], metric="chrf")
    assert tuning.best.score == pytest.approx(100)
    expected = sacrebleu.CHRF().corpus_score([" ".join(w[:4]) for w in WORDS], [REFERENCES]).score
    assert tuning.results[0].score == pytest.approx(expected)
    assert (tuning.metric, tuning.results[0].length_ratio) == ("chrf", 0.5)
    assert tuning.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alphas": []}, "`alphas` must contain at least one number"),
        ({"alphas": [0.01 * i for i in range(501)]}, "at most 500 numbers. Received: alphas=501"),
        ({"beam_sizes": []}, "`beam_sizes` must contain at least one number"),
        ({"beam_sizes": [4, 0]}, "`beam_size` must be a positive integer"),
        ({"extra_lengths": [-1]}, "`extra_length` must be a positive integer"),
        ({"metric": "comet"}, "`metric` must be one of"),
        ({"tokenize": "moses"}, "`tokenize` must be one of"),
        ({"references": ["eins"]}, "must have the same length, at least 1"),
        ({"sources": [], "references": []}, "must have the same length, at least 1"),
    ],
)
def test_what_cannot_work_is_told_before_the_first_search(arguments, message):
    translator = LengthTranslator()
    texts = {"sources": SOURCES, "references": REFERENCES, **arguments}
    with pytest.raises(ValueError, match=message):
        tune_search(translator, **texts)
    assert translator.asked == []
