import json
import os
import secrets

import pytest

from keras_transformer.errors import CannotWrite
from keras_transformer.files import (
    PARTIAL,
    file_lock,
    remove_left_over,
    whole_file,
    write_json,
    write_text,
)


def test_writes_are_whole_or_not_at_all(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 41.0, "satz": "größer"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"bleu": 41.0, "satz": "größer"}
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert json.loads(path.read_text(encoding="utf-8"))["bleu"] == 41.0


def test_json_may_hold_names_of_files_that_are_not_utf_8(tmp_path):
    write_json(tmp_path / "scores.json", {"path": os.fsdecode(b"caf\xe9.en")})
    assert json.loads((tmp_path / "scores.json").read_bytes()) == {"path": "caf?.en"}


def test_only_what_a_killed_process_left_is_removed(tmp_path):
    """A translation that was interrupted keeps its text in `.partial-NAME`."""
    left = {f"{PARTIAL}{'0a' * 16}", ".candidate-model.weights.h5"}
    kept = {f"{PARTIAL}test.de", f"{PARTIAL}test.de.json", "mine.partial", f"{PARTIAL}0a"}
    for name in left | kept:
        (tmp_path / name).touch()
    remove_left_over(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even where the name of the partial file is known."""
    (tmp_path / "script").write_text("echo mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    (tmp_path / f"{PARTIAL}known").symlink_to(tmp_path / "script")
    with pytest.raises(CannotWrite, match="Cannot write .*scores.json: File exists"):
        write_json(tmp_path / "scores.json", {})
    assert (tmp_path / "script").read_text() == "echo mine"


def test_the_name_of_a_partial_file_is_another_each_time(tmp_path):
    names = set()
    for _ in range(2):
        with whole_file(tmp_path / "scores.json") as file:
            names.add(file.name)
    assert len(names) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_a_lock_s_name_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), file_lock(tmp_path / "lock", print):
        pass
    assert not (tmp_path / "elsewhere").exists()
