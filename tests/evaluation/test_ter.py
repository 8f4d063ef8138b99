"""TER is in every list of scores, and lower is better."""

import pytest

from keras_transformer.evaluation import paired_bootstrap, system_scores, tune_search
from keras_transformer.evaluation.scores import recorded_rows
from keras_transformer.search_options import SearchOptions, search_record
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.verbs.evaluate_command import scorecard_text

REFERENCES = ["ein kleines Haus am See", "der alte Baum steht dort"]
SHIFTED = ["am See ein kleines Haus", "der alte Baum steht dort"]


class TwoTranslations:
    """Translates without a fault if alpha is 1, else with a shifted phrase."""

    search_options = SearchOptions(alpha=0.6)

    def with_search(self, **options):
        return self

    def translate_with_alphas(self, sentences, alphas, progress=False):
        return [REFERENCES if alpha == 1.0 else SHIFTED for alpha in alphas]


def test_a_shifted_phrase_is_one_edit():
    scores = system_scores(SHIFTED, REFERENCES)
    assert scores["ter"] == pytest.approx(100 * 1 / 10)  # edits for each word of the references
    assert scores["ter_signature"].startswith("nrefs:1|case:lc|tok:tercom")


def test_tune_takes_the_lowest(capsys):
    tuning = tune_search(TwoTranslations(), ["a", "b"], REFERENCES, alphas=[0.6, 1.0], metric="ter")
    assert (tuning.best.alpha, tuning.best.score, tuning.default.score) == (1.0, 0.0, 10.0)
    assert "tok:tercom" in tuning.signature
    with pytest.raises(SystemExit):
        cli.main(["tune", "--help"])
    assert "{bleu,chrf,ter}" in capsys.readouterr().out


def test_the_bootstrap_the_table_and_the_report_have_it():
    others = {"perplexity": None, "search": None, "path": "runs/en_de"}
    systems = {"single": {**system_scores(SHIFTED, REFERENCES), **others}}
    systems["against"] = {**system_scores(REFERENCES, REFERENCES), **others}
    compared = paired_bootstrap(SHIFTED, REFERENCES, REFERENCES, samples=20)
    assert (compared["ter"]["score"], compared["ter"]["baseline_score"]) == (10.0, 0.0)
    card = {"source": "a", "reference": "b", "sentences": 2, "language": "de"}
    card |= {"systems": systems, **search_record(SearchOptions())}
    table = scorecard_text({**card, "paired_bootstrap": {"single": compared}})
    assert "chrF    TER  tok. BLEU" in table
    assert "single  TER   " in table
    recorded = {"ter": 10.0, "ter_signature": "tok:tercom"}
    assert recorded_rows(recorded) == [("TER", "10.00", "tok:tercom")]
