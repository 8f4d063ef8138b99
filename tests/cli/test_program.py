import os
import pathlib
import subprocess
import sys

import pytest

from keras_transformer.argument_checks import int_from_zero, positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import note, say, tell
from keras_transformer.toolkit.cli.program import CommandParser, run_command


def raiser(error):
    def main():
        raise error

    return main


def test_success_is_zero_and_silent(capsys):
    assert run_command(lambda: None) == 0
    assert capsys.readouterr() == ("", "")


def test_user_error_is_one_line_and_two(capsys):
    assert run_command(raiser(UserInputError("`steps` must be\n  positive"))) == 2
    assert capsys.readouterr() == ("", "error: `steps` must be positive\n")


def test_verbose_shows_where_an_error_arose(capsys, monkeypatch):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")

    def main():
        CommandParser(prog="train").parse_args(["--verbose"])
        raise UserInputError("no text")

    assert run_command(main) == 2
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
    error = capsys.readouterr().err
    assert 'raise UserInputError("no text")' in error
    assert error.endswith("\nerror: no text\n")
    assert run_command(raiser(UserInputError("no text"))) == 2
    assert capsys.readouterr().err == "error: no text\n"


def test_quiet_leaves_results_warnings_and_errors(capsys):
    def main():
        CommandParser(prog="train").parse_args(["--quiet"])
        say("step 1")
        say("runs/first", result=True)
        note("resuming")
        tell("warning: odd")
        raise UserInputError("no text")

    assert run_command(main) == 2
    assert capsys.readouterr() == ("runs/first\n", "warning: odd\nerror: no text\n")
    run_command(lambda: note("resuming"))
    assert capsys.readouterr().err == "resuming\n"


def test_file_that_cannot_be_opened_is_named(capsys):
    assert run_command(pathlib.Path("/no/such/file").read_text) == 2
    assert capsys.readouterr().err == "error: No such file or directory: /no/such/file\n"


def test_interrupt_is_130(capsys):
    assert run_command(raiser(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_interrupt_while_the_command_is_imported_is_130_too():
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'keras_transformer.toolkit.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from keras_transformer.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_fault_of_the_program_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_command(lambda: 1 / 0)


@pytest.mark.parametrize(("type_", "least"), [(positive_int, 1), (int_from_zero, 0)])
def test_integers_that_no_model_holds_are_refused(type_, least, capsys):
    parser = CommandParser(prog="translate")
    parser.add_argument("--min-length", type=type_)
    for value in (least, 2**31 - 1):
        assert parser.parse_args([f"--min-length={value}"]).min_length == value
    for value in (least - 1, 2**31, 10**30):
        with pytest.raises(SystemExit):
            parser.parse_args([f"--min-length={value}"])
        told = f"must be an integer from {least} to 2147483647. Received: '{value}'"
        assert told in capsys.readouterr().err


def test_parser_takes_underscores_and_no_abbreviations(capsys):
    parser = CommandParser(prog="train")
    parser.add_argument("--batch-tokens", type=int)
    parser.add_argument("name")
    values = parser.parse_args(["--batch_tokens=8", "a_b"])
    assert (values.batch_tokens, values.name) == (8, "a_b")
    assert parser.parse_args(["--batch_tokens=8", "--", "--a_b"]).name == "--a_b"
    with pytest.raises(SystemExit):
        parser.parse_args(["--batch", "8", "a_b"])
    assert "unrecognized arguments: --batch" in capsys.readouterr().err


def test_a_memory_that_does_not_suffice_is_one_line(capsys):
    class ResourceExhaustedError(Exception):
        """Named as TensorFlow's."""

    def main():
        raise ResourceExhaustedError("OOM when allocating tensor\nwith shape[99]")

    assert run_command(main) == 2
    assert capsys.readouterr().err.startswith("error: There is not enough memory: ")
