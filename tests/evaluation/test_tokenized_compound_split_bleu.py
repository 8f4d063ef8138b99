import math

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import tokenized_compound_split_bleu

# Hypothesis, reference, and both in tokens as they are compared (A stands for ##AT##-##AT##).
SIX = [
    # Two hyphens in one word, one missing part.
    # Der Mail A Server läuft .            Der E A Mail A Server läuft .
    ("Der Mail-Server läuft.", "Der E-Mail-Server läuft."),
    # The second hyphen stays: its letter on the left belongs to the first match.
    # Typ A A B-C ist neu                  Typ A A B-C ist neu
    ("Typ A-B-C ist neu", "Typ A-B-C ist neu"),
    # Case counts.
    # Das Haus ist rot .                   das Haus ist rot .
    ("Das Haus ist rot.", "das Haus ist rot."),
    # An abbreviation keeps its point, a number its comma.
    # Dr. Klein zahlt 3,5 Euro .           Dr. Klein zahlt 3,5 Euro .
    ("Dr. Klein zahlt 3,5 Euro.", "Dr. Klein zahlt 3,5 Euro."),
    # "die" counts twice at most, as in the reference.
    # die die die Maus                     die Katze sieht die Maus
    ("die die die Maus", "die Katze sieht die Maus"),
    # Punctuation and quotes are tokens of their own.
    # Er sagt : Ja , gern .                Er sagt : „ Ja , gern . “
    ("Er sagt: Ja, gern.", "Er sagt: „Ja, gern.“"),
]

# Matching n-grams / n-grams of the hypothesis, a row a sentence:
#   order 1   order 2   order 3   order 4
#    6 / 6     4 / 5     3 / 4     2 / 3
#    6 / 6     5 / 5     4 / 4     3 / 3
#    4 / 5     3 / 4     2 / 3     1 / 2
#    6 / 6     5 / 5     4 / 4     3 / 3
#    3 / 4     1 / 3     0 / 2     0 / 1
#    7 / 7     5 / 6     3 / 5     1 / 4
#   32 / 34   23 / 28   16 / 22   10 / 16
# Lengths: 34 tokens against 8 + 6 + 5 + 6 + 5 + 9 = 39. Brevity penalty: exp(1 - 39 / 34).
# 100 * exp(1 - 39 / 34) * (32 / 34 * 23 / 28 * 16 / 22 * 10 / 16) ** (1 / 4) =
SIX_BLEU = 66.464189


def test_six_sentences_equal_the_literal_counted_by_hand():
    score = tokenized_compound_split_bleu(*zip(*SIX, strict=True), language="de")
    assert score == pytest.approx(SIX_BLEU, abs=1e-6)
    precisions = 32 / 34, 23 / 28, 16 / 22, 10 / 16
    assert score == pytest.approx(100 * math.exp(1 - 39 / 34) * math.prod(precisions) ** 0.25)


def test_tokenized_text_is_not_tokenized_again():
    # "zwei." stays one token, 3 of 4 match: 3 / 4, 2 / 3, 1 / 2 and no match of order 4.
    pair = ["a b c zwei."], ["a b c zwei ."]
    assert tokenized_compound_split_bleu(*pair, tokenized=True) == 0.0
    assert tokenized_compound_split_bleu(*pair) == 100.0


def test_tokenized_text_has_its_compounds_split():
    # "E-Mail" and "E-Post": E, A of 3 tokens are right, so 6 / 7, 5 / 6, 4 / 5, 3 / 4.
    score = tokenized_compound_split_bleu(
        ["ein b c d E-Mail"], ["ein b c d E-Post"], tokenized=True
    )
    assert score == pytest.approx(100 * (6 / 7 * 5 / 6 * 4 / 5 * 3 / 4) ** 0.25)


def test_no_match_of_order_four_is_zero_without_smoothing():
    assert tokenized_compound_split_bleu(["eins zwei drei"], ["eins zwei drei"]) == 0.0


def test_an_empty_translation_is_scored():
    # One of two sentences is there: 5 tokens of 10, all right.
    score = tokenized_compound_split_bleu(
        ["das Haus ist rot.", ""], ["das Haus ist rot.", "der Baum war klein."]
    )
    assert score == pytest.approx(100 * math.exp(1 - 10 / 5))


def test_the_language_decides_what_an_abbreviation_is():
    # "bzw." is an abbreviation in German alone, so only in English its point is split off.
    pair = ["der Hund bzw. Die Katze ist hier"], ["der Hund bzw . Die Katze ist hier"]
    assert tokenized_compound_split_bleu(*pair, language="de") < 70
    assert tokenized_compound_split_bleu(*pair, language="en") == 100.0


@pytest.mark.parametrize("language", ["", "german", "DE", "d1"])
def test_a_language_that_is_no_code_is_refused(language):
    with pytest.raises(UserInputError, match=f"language={language!r}"):
        tokenized_compound_split_bleu(["a"], ["a"], language=language)
