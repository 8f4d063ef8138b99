"""EVALB's parameter files."""

import gzip
import pathlib
import tracemalloc

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.parsing.evalb_scores import EvalbParameters

SAMPLE = pathlib.Path(__file__).with_name("evalb_sample")


def test_the_rules_of_new_prm():
    assert EvalbParameters.read(SAMPLE / "new.prm") == EvalbParameters(
        delete_labels=("TOP", "S1", "-NONE-", ",", ":", "``", "''", ".", "?", "!"),
        quote_labels=("``", "''", "POS", "NN", "CD", "VBZ", ":"),
    )


def test_every_rule_of_a_parameter_file_is_read(tmp_path):
    path = tmp_path / "own.prm"
    path.write_text(
        "# a comment\n##\n\nDEBUG 2\nMAX_ERROR 7\nCUTOFF_LEN 70\nLABELED 0   \n"
        "DELETE_LABEL TOP\nDELETE_LABEL  #\r\nDELETE_LABEL_FOR_LENGTH -NONE-\nQUOTE_LABEL POS\n"
        "EQ_LABEL A B\nEQ_LABEL C\tD\nEQ_WORD Example example\n",
        "utf-8",
    )
    assert EvalbParameters.read(path) == EvalbParameters(
        max_error=7,
        cutoff_length=70,
        labeled=False,
        delete_labels=("TOP", "#"),
        delete_labels_for_length=("-NONE-",),
        quote_labels=("POS",),
        equal_labels=(("A", "B"), ("C", "D")),
        equal_words=(("Example", "example"),),
    )


def test_a_file_without_rules_deletes_nothing(tmp_path):
    path = tmp_path / "empty.prm"
    path.write_text("# nothing\n", "utf-8")
    found = EvalbParameters.read(path)
    assert (found.delete_labels, found.equal_labels, found.labeled) == ((), (), True)


def test_labels_that_are_equal_in_a_circle():
    circle = EvalbParameters(equal_labels=(("A", "B"), ("B", "C"), ("C", "A"), ("A", "A")))
    assert circle.equals_of("A") == {"A", "B", "C"}
    pair = EvalbParameters(equal_labels=(("A", "B"), ("B", "C")), delete_labels=("C",))
    assert not pair.same_label("A", "C")  # as in EVALB: a pair is no chain
    assert pair.deletes_bracket("B")
    assert not pair.deletes_bracket("A")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"DEBUG 0\nDELETE_LABELS X", "line 2: not a rule of EVALB: DELETE_LABELS"),
        (b"CUTOFF_LEN forty", "line 1: CUTOFF_LEN must be an integer: forty"),
        (b"MAX_ERROR -1", "line 1: MAX_ERROR must be an integer >= 0: -1"),
        (b"EQ_LABEL A", "line 1: EQ_LABEL needs two values: A"),
        (b"EQ_WORD", "line 1: EQ_WORD has no value"),
        (b"EQ_WORD caf\xe9 cafe\n", "must be a parameter file: it is not UTF-8"),
        (b"DEBUG 0\n" * 100_000, "must be a parameter file of at most 100,000 bytes"),
        (b"EQ_LABEL A B\n" * 1001, "must have at most 1,000 rules. Received: 1,001"),
        (b"\0\1\2\3", "line 1: .* has no value"),
        (b"CUTOFF_LEN " + b"9" * 5000, "line 1: CUTOFF_LEN must be an integer: 9{60}[.]{3}$"),
        (b"CUTOFF_LEN 1000000001", "CUTOFF_LEN must be at most 1,000,000,000: 1000000001"),
        (b"x" * 90_000 + b" y", "line 1: not a rule of EVALB: x{60}[.]{3} "),
    ],
)
def test_a_wrong_or_hostile_file_is_one_short_line(tmp_path, data, message):
    (tmp_path / "hostile.prm").write_bytes(data)
    with pytest.raises(UserInputError, match=message) as raised:
        EvalbParameters.read(tmp_path / "hostile.prm")
    assert len(str(raised.value)) < 400 + len(str(tmp_path))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserInputError, match="Cannot read .*none.prm"):
        EvalbParameters.read(tmp_path / "none.prm")


def test_a_packed_file_of_any_size_is_not_read_to_its_end(tmp_path):
    bomb = tmp_path / "bomb.prm.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(100):
            file.write(b"#" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(UserInputError, match="at most 100,000 bytes"):
            EvalbParameters.read(bomb)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
