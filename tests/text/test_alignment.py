import dataclasses

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.pharaoh import parse_pharaoh, pharaoh, symmetrize


def align(source, target, weights):
    """An alignment from pieces in one string each; the source ends with EOS."""
    return Alignment([*source.split(), "</s>"], target.split(), np.array(weights))


def test_a_target_word_takes_the_source_word_of_most_weight():
    alignment = align("▁a ▁b ▁c", "▁x ▁y ▁z", [[1, 2, 6, 1], [7, 1, 1, 1], [0, 5, 4, 1]])
    assert alignment.word_pairs() == [(0, 1), (1, 2), (2, 0)]
    assert alignment.pharaoh() == "0-1 1-2 2-0"


def test_a_guided_alignment_links_all_words_of_enough_weight():
    # `xx` has 0.15 and 0.45 of `a` and `b`; `y` has 0.25 at most, `z` more than 0.3 of both.
    weights = [[0.3, 0.2, 0.5], [0.0, 0.7, 0.3], [0.2, 0.25, 0.55], [0.35, 0.4, 0.25]]
    alignment = align("▁a ▁b", "▁x x ▁y ▁z", weights)
    assert alignment.word_pairs() == [(1, 0), (1, 1), (1, 2)]
    guided = dataclasses.replace(alignment, is_guided=True)
    assert guided.word_pairs() == [(0, 2), (1, 0), (1, 2)]


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


def grow_diagonally(forward, backward):
    """The heuristic by its definition: repeat over all links of one direction until none fits."""
    union, found = set(forward) | set(backward), set(forward) & set(backward)
    while True:
        new = {
            (i, j)
            for i, j in union - found
            if any(max(abs(i - k), abs(j - m)) == 1 for k, m in found)
            and (i not in {k for k, _ in found} or j not in {m for _, m in found})
        }
        if not new:
            return found
        found.add(min(new))


def test_symmetrized_links_are_between_intersection_and_union():
    rng = np.random.default_rng(7)
    for _ in range(200):
        forward, backward = (
            {(int(i), int(j)) for i, j in rng.integers(0, 6, (8, 2))} for _ in "fb"
        )
        found = symmetrize(forward, backward)
        assert found == sorted(set(found))
        assert forward & backward <= set(found) <= forward | backward
        # No link is left that could be added, and each added one had a neighbor.
        rest = (forward | backward) - set(found)
        sources, targets = ({link[side] for link in found} for side in (0, 1))
        for i, j in rest:
            is_near = any(max(abs(i - k), abs(j - m)) == 1 for k, m in found)
            assert not (is_near and (i not in sources or j not in targets))
        assert bool(found) == bool(forward & backward)


def test_an_unambiguous_growth_is_the_definition():
    forward, backward = [(0, 0), (1, 1), (2, 2), (3, 5)], [(0, 0), (1, 1), (2, 3), (4, 0)]
    assert set(symmetrize(forward, backward)) == grow_diagonally(forward, backward)
    assert symmetrize(forward, backward) == [(0, 0), (1, 1), (2, 2), (2, 3)]


def test_pharaoh_lines_are_read_as_they_are_written():
    links = [(0, 3), (12, 1)]
    assert parse_pharaoh(pharaoh(links)) == links
    assert parse_pharaoh("") == []


@pytest.mark.parametrize("line", ["0:1", "1-", "a-b", "0-1,2-3", "-1-2", "0-1 x", "9999999999-0"])
def test_other_lines_are_refused(line):
    with pytest.raises(UserInputError, match="must consist of pairs of word numbers"):
        parse_pharaoh(line)
