import json
import os

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import bleu, chrf, paired_bootstrap

REFERENCES = [f"das ist der Satz mit der Nummer {number}" for number in range(40)]
NOTHING = ["? ? ? ?"] * 40


def mixed(share):
    """The references, but a share of them replaced by something else; drawn at random."""
    wrong = np.random.default_rng(0).random(40) >= share
    return ["ein ganz anderer Text" if w else r for w, r in zip(wrong, REFERENCES, strict=True)]


def test_all_right_against_all_wrong():
    found = paired_bootstrap(REFERENCES, NOTHING, REFERENCES, samples=99)
    assert found["samples"] == 99
    for metric in (found["bleu"], found["chrf"]):
        assert metric["score"] == pytest.approx(100)
        assert metric["mean"] == pytest.approx(100)
        assert metric["confidence_interval"] == pytest.approx(0)
        assert metric["baseline_mean"] == pytest.approx(0)
        # No sample is further from the mean difference than the difference itself: (0 + 1) / 100.
        assert metric["p_value"] == 0.01


def test_scores_are_those_of_the_whole_test_set():
    system, baseline = mixed(0.8), mixed(0.5)
    found = paired_bootstrap(system, baseline, REFERENCES, tokenize="none", samples=50)
    assert found["bleu"]["score"] == bleu(system, REFERENCES, "none")[0]
    assert found["bleu"]["baseline_score"] == bleu(baseline, REFERENCES, "none")[0]
    assert found["chrf"]["score"] == chrf(system, REFERENCES)[0]
    assert 0 < found["bleu"]["confidence_interval"] < 30
    assert json.loads(json.dumps(found)) == found


def test_both_systems_are_resampled_alike():
    a, b = mixed(0.8), mixed(0.5)
    one, other = (paired_bootstrap(*pair, REFERENCES, samples=50) for pair in ((a, b), (b, a)))
    for metric in ("bleu", "chrf"):
        assert one[metric]["mean"] == pytest.approx(other[metric]["baseline_mean"])
        assert one[metric]["p_value"] == other[metric]["p_value"]


@pytest.mark.parametrize("system", [REFERENCES, mixed(0.5)])
def test_a_system_against_itself_shows_no_difference(system):
    found = paired_bootstrap(system, system, REFERENCES, samples=20)
    assert found["bleu"]["p_value"] == found["chrf"]["p_value"] == 1.0


@pytest.mark.parametrize("before", [None, "7"])
def test_the_seed_decides_and_the_environment_is_left_as_it_was(monkeypatch, before):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    if before is not None:
        monkeypatch.setenv("SACREBLEU_SEED", before)
    systems = mixed(0.8), mixed(0.5), REFERENCES
    first, again, other = (paired_bootstrap(*systems, samples=20, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first["bleu"]["mean"] != other["bleu"]["mean"]
    assert os.environ.get("SACREBLEU_SEED") == before


def test_what_does_not_pair_is_refused():
    with pytest.raises(UserInputError, match="1 hypotheses, 40 references"):
        paired_bootstrap(REFERENCES, ["a"], REFERENCES)
    for name in ("samples", "seed"):
        message = f"`{name}` must be a positive integer. Received: {name}=0"
        with pytest.raises(ValueError, match=message):
            paired_bootstrap(REFERENCES, NOTHING, REFERENCES, **{name: 0})
