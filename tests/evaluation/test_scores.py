"""All scores of a system, and the record of them."""

import json
import math
import platform

import keras
import numpy
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import (
    bleu,
    chrf,
    score_record,
    system_scores,
    tokenized_compound_split_bleu,
)

HYPOTHESES = ["Der E-Mail-Server läuft nicht.", "ein kleines Haus am See"]
REFERENCES = ["Der neue E-Mail-Server läuft nicht.", "ein kleines rotes Haus am See"]


@pytest.mark.parametrize("tokenize", ["13a", "none"])
def test_scores_are_those_of_the_functions_and_fit_json(tokenize):
    scores = system_scores(HYPOTHESES, REFERENCES, tokenize=tokenize, language="de")
    split = tokenized_compound_split_bleu(HYPOTHESES, REFERENCES, tokenized=tokenize == "none")
    assert (scores["bleu"], scores["bleu_signature"]) == bleu(HYPOTHESES, REFERENCES, tokenize)
    assert (scores["chrf"], scores["chrf_signature"]) == chrf(HYPOTHESES, REFERENCES)
    assert scores["tokenized_compound_split_bleu"] == split
    assert f"tok:{tokenize}" in scores["bleu_signature"]
    assert json.loads(json.dumps(scores)) == scores


def test_length_ratio_and_brevity_penalty():
    # 13a splits the point off: 5 + 5 tokens against 6 + 6.
    scores = system_scores(HYPOTHESES, REFERENCES, tokenize="13a", language="de")
    assert scores["length_ratio"] == pytest.approx(10 / 12)
    assert scores["brevity_penalty"] == pytest.approx(math.exp(1 - 12 / 10))


def test_long_output_pays_no_brevity_penalty():
    scores = system_scores(REFERENCES, HYPOTHESES, tokenize="13a", language="de")
    assert scores["length_ratio"] == pytest.approx(12 / 10)
    assert scores["brevity_penalty"] == 1.0


def test_an_unknown_tokenizer_is_refused_with_the_known_ones():
    with pytest.raises(UserInputError, match="one of none, zh, 13a.* Received: tokenize='moses'"):
        system_scores(HYPOTHESES, REFERENCES, tokenize="moses", language="de")


def test_a_score_record_has_the_promised_keys_and_is_json():
    record = score_record(
        bleu=41.5,
        signature="nrefs:1",
        seconds=60.0,
        target_tokens_per_second=1000.0,
        command="python -m recipes.number_words.train --seed 2",
        exact_match=0.995,
    )
    read = json.loads(json.dumps(record))
    assert read["bleu"] == 41.5
    assert read["exact_match"] == 0.995
    assert read["command"].endswith("--seed 2")
    assert read["versions"]["numpy"] == numpy.__version__
    assert read["versions"]["python"] == platform.python_version()
    assert read["versions"]["backend"] == keras.backend.backend()
    assert read["machine"]["cores"] >= 1
    assert read["machine"]["devices"]
