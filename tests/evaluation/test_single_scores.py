"""Each score of a list of strings, against closed formulas."""

import math
import socket
import urllib.error

import pytest
from sacrebleu.tokenizers import tokenizer_spm

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import (
    bleu,
    chrf,
    exact_match,
    perplexity,
    tokenized_compound_split_bleu,
)


def test_bleu_equals_the_closed_formula():
    # Matching n-grams of "a b c d x" in "a b c d e": 4 of 5, 3 of 4, 2 of 3, 1 of 2; equal lengths.
    score, signature = bleu(["a b c d x"], ["a b c d e"], tokenize="none")
    precisions = (4 / 5, 3 / 4, 2 / 3, 1 / 2)
    assert score == pytest.approx(100 * math.prod(precisions) ** 0.25)
    assert "tok:none" in signature
    assert "case:mixed" in signature


def test_short_output_pays_the_brevity_penalty():
    score, _ = bleu(["a b c d e"], ["a b c d e f"], tokenize="none")
    assert score == pytest.approx(100 * math.exp(1 - 6 / 5))


def test_13a_splits_punctuation_that_none_keeps():
    texts = ["a b c d ."], ["a b c d."]
    assert bleu(*texts)[0] == pytest.approx(100)
    assert bleu(*texts, tokenize="none")[0] < 90


def test_lowercase_ignores_case_and_says_so():
    score, signature = bleu(["A B C D E"], ["a b c d e"], lowercase=True)
    assert score == pytest.approx(100)
    assert "case:lc" in signature


@pytest.mark.parametrize("score", [bleu, chrf, exact_match, tokenized_compound_split_bleu])
@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_lists_that_do_not_pair_are_refused(score, hypotheses, references):
    with pytest.raises(UserInputError, match=f"{len(hypotheses)} hypotheses"):
        score(hypotheses, references)


@pytest.mark.parametrize("score", [bleu, chrf, exact_match])
def test_a_single_string_is_no_list(score):
    with pytest.raises(ValueError, match="`hypotheses` must be a list of strings"):
        score("ein Haus", "ein Haus")
    with pytest.raises(ValueError, match="`references` must be a list of strings"):
        score(["ein Haus"], "ein Haus")


def test_chrf_equals_the_closed_formula():
    # Character n-grams of "abcd" that are in "abcde", of orders 1 to 4: all 4, 3, 2, 1 of them, out
    # of 5, 4, 3, 2. Order 5 and 6 have none in the hypothesis and are left out.
    precision = 1.0
    recall = (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2) / 4
    score, signature = chrf(["abcd"], ["abcde"])
    assert score == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))
    assert "nc:6" in signature
    assert "nw:0" in signature


def test_chrf_counts_case_and_no_white_space():
    assert chrf(["Haus am See ."], ["Haus am See."])[0] == pytest.approx(100)
    assert chrf(["haus am see."], ["Haus am See."])[0] < 90


def test_perplexity_is_the_exponential_of_the_mean_loss_and_infinite_beyond_floats():
    assert perplexity([-1.0, -2.0, 0.0], 4) == pytest.approx(math.exp(0.75))
    assert perplexity([0.0], 3) == 1.0
    assert math.isfinite(perplexity([-709.0], 1))
    for nats in (710.0, 1e30, math.inf):
        assert perplexity([-2 * nats, 0.0], 2) == math.inf


def test_exact_match_is_a_share():
    assert exact_match(["a", "b ", "c"], ["a", "b", "c"]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("fault", [urllib.error.URLError("no network"), SystemExit(1)])
def test_a_tokenizer_that_cannot_be_downloaded_is_one_line(fault, tmp_path, monkeypatch):
    def download(*_):
        assert socket.getdefaulttimeout() == 30
        raise fault

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", download)
    with pytest.raises(UserInputError, match="tokenize='flores200': sacrebleu cannot download"):
        bleu(["a"], ["a"], tokenize="flores200")
    assert socket.getdefaulttimeout() is None
