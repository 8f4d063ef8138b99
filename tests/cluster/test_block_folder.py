"""Outputs in blocks: any order, interruptions, and what is refused."""

import contextlib
import json
import os

import pytest

from keras_transformer.cluster.block_folder import BlockFolder, BlockName, begun_block_lines
from keras_transformer.cluster.cluster_inputs import InputFile
from keras_transformer.errors import UserInputError

SETTINGS = {"beam_size": 4, "runs": ("runs/first",)}


def inputs(digest="of its lines"):
    return [
        [InputFile("/data/news.en.gz", "text", 5, digest, 2, None)],
        [InputFile("/data/web.parquet", "text", 2, "of others", 2, None)],
    ]


@contextlib.contextmanager
def interrupted_job(path):
    """A folder whose job ends with Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt), BlockFolder(path, inputs(), SETTINGS) as folder:
        yield folder
        raise KeyboardInterrupt


def answers(name):
    return {
        BlockName(0, 0): ["1", "2"],
        BlockName(0, 1): ["3", "4"],
        BlockName(0, 2): ["5"],
        BlockName(1, 0): ["a", "b"],
    }[name]


def contents(path):
    return {file.name: file.read_text() for file in path.iterdir()}


def test_blocks_may_come_in_any_order(tmp_path):
    path = tmp_path / "de"
    with BlockFolder(path, inputs(), SETTINGS) as folder:
        assert folder.lines_done == 0
        for name in reversed(folder.missing):
            folder.write(name, answers(name))
            # An output appears as soon as it is complete.
            assert (path / "web.txt").exists()
            assert (path / "news.en").exists() == (name == BlockName(0, 0))
    assert contents(path) == {"news.en": "1\n2\n3\n4\n5\n", "web.txt": "a\nb\n"}


def test_an_interrupted_job_goes_on(tmp_path):
    done = [BlockName(1, 0), BlockName(0, 1)]
    with interrupted_job(tmp_path) as folder:
        for name in done:
            folder.write(name, answers(name))
    (tmp_path / ".partial-news.en" / ".partial-0123").write_text("half a bl")  # of a killed process
    with BlockFolder(tmp_path, inputs(), SETTINGS) as folder:
        assert folder.missing == [BlockName(0, 0), BlockName(0, 2)]
        assert folder.lines_done == 4
        for name in folder.missing:
            folder.write(name, answers(name))
    assert contents(tmp_path) == {"news.en": "1\n2\n3\n4\n5\n", "web.txt": "a\nb\n"}


def test_a_kill_before_the_blocks_are_joined_loses_nothing(tmp_path, monkeypatch):
    with interrupted_job(tmp_path) as folder:
        monkeypatch.setattr(folder, "_join", lambda _: None)
        folder.write(BlockName(1, 0), ["a", "b"])
    assert not (tmp_path / "web.txt").exists()
    with interrupted_job(tmp_path):
        assert (tmp_path / "web.txt").read_text() == "a\nb\n"
    (tmp_path / ".partial-web.txt").mkdir()  # of a kill right behind the joining
    with BlockFolder(tmp_path, inputs(), SETTINGS) as folder:
        for name in folder.missing:
            folder.write(name, answers(name))
    assert contents(tmp_path) == {"news.en": "1\n2\n3\n4\n5\n", "web.txt": "a\nb\n"}


def test_another_job_is_refused(tmp_path):
    with interrupted_job(tmp_path):
        pass
    with (
        pytest.raises(UserInputError, match="begun with another `beam_size`"),
        BlockFolder(tmp_path, inputs(), {**SETTINGS, "beam_size": 5}),
    ):
        pass
    with (
        pytest.raises(UserInputError, match="begun with other input lines"),
        BlockFolder(tmp_path, inputs("of newer lines"), SETTINGS),
    ):
        pass
    with (
        BlockFolder(tmp_path, inputs(), SETTINGS),
        pytest.raises(UserInputError, match="Another process is writing"),
        BlockFolder(tmp_path, inputs(), SETTINGS),
    ):
        pass


def test_what_no_finished_block_depends_on_may_change(tmp_path):
    def provisional(begun, now):
        return ["long_lines"] if begun["long_lines"] == "refuse" else []

    for value in ("refuse", "refuse", "cut", "cut"):
        with (
            contextlib.suppress(KeyboardInterrupt),
            BlockFolder(tmp_path, inputs(), {**SETTINGS, "long_lines": value}, provisional) as job,
        ):
            if len(job.missing) == 4:
                job.write(BlockName(0, 0), ["1", "2"])
            assert BlockName(0, 0) not in job.missing
            raise KeyboardInterrupt
    with (
        pytest.raises(UserInputError, match="begun with another `long_lines`"),
        BlockFolder(tmp_path, inputs(), {**SETTINGS, "long_lines": "refuse"}, provisional),
    ):
        pass


def test_the_record_does_not_grow_with_the_lines(tmp_path):
    with interrupted_job(tmp_path) as folder:
        folder.write(BlockName(0, 0), ["1", "2"])
    record = json.loads((tmp_path / ".job.json").read_text())
    assert [file["offsets"] for files in record["inputs"] for file in files] == [None] * 2
    record["inputs"][0][0]["offsets"] = [0, 4, 8, 10]  # as an older version wrote them
    (tmp_path / ".job.json").write_text(json.dumps(record))
    with interrupted_job(tmp_path) as folder:
        assert BlockName(0, 0) not in folder.missing


def test_blocks_without_their_record_are_made_again(tmp_path):
    with interrupted_job(tmp_path) as folder:
        folder.write(BlockName(0, 0), ["of another", "job"])
    assert begun_block_lines(tmp_path) == 2
    (tmp_path / ".job.json").unlink()
    assert begun_block_lines(tmp_path) is None
    with interrupted_job(tmp_path) as folder:
        assert BlockName(0, 0) in folder.missing


def test_a_finished_output_is_not_overwritten(tmp_path):
    (tmp_path / "web.txt").write_text("precious\n")
    with (
        pytest.raises(UserInputError, match="web.txt exists. It is not overwritten"),
        BlockFolder(tmp_path, inputs(), SETTINGS),
    ):
        pass
    assert os.listdir(tmp_path) == ["web.txt"]


def test_inputs_of_one_name_are_refused(tmp_path):
    twice = [[InputFile(f"/{x}/news.en", "text", 1, "", 2, None)] for x in ("first", "second")]
    with pytest.raises(UserInputError, match="different names.*/first/news.en and /second/news.en"):
        BlockFolder(tmp_path, twice, SETTINGS)
