"""The comparison with peers: its protocol, its rounds, its table."""

import io
import json
import sys
import types

import numpy as np
import pytest

from benchmarks.peers import __main__ as program
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.engines import ENGINES, GPU_ENGINES, chosen_engines
from benchmarks.peers.report import HEADER, lines, record
from benchmarks.peers.rounds import RowResult, measure, wrong_tokens
from benchmarks.peers.rows import GPU_ROWS, ROWS, Row, growth_rows
from benchmarks.peers.worker_process import WorkerFailure, WorkerProcess
from benchmarks.peers.workers.protocol import Job, serve
from keras_transformer.errors import UserInputError

SMALL = Row(
    name="small", preset="tiny", vocabulary_size=40, batch_size=2, length=4, beam_size=2, repeats=3
)


def engine(name):
    """The engine of a search with this name."""
    return next(one for one in ENGINES if one.name == name and one.task == "search")


def job_of(worker="fake", row=SMALL, inputs=""):
    """A job as the coordinator sends it."""
    return Job(
        worker=worker,
        row=vars(row),
        sizes={},
        precision="float32",
        inputs=str(inputs),
        export=None,
        threads=1,
        packages=["numpy"],
    )


def answers(monkeypatch, prepare, commands):
    """What a worker replies that has this function to prepare."""
    name = "benchmarks.peers.workers.fake"
    monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(prepare=prepare))
    requests = [vars(job_of()) | {"command": "prepare"}, *({"command": one} for one in commands)]
    replies = io.StringIO()
    serve(map(json.dumps, requests), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def test_a_worker_prepares_runs_and_ends(monkeypatch):
    calls = []

    def prepare(job):
        assert Row(**job.row) == SMALL
        return lambda only_first: calls.append(only_first) or 42

    ready, first, second, end = answers(monkeypatch, prepare, ["run", "run", "end", "run"])
    assert ready == {"ready": True, "versions": {"numpy": np.__version__}}
    assert (first["tokens"], second["tokens"]) == (42, 42)
    assert first["seconds"] >= 0
    assert 2**20 < end["peak_bytes"] < 2**40
    assert calls == [True, False, False]


def test_a_worker_tells_what_is_missing_and_what_failed(monkeypatch):
    def without_package(job):
        raise ModuleNotFoundError("No module named 'torch'")

    assert answers(monkeypatch, without_package, []) == [
        {"missing": "ModuleNotFoundError: No module named 'torch'"}
    ]

    def broken(job):
        raise RuntimeError("one\ntwo")

    assert answers(monkeypatch, broken, []) == [{"error": "RuntimeError: one two"}]


SCRIPT = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["command"] == "die":
        sys.exit("no memory")
    print(json.dumps(request["reply"]), flush=True)
"""


def test_a_process_answers_until_it_ends(tmp_path):
    command = [sys.executable, "-S", "-c", SCRIPT]
    with WorkerProcess(command, {}, tmp_path / "log") as worker:
        assert worker.ask("prepare", reply={"ready": True}) == {"ready": True}
        with pytest.raises(WorkerFailure, match="^not installed \\(torch\\)$"):
            worker.ask("prepare", reply={"missing": "torch"})
        with pytest.raises(WorkerFailure, match="^wrong shape$"):
            worker.ask("run", reply={"error": "wrong shape"})
        with pytest.raises(WorkerFailure, match="ended with 1: no memory"):
            worker.ask("die")


class FakeWorker:
    """Answers from a list of times; a None among them is a failure."""

    age = 1.5

    def __init__(self, name, seconds, log):
        self.name, self.seconds, self.log = name, iter(seconds), log

    def __enter__(self):
        self.log.append(("start", self.name))
        return self

    def __exit__(self, *exception):
        self.log.append(("stop", self.name))

    def ask(self, command, **arguments):
        if command == "prepare":
            return {"ready": True, "versions": {"numpy": "2"}}
        if command == "end":
            return {"peak_bytes": 3_000_000}
        self.log.append(("run", self.name))
        seconds = next(self.seconds)
        if seconds is None:
            raise WorkerFailure("it broke")
        return {"seconds": seconds, "tokens": 30}


TIMES = {  # the first is the warm-up
    "keras_transformer-float32": [9, 1, 4, 1],
    "ctranslate2-float32": [9, 2, 2, 3],
    "huggingface-float32": [9, 3, 3, 3],
}


def result_of(times=TIMES, more=(), log=None):
    """The result of `SMALL` with these times, and what was told."""
    told, log = [], [] if log is None else log

    def start(one, row):
        if one.name not in times:
            raise WorkerFailure("not installed (No module named 'x')")
        return FakeWorker(one.name, times[one.name], log), job_of(row=row)

    engines = [engine(name) for name in (*times, *more)]
    return measure(SMALL, engines, 3, start, told.append, rest_seconds=0), told


def test_engines_take_turns():
    log = []
    result, told = result_of(log=log)
    assert told == []
    assert log == [
        *(("start", name) for name in TIMES),
        *([("run", name) for name in TIMES] * 4),
        *(("stop", name) for name in reversed(TIMES)),
    ]
    assert [found.seconds for found in result.measured] == [[1, 4, 1], [2, 2, 3], [3, 3, 3]]


def test_a_ratio_is_the_median_of_rounds_against_the_best_peer():
    result, _ = result_of()
    assert result.best_peer.engine.name == "ctranslate2-float32"
    assert [result.ratio(found) for found in result.measured] == [2.0, 1.0, pytest.approx(2 / 3)]
    ours = {name: TIMES[name] for name in list(TIMES)[:1]}
    alone, _ = result_of(ours)
    assert alone.best_peer is None
    assert alone.ratio(alone.measured[0]) is None
    assert "4.0" in next(lines(result_of({"ctranslate2-int8": [9, 1.5, 1.5, 1.5]})[0]))


def test_what_is_missing_or_fails_is_skipped_aloud():
    times = TIMES | {"ctranslate2-int8": [9, 1, None]}
    result, told = result_of(times, more=["huggingface-bfloat16"])
    assert told == [
        "small: huggingface-bfloat16 is skipped: not installed (No module named 'x')",
        "small: ctranslate2-int8 is skipped: it broke",
    ]
    assert list(result.skipped) == ["huggingface-bfloat16", "ctranslate2-int8"]
    assert [found.engine.name for found in result.measured] == list(TIMES)


def test_without_the_peers_environment_ours_runs_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.comparison.peers_python", lambda: None)
    told = []
    comparison = Comparison(tmp_path, None, threads=1, tell=told.append)
    assert list(comparison.run([SMALL], [engine("huggingface-float32")], rounds=1)) == []
    (line,) = told
    assert line.startswith("small: huggingface-float32 is skipped: the peers' environment")


def test_another_number_of_tokens_is_told():
    result, _ = result_of()
    assert wrong_tokens(result, 30) == []
    assert wrong_tokens(result, 40)[0] == (
        "small: keras_transformer-float32 made 30 tokens instead of 40"
    )


def test_the_table_has_the_fastest_first():
    result, _ = result_of()
    rows = [line.split() for line in lines(result)]
    assert rows[0] == "small keras_transformer float32 1.000 6.0 2.00 3 1.5 s".split()
    assert [row[1] for row in rows] == ["keras_transformer", "ctranslate2", "huggingface"]
    assert len(HEADER) == len(rows[0]) - 1  # "1.5 s" are two words


def test_the_file_has_every_figure():
    result, _ = result_of(more=["huggingface-bfloat16"])
    found = record([result, RowResult(ROWS[-1], [], {})], "python -m x", threads=2, rounds=3)
    assert found["command"] == "python -m x"
    assert {"processor", "cores", "flags", "memory_bytes"} <= found["machine"].keys()
    assert (found["threads"], found["rounds"], found["date"][:2]) == (2, 3, "20")
    row = found["rows"][0]
    assert (row["name"], row["unit"], row["best_peer"]) == (
        "small", "sentences/s", "ctranslate2-float32"
    )  # fmt: skip
    assert row["skipped"].keys() == {"huggingface-bfloat16"}
    first = row["engines"][0]
    assert (first["name"], first["seconds"], first["speed"]) == (
        "keras_transformer-float32", [1, 4, 1], 6.0
    )  # fmt: skip
    assert (first["ratio_to_best_peer"], first["peak_bytes"], first["startup_seconds"]) == (
        2.0, 3_000_000, 1.5
    )  # fmt: skip
    assert first["versions"] == {"numpy": "2"}
    assert found["rows"][1]["unit"] == "target tokens/s"
    json.dumps(found)


def test_rows_and_engines_are_chosen_by_name():
    assert [row.name for row in program.chosen_rows(["train-base-64x32"], False)] == [
        "train-base-64x32"
    ]
    assert program.chosen_rows(None, True) == list(growth_rows())
    assert program.chosen_rows(None, False, gpu=True) == list(GPU_ROWS)
    rows = {row.name: row for row in (*GPU_ROWS, *ROWS, *growth_rows())}
    assert program.chosen_rows(list(rows), False) == list(rows.values())
    names = [row.name for row in (*ROWS, *growth_rows())]
    assert len(set(names)) == len(names)
    with pytest.raises(UserInputError, match="--rows must be among .*Received: tiny"):
        program.chosen_rows(["tiny"], False)
    chosen = chosen_engines(["litert", "ctranslate2-int8"])
    assert [one.name for one in chosen] == ["litert-float32", "litert-int8", "ctranslate2-int8"]
    with pytest.raises(UserInputError, match="--engines must be among .*Received: theano"):
        chosen_engines(["theano"])
    by_default = [one.program for one in chosen_engines(None)]
    assert "keras_transformer_jax" not in by_default
    assert sorted(one.name for one in chosen_engines(GPU_ENGINES)) == sorted(GPU_ENGINES)
    names = [(one.name, one.task) for one in ENGINES]
    assert len(set(names)) == len(names)


def test_exports_with_one_length_do_mixed_rows_and_growth_not():
    mixed = next(row for row in ROWS if row.corpus == "multi30k")
    assert "cannot force" in engine("saved_model-float32").reason_to_skip(mixed)
    assert "each point" in engine("litert-int8").reason_to_skip(growth_rows()[0])
    assert engine("litert-int8").reason_to_skip(ROWS[0]) is None
    assert engine("ctranslate2-int8").reason_to_skip(mixed) is None


@pytest.mark.slow
@pytest.mark.tensorflow
def test_the_whole_program(tmp_path, capfd):
    path = tmp_path / "peers.json"
    rows = "beam4-tiny-32x16,train-tiny-256x16"
    program.main(["--rows", rows, "--rounds", "1", "--json", str(path)])
    out, _ = capfd.readouterr()
    found = {row["name"]: row for row in json.loads(path.read_text("utf-8"))["rows"]}
    assert list(found) == rows.split(",")
    ours = {"keras_transformer", "saved_model", "litert", "ctranslate2_export"}
    searched = found["beam4-tiny-32x16"]["engines"]
    assert ours <= {one["program"] for one in searched}
    assert {one["target_tokens"] for one in searched} == {4 * 32 * 17}
    for row in found.values():
        named = {*(one["name"] for one in row["engines"]), *row["skipped"]}
        assert named == {one.name for one in chosen_engines(None) if one.task == row["task"]}
        assert all(one["name"].split("-")[0] in out for one in row["engines"])
