"""Jobs on a cluster without a cluster: what is written, refused and resumed."""

import argparse
import contextlib
import os

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cli import cluster_job
from keras_transformer.toolkit.cli.cluster_job import output_names, provisional, run_on_cluster
from keras_transformer.toolkit.cluster import line_workers, ray_start, worker_resources
from keras_transformer.toolkit.cluster.cluster_inputs import scan_file
from keras_transformer.toolkit.cluster.line_workers import AnsweredPart
from keras_transformer.toolkit.cluster.worker_resources import Resources

LIMITS = {"long_lines", "max_source_length"}


@pytest.mark.parametrize(
    ("begun", "now", "limits_may_change"),
    [
        ({"long_lines": "refuse"}, {"long_lines": "cut"}, True),
        ({"long_lines": "refuse", "max_source_length": 30}, {"max_source_length": 40}, True),
        ({"long_lines": "refuse"}, {"long_lines": "cut", "max_source_length": 30}, False),
        ({"long_lines": "cut"}, {"long_lines": "refuse"}, False),
        ({"max_source_length": 30}, {}, True),  # of `score`
    ],
)
def test_a_limit_may_grow_that_ended_the_job(begun, now, limits_may_change):
    assert (provisional(begun, now) & LIMITS == LIMITS) is limits_may_change


def test_other_settings_may_change_where_they_decide_nothing():
    whole = {"long_lines": "split"}
    assert provisional(whole, whole) == set()
    assert "source_language" in provisional({"long_lines": "cut"}, whole)


class Models:
    def digests(self):
        return ["of the weights"]


class Job:
    """A job whose workers answer in this process, and end by Ctrl-C after some parts."""

    def __init__(self, tmp_path, monkeypatch):
        self.folder, self.output = tmp_path, tmp_path / "out"
        self.answered = []
        self.most = 99
        monkeypatch.setattr(ray_start, "ray_cluster", lambda _: contextlib.nullcontext(None))
        monkeypatch.setattr(ray_start, "told_by_ray", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(worker_resources, "resources_of", lambda *_: Resources(1, 1, 0))
        monkeypatch.setattr(worker_resources, "tell_of_other_work", lambda *_: None)
        monkeypatch.setattr(
            line_workers,
            "scan_inputs",
            lambda ray, outputs, most: [
                [scan_file(*file, most) for file in files] for files in outputs
            ],
        )
        monkeypatch.setattr(line_workers, "answered_parts", self.parts)
        for name, text in (("news.en", "a\nb\nc\nd\ne\n"), ("web.en", "x\ny\n")):
            (tmp_path / name).write_text(text)

    def parts(self, ray, work, inputs, done, workers):
        for output, files in enumerate(inputs):
            for lines in files[0].parts(done[output]) if done[output] < files[0].file.lines else ():
                if len(self.answered) == self.most:
                    raise KeyboardInterrupt
                self.answered.append("".join(lines))
                yield AnsweredPart([line.upper() for line in lines], len(lines))

    def run(self, most=99, block_lines=2, **settings):
        self.answered, self.most = [], most
        files = [str(self.folder / name) for name in ("news.en", "web.en")]
        flags = {"cluster": "local", "workers": None, "worker_cpus": None, "column": None}
        flags |= {"input": files, "output": str(self.output), "block_lines": block_lines}
        settings = {"beam_size": 4, **settings}
        with contextlib.suppress(KeyboardInterrupt):
            run_on_cluster(
                argparse.Namespace(**flags), None, {"input": "column"}, Models(), settings
            )

    def contents(self):
        return {path.name: path.read_text() for path in self.output.iterdir()}


@pytest.fixture
def job(tmp_path, monkeypatch):
    return Job(tmp_path, monkeypatch)


FINISHED = {"news.en": "A\nB\nC\nD\nE\n", "web.en": "X\nY\n"}


@pytest.mark.parametrize("most", range(4))
def test_an_interrupted_job_goes_on_after_its_last_part(job, most, capsys):
    job.run(most=most)
    assert len(job.answered) == most
    first = job.answered
    job.run(block_lines=7)  # parts stay as they began
    assert first + job.answered == ["ab", "cd", "e", "xy"]
    assert job.contents() == FINISHED
    assert "keeping blocks of 2 lines" in capsys.readouterr().err


def test_another_job_is_refused(job):
    job.run(most=1)
    with pytest.raises(UserInputError, match="started with a different `beam_size`. Use the same"):
        job.run(beam_size=5)
    (job.folder / "news.en").write_text("other lines\n")
    with pytest.raises(UserInputError, match="started with different input lines"):
        job.run()


def test_what_no_finished_part_depends_on_may_change(job):
    for value in ("refuse", "cut", "cut"):
        job.run(most=1, long_lines=value)
    with pytest.raises(UserInputError, match="started with a different `long_lines`"):
        job.run(long_lines="refuse")


def test_two_processes_do_not_write_one_folder(job, monkeypatch):
    def again(*_):
        job.run()

    monkeypatch.setattr(line_workers, "answered_parts", again)
    with pytest.raises(UserInputError, match="Another process is writing"):
        job.run()


def test_a_finished_output_is_not_overwritten(job):
    job.output.mkdir()
    (job.output / "web.en").write_text("precious\n")
    with pytest.raises(UserInputError, match="web.en exists. It is not overwritten"):
        job.run()
    assert os.listdir(job.output) == ["web.en"]


def test_a_damaged_record_is_named(job):
    job.run(most=1)
    (job.output / cluster_job._RECORD).write_text('{"settings": {}}')
    with pytest.raises(UserInputError, match=r".job.json is damaged.*Remove .job.json and"):
        job.run()


def test_inputs_of_one_name_are_refused():
    message = "names of the inputs must differ.*/first/news.en and /second/news.en"
    with pytest.raises(UserInputError, match=message):
        output_names(["/first/news.en", "/second/news.en"])
