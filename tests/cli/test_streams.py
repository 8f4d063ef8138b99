"""The command as a process whose streams are closed, full, or no streams of text."""

import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.refusals import refusal

TREE = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))\n"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def shell(tmp_path):
    """Run a line of bash, in which `kt` is the command; gives (exit code, stdout, stderr)."""
    (tmp_path / "text").write_text("a\nb\n")
    (tmp_path / "trees").write_text(TREE)
    command = f"cd {ROOT} && exec {shlex.quote(sys.executable)} -m tests.cli.fake_command"

    def run(line, **options):
        # The command starts elsewhere than in the folder of the files.
        line = f'kt() {{ ({command} "$@"); }}; D={shlex.quote(str(tmp_path))}; {line}'
        environment = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, env=environment, **options
        )
        return done.returncode, done.stdout, done.stderr

    return run


EVALB = "kt evalb $D/trees $D/trees"
TRANSLATE = "kt translate run < $D/text"
SCORE = "kt score run --source $D/text --target $D/text"
FULL = "error: Cannot write to standard output: No space left on device.\n"


@pytest.mark.parametrize("line", [EVALB, TRANSLATE, SCORE, "kt --help"])
def test_a_full_device_is_one_line(shell, line):
    assert shell(f"{line} > /dev/full") == (2, "", FULL)
    code, _, err = shell(f"export PYTHONUNBUFFERED=1; {line} > /dev/full")
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left on device" in err


@pytest.mark.parametrize("line", [EVALB, TRANSLATE, SCORE, "kt --help"])
def test_closed_standard_output_is_one_line(shell, line):
    assert shell(f"{line} >&-") == (2, "", "error: Standard output is closed.\n")


def test_closed_standard_input_is_one_line(shell):
    expected = (2, "", "error: Standard input is closed.\n")
    assert shell("kt translate run <&-") == expected
    assert shell("kt translate run <&- 2>&1 >/dev/full") == (2, expected[2], "")


def test_what_is_not_needed_may_be_closed(shell):
    assert shell(f"{SCORE} <&-") == (0, "-1.000000\n-1.000000\n", "")
    assert shell("kt translate run --input $D/text --output $D/out <&- >&-") == (0, "", "")
    assert shell("cat $D/out") == (0, "A\nB\n", "")


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_an_error_that_nobody_can_see_is_told_by_the_exit_code(shell, stderr):
    assert shell(f"kt translate missing < $D/text {stderr}") == (2, "", "")
    assert shell(f"kt translat {stderr}") == (2, "", "")
    assert shell(f"{TRANSLATE} {stderr}") == (0, "A\nB\n", "")


def test_an_error_goes_to_no_file_when_all_streams_are_closed(shell):
    line = "kt translate missing --input $D/text --output $D/out <&- >&- 2>&-"
    assert shell(line) == (2, "", "")
    assert "error" not in shell("cat $D/* $D/.partial*")[1]


def test_a_reader_that_leaves_is_no_error(shell):
    line = "yes a | head -n 100000 | kt translate run | head -n 1; echo ${PIPESTATUS[2]}"
    assert shell(line) == (0, "A\n0\n", "")


def test_standard_input_that_cannot_be_read_is_one_line(shell):
    said = refusal(shell("kt translate run < /proc/self/mem"))
    assert said == "error: Cannot read standard input: Input/output error\n"


def test_an_endless_line_is_one_line(shell):
    code, out, err = shell("(echo a; cat /dev/zero) | kt translate run")
    assert (code, out) == (2, "A\n")
    limit = "longer than 16,777,216 bytes, the limit for a line of text."
    assert err.splitlines()[-1] == f"error: Line 2 of standard input: {limit}"


def test_pipes_are_read_where_text_is_read_once(shell):
    line = "score run --source <(cat $D/text) --target <(cat $D/text)"
    assert shell(f"kt {line}") == (0, "-1.000000\n-1.000000\n", "")
    said = refusal(shell("kt score run --source $D/text --target <(head -n 1 $D/text)"))
    assert "/text has 2, /dev/fd/" in said
    assert said.endswith(" has 1\n")
    assert shell("kt evalb --json <(cat $D/trees) <(cat $D/trees)")[0] == 0


def test_pipes_and_devices_are_written_to(shell):
    line = "kt translate run --input $D/text --output"
    assert shell(f"{line} /dev/stdout | cat") == (0, "A\nB\n", "")
    assert shell(f"{line} /dev/null") == (0, "", "")
    assert Path("/dev/null").is_char_device()
    line = f"mkfifo $D/pipe; {line} $D/pipe & cat $D/pipe; wait $!; echo $?"
    assert shell(line) == (0, "A\nB\n0\n", "")
    assert shell("test -p $D/pipe")[0] == 0


def test_a_full_disk_keeps_what_was_written_and_the_same_command_goes_on(shell, tmp_path):
    (tmp_path / "long").write_text("".join(f"{'x' * 99}\n" for _ in range(1000)))
    line = "kt translate run --batch-size 4 --input $D/long --output $D/out"

    def small_files():  # as on a full disk: writing more fails
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))

    said = refusal(shell(line, preexec_fn=small_files))
    assert said == f"error: Cannot write {tmp_path / 'out'}: File too large.\n"
    partial = {path.name for path in tmp_path.glob(".partial*")}
    assert partial == {".partial-out", ".partial-out.json"}
    code, _, err = shell(line)
    assert (code, err) == (0, f"{tmp_path / 'out'}: resuming after line 448 of 1000\n")
    assert (tmp_path / "out").read_text() == f"{'X' * 99}\n" * 1000


def test_long_lines_are_told_by_number_after_those_before_are_answered(shell):
    text = r"printf 'a\nb\nLONG\nc\n' > $D/long; "
    line = text + "kt translate run < $D/long"
    refused = "error: Line 3 of standard input is too long (`--long-lines "
    split = "split` translates its sentences one by one, `cut` drops its end)\n"
    assert shell(line) == (2, "A\nB\n", refused + split)
    assert shell(f"{line} --tab-prefix")[2] == refused + "cut` drops its end)\n"
    cut = "Line 3 of standard input was too long\n"
    assert shell(f"{line} --long-lines cut") == (0, "A\nB\nLONG\nC\n", cut)
    code, out, err = shell(text + "kt score run --source $D/long --target <(seq 4)")
    assert (code, out) == (2, "-1.000000\n-1.000000\n")
    assert err.startswith("error: Line 3 of ")
    assert err.endswith("/long is too long\n")
