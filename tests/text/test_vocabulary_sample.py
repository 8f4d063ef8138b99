import collections
import weakref

import pytest

from keras_transformer.text import sample_lines


def numbered(count):
    return [f"line {number}" for number in range(count)]


@pytest.mark.parametrize("most", [5, 6, 1000])
def test_a_short_text_is_returned_whole(most):
    assert sample_lines(numbered(5), most) == numbered(5)


def test_lines_of_the_text_once_each_in_its_order():
    lines = numbered(500)
    drawn = sample_lines(iter(lines), 50)
    assert len(drawn) == 50
    assert drawn == sorted(set(drawn), key=lines.index)


def test_blank_lines_are_left_out():
    assert sample_lines(["", "a", " \t", "\u00a0", "b", "\n"], 2) == ["a", "b"]


def test_equal_lines_are_different_lines():
    assert sample_lines(["a"] * 9, 4) == ["a"] * 4


def test_every_line_is_drawn_alike():
    counts = collections.Counter()
    for seed in range(2000):
        counts.update(sample_lines(numbered(10), 3, seed))
    # Each line is expected 600 times, with a standard deviation of 20.5: five of them.
    assert len(counts) == 10
    assert all(abs(count - 600) < 103 for count in counts.values())


def test_the_seed_decides():
    lines = numbered(1000)
    assert sample_lines(lines, 20, seed=4) == sample_lines(iter(lines), 20, seed=4)
    assert sample_lines(lines, 20, seed=4) != sample_lines(lines, 20, seed=5)


def test_only_the_sample_is_in_memory():
    class Line(str):
        """A string that can be watched."""

    alive, peak = weakref.WeakSet(), 0

    def lines():
        nonlocal peak
        for number in range(2000):
            line = Line(number)
            alive.add(line)
            peak = max(peak, len(alive))
            yield line

    assert len(sample_lines(lines(), 10)) == 10
    # The sample, the line at hand and the one before it.
    assert peak <= 12


def test_a_size_that_is_no_positive_integer_is_refused():
    with pytest.raises(ValueError, match="`most` must be a positive integer. Received: most=0"):
        sample_lines([], 0)
