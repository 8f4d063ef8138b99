"""What is told to people, and what happens if nobody can read it."""

import os
import sys

import pytest

from keras_transformer.files.standard_streams import say


def test_lines_are_printed_at_once(capsys):
    say("a house", 3)
    assert capsys.readouterr().out == "a house\n3\n"


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
