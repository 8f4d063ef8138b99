import numpy as np
import pytest

from keras_transformer.text.alignment import Alignment


def align(source, target, weights):
    """An alignment from pieces in one string each; the source ends with EOS."""
    return Alignment([*source.split(), "</s>"], target.split(), np.array(weights))


def test_a_target_word_takes_the_source_word_of_most_weight():
    alignment = align("▁a ▁b ▁c", "▁x ▁y ▁z", [[1, 2, 6, 1], [7, 1, 1, 1], [0, 5, 4, 1]])
    assert alignment.word_pairs() == [(0, 1), (1, 2), (2, 0)]
    assert alignment.pharaoh() == "0-1 1-2 2-0"


def test_the_weight_of_the_end_of_sentence_counts_for_no_word():
    assert align("▁a ▁b", "▁x", [[0.1, 0.2, 0.7]]).word_pairs() == [(1, 0)]


def test_source_pieces_are_summed_and_target_pieces_averaged():
    # To the word `bb`: 0.3 + 0.2 of one piece, 0.1 + 0 of the other, mean 0.3. To `a`: mean 0.35.
    weights = [[0.4, 0.3, 0.2, 0.1], [0.3, 0.1, 0.0, 0.6]]
    assert align("▁a ▁b b", "▁x x", weights).word_pairs() == [(0, 0)]
    # 0.4 of the one piece alone is more than each, and less than both, of the other's.
    assert align("▁a ▁b b", "▁x", [[0.4, 0.3, 0.3, 0]]).word_pairs() == [(1, 0)]


@pytest.mark.parametrize(
    "pieces",
    [
        "▁old ▁house",
        "▁o ld ▁h ous e",
        "▁ old ▁ house",  # the space is a piece of its own
        "▁old ▁ ▁house ▁",  # several spaces
        "old ▁house",  # no space in front of the first word
        "▁old▁ house",
    ],
)
def test_words_are_what_white_space_parts(pieces):
    source = [*pieces.split(), "</s>"]
    assert "".join(source[:-1]).replace("▁", " ").split() == ["old", "house"]
    first_of_house = next(index for index, piece in enumerate(source) if "h" in piece)
    for index, piece in enumerate(source[:-1]):
        if piece != "▁":
            weights = np.eye(len(source))[[index]]  # this piece has all the weight
            word = int(index >= first_of_house)
            assert Alignment(source, ["▁x"], weights).word_pairs() == [(word, 0)]


def test_an_empty_side_has_no_pairs():
    nothing = Alignment(["</s>"], ["▁x"], np.ones((1, 1)))
    assert (nothing.word_pairs(), nothing.pharaoh()) == ([], "")
    assert Alignment(["▁a", "</s>"], [], np.zeros((0, 2))).word_pairs() == []
    assert Alignment(["▁", "</s>"], ["▁x"], np.ones((1, 2))).word_pairs() == []
