"""What is told to people, and what happens if nobody can read it."""

import os
import sys

import pytest

from keras_transformer.files import say, tell


def test_lines_are_printed_at_once(capsys):
    say("a house", 3)
    assert capsys.readouterr().out == "a house\n3\n"


def test_names_do_not_control_the_terminal(capsys, monkeypatch):
    tell("no layer \x1b[31mred\x9b2J\r, größe 猫")
    assert capsys.readouterr().err == "no layer \ufffd[31mred\ufffd2J\ufffd, größe 猫\n"
    say("\x1b[2J")  # into a file or a pipe, unchanged
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say("\x1b[2J")
    assert capsys.readouterr().out == "\x1b[2J\n\ufffd[2J\n"


def test_a_terminal_that_is_gone_is_no_error(monkeypatch):
    master, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        os.close(master)
        for _ in range(2):
            say("nobody reads this")


def test_a_full_disk_is_an_error(monkeypatch):
    with open("/dev/full", "w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="No space left on device"):
            say("a house")
        with pytest.raises(OSError, match="No space left on device"):
            full.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
