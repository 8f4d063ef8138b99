import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import alignment_error_rate
from keras_transformer.evaluation.alignment_scores import error_rate_against, read_reference_links


def test_all_sure_links_and_no_others_have_no_error():
    assert alignment_error_rate([[(0, 0)], [(1, 0)]], [[(0, 0)], [(1, 0)]]) == 0


def test_possible_links_are_no_errors_and_are_not_missed():
    # |A & S| = 1, |A & P| = 2, |A| = 3, |S| = 2: 1 - 3 / 5.
    found = [(0, 0), (1, 1), (2, 0)]
    assert alignment_error_rate([found], [[(0, 0), (2, 2)]], [[(1, 1)]]) == pytest.approx(0.4)


def test_the_links_of_all_pairs_count_together():
    # The first pair has 4 links, all right; the second one link, wrong: 1 - 8 / 10, not the mean.
    first = [(i, i) for i in range(4)]
    rate = alignment_error_rate([first, [(0, 0)]], [first, [(0, 1)]])
    assert rate == pytest.approx(0.2)


def test_reference_files_mark_possible_links(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 2?1\n\n1-1 3p0\n", encoding="utf-8")
    first, second, third = read_reference_links(path)
    assert (first.sure, first.possible) == ([(0, 0)], [(2, 1)])
    assert (second.sure, second.possible) == ([], [])
    assert third.possible == [(3, 0)]
    found = [[(0, 0), (2, 1)], [], [(1, 1)]]
    assert error_rate_against([first, second, third], found) == 0


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (([[]], []), "must have the same length"),
        (([[]], [[]], []), "must have the same length"),
        (([[]], [[]]), "`references` must contain at least one link"),
    ],
)
def test_lists_that_do_not_fit_are_refused(lists, message):
    with pytest.raises(UserInputError, match=message):
        alignment_error_rate(*lists)


def test_a_wrong_line_is_named(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0\n0=1\n", encoding="utf-8")
    with pytest.raises(UserInputError, match=r"gold, line 2: An alignment must consist of pairs"):
        read_reference_links(path)
