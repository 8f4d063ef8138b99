import io
import sys
import types

import pytest

from keras_transformer import cli
from keras_transformer.errors import UserInputError
from keras_transformer.version import __version__


class UpperCase:
    """A translator whose n-best list is the text in upper case, then as it was."""

    @classmethod
    def load(cls, run, **options):
        if run == "missing":
            raise UserInputError("`missing` is no run directory")
        cls.options = options
        return cls()

    def translate(self, sentences):
        self.chunks.append(sentences)
        return [sentence.upper() for sentence in sentences]

    def translate_nbest(self, sentences, n):
        return [[(text.upper(), -0.5), (text, -1.25)][:n] for text in sentences]


@pytest.fixture
def translate(monkeypatch, capfdbinary):
    """Run `keras-transformer translate` on bytes; gives (exit code, stdout, stderr)."""
    module = types.SimpleNamespace(Translator=UpperCase)
    monkeypatch.setitem(sys.modules, "keras_transformer.translator", module)
    UpperCase.chunks = []

    def run(text, *arguments):
        stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text)))
        monkeypatch.setattr(sys, "stdin", stdin)
        code = cli.main(["translate", *arguments])
        return (code, *capfdbinary.readouterr())

    return run


def test_lines_come_back_in_order_with_empty_lines(translate):
    text = "größe\n\nzwei\r\na\u2028b\x0bc\nlast".encode()
    expected = "GRÖSSE\n\nZWEI\nA\u2028B\x0bC\nLAST\n".encode()
    assert translate(text, "run") == (0, expected, b"")


def test_no_lines_give_no_lines(translate):
    assert translate(b"", "run") == (0, b"", b"")


def test_flags_reach_the_translator(translate):
    flags = ["--checkpoint=c.weights.h5", "--beam-size=5", "--alpha=1", "--batch-size=7"]
    assert translate(b"a\n", "run", *flags)[0] == 0
    assert UpperCase.options == {
        "checkpoint": "c.weights.h5",
        "beam_size": 5,
        "alpha": 1.0,
        "batch_size": 7,
    }


def test_n_best_lines_carry_the_index_over_chunks(translate, monkeypatch):
    monkeypatch.setattr(cli, "READ_BYTES", 2)
    code, out, _ = translate(b"a\nb\n", "run", "--n-best", "2")
    assert code == 0
    assert out.decode().splitlines() == [
        "0 ||| A ||| -0.500000",
        "0 ||| a ||| -1.250000",
        "1 ||| B ||| -0.500000",
        "1 ||| b ||| -1.250000",
    ]


def test_n_best_must_fit_the_beam(translate):
    code, out, err = translate(b"a\n", "run", "--n-best", "5")
    assert (code, out) == (2, b"")
    assert err.startswith(b"error: `--n-best` must be at most the beam size.")


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("--n-best=0", "invalid positive integer value: '0'"),
        ("--beam-size=0", "invalid positive integer value: '0'"),
        ("--batch-size=x", "invalid positive integer value: 'x'"),
        ("--alpha=-1", "invalid number from 0 value: '-1'"),
        ("--alpha=nan", "invalid number from 0 value: 'nan'"),
    ],
)
def test_a_flag_with_an_impossible_value_is_one_line(flag, complaint, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["translate", "run", flag])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


def test_invalid_utf8_names_the_line_after_translating_those_before(translate):
    code, out, err = translate(b"a\nb\nx\xffy\nc\n", "run")
    assert (code, out) == (2, b"A\nB\n")
    assert err == b"error: Line 3 of standard input is not valid UTF-8 at byte 2\n"


def test_missing_run_is_one_line(translate):
    assert translate(b"a\n", "missing") == (2, b"", b"error: `missing` is no run directory\n")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_chunks_hold_every_line_once_however_the_bytes_arrive(monkeypatch, size):
    monkeypatch.setattr(cli, "READ_BYTES", size)
    lines = ["", "eins", "zwei €", "", "größer", "ohne Ende"]
    stream = io.BufferedReader(io.BytesIO("\n".join(lines).encode()))
    assert [line for chunk in cli.chunks_of_lines(stream) for line in chunk] == lines


def test_a_large_input_is_read_in_large_chunks():
    stream = io.BufferedReader(io.BytesIO(b"line\n" * 100_000))
    chunks = [len(chunk) for chunk in cli.chunks_of_lines(stream)]
    assert sum(chunks) == 100_000
    assert max(chunks) > 1000


def test_a_line_break_in_a_translation_does_not_shift_the_lines():
    assert cli.n_best_lines([[("a\nb", -1)]], first_index=3) == ["3 ||| a b ||| -1.000000"]


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"keras-transformer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["translat"], ["translate"], ["translate", "r", "--x"]])
def test_wrong_command_line_is_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
