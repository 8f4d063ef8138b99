"""The cost of runs: what is read from their records, and how it is shown beside the paper."""

import csv
import json

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.training_cost import (
    RunCost,
    costs_csv,
    costs_record,
    costs_text,
    run_cost,
)
from tests.evaluation.cost.recorded_runs import OF_CPU, SCORES, SIGNATURE, write_run

# Vaswani et al. (2017), Table 2, to the letter: BLEU en-de and en-fr, FLOPs en-de and en-fr.
PRINTED = """
ByteNet|23.75|||
Deep-Att + PosUnk||39.2||1.0e+20
GNMT + RL|24.6|39.92|2.3e+19|1.4e+20
ConvS2S|25.16|40.46|9.6e+18|1.5e+20
MoE|26.03|40.56|2.0e+19|1.2e+20
Deep-Att + PosUnk Ensemble||40.4||8.0e+20
GNMT + RL Ensemble|26.30|41.16|1.8e+20|1.1e+21
ConvS2S Ensemble|26.36|41.29|7.7e+19|1.2e+21
Transformer (base model)|27.3|38.1|3.3e+18|3.3e+18
Transformer (big)|28.4|41.8|2.3e+19|2.3e+19
"""
TABLE = [line.split("|") for line in PRINTED.split("\n") if line]
RUNS = {"base": SCORES, "cpu": OF_CPU}


def test_a_run_has_the_cost_of_its_record(tmp_path):
    path = write_run(tmp_path / "base", SCORES)
    assert run_cost(path) == RunCost(
        run=path,
        bleu=27.3,
        signature=SIGNATURE,
        scored_on="test newstest2014, 3,003 sentences",
        seconds=43_200.0,
        devices=8,
        device="Tesla P100-SXM2-16GB",
        paper_flops=3.28320e18,  # 12 hours x 8 x 9.5 TFLOP/s
        counted_flops=1e18,
        sustained_flops_per_device=9.5e12,
        sustained_from="Vaswani et al. (2017), footnote 5",
        note=None,
    )


def test_the_speed_of_a_device_gives_the_papers_way(tmp_path):
    path = write_run(tmp_path / "run", OF_CPU)
    assert run_cost(path).paper_flops is None
    cost = run_cost(path, device_tflops=0.5)
    assert (cost.paper_flops, cost.counted_flops) == (90 * 2 * 0.5e12, 2e13)
    assert (cost.sustained_flops_per_device, cost.sustained_from) == (0.5e12, "device_tflops")


@pytest.mark.parametrize(("device_seconds", "paper_flops"), [(120.0, 120 * 0.5e12), (None, None)])
def test_devices_that_changed_count_with_the_time_of_each(tmp_path, device_seconds, paper_flops):
    cost = {**OF_CPU["training_cost"], "device_seconds": device_seconds}
    path = write_run(tmp_path / "run", {**OF_CPU, "training_cost": cost})
    found = run_cost(path, device_tflops=0.5)
    assert found.paper_flops == paper_flops
    if device_seconds is None:
        assert found.note == "the devices changed when it was resumed"
        assert "--device-tflops" not in costs_text([found])
        assert "--device-tflops" in costs_text([found, run_cost(write_run(tmp_path / "2", OF_CPU))])


@pytest.mark.parametrize(
    ("run", "note"),
    [
        ({"metrics": False}, "no cost: trained elsewhere (an imported run or a preset)"),
        (
            {"metrics": False, "origin": "hf://Helsinki-NLP/opus-mt-en-de"},
            "no cost: trained elsewhere (an imported run or a preset, from "
            "hf://Helsinki-NLP/opus-mt-en-de)",
        ),
        ({}, "no cost yet: training has not finished, or wrote no scores.json"),
        ({"scores": {"bleu": 20.0}}, "its scores.json does not contain the training cost"),
    ],
    ids=["preset", "imported", "not ended", "scores alone"],
)
def test_a_run_without_a_finished_training_says_why(tmp_path, run, note):
    path = write_run(tmp_path / "run", **run)
    assert run_cost(path) == RunCost(run=path, note=note)
    assert costs_text([run_cost(path)]).splitlines()[-1] == f"{path}: {note}"


def test_a_run_that_started_from_another_says_so(tmp_path):
    path = write_run(tmp_path / "run", SCORES, origin="runs/general")
    assert run_cost(path).note == "without the training of runs/general, from which it started"
    assert run_cost(path).counted_flops == 1e18


def test_a_parser_has_a_cost_and_no_bleu(tmp_path):
    scores = {name: SCORES[name] for name in ("seconds", "training_cost")}
    cost = run_cost(write_run(tmp_path / "run", {**scores, "evalb": {"f1": 83.2}}))
    assert (cost.bleu, cost.scored_on, cost.counted_flops) == (None, None, 1e18)


@pytest.mark.parametrize(
    "change",
    [
        {"bleu": "27"},
        {"bleu": -1.0},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": 0},
        {"evaluated_on": {"text": "dev", "sentences": 10**400}},
        {"training_cost": {**OF_CPU["training_cost"], "counted_flops": 0}},
        {"training_cost": {**OF_CPU["training_cost"], "counted_flops": float("nan")}},
        {"training_cost": {**OF_CPU["training_cost"], "counted_flops": 1e299}},
        {"training_cost": {**OF_CPU["training_cost"], "devices": 0}},
        {"training_cost": {**OF_CPU["training_cost"], "devices": 10**400}},
        {"training_cost": {**OF_CPU["training_cost"], "device": "x" * 2000}},
        {"training_cost": {"devices": 1}},
        {"training_cost": 7},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_record_is_one_line(tmp_path, change):
    path = write_run(tmp_path / "run", {**SCORES, **change})
    with pytest.raises(UserInputError, match=r"scores.json is damaged: .* Copy the run again\."):
        run_cost(path)


def test_the_text_has_the_paper_as_printed_and_the_runs_below(tmp_path):
    costs = [run_cost(write_run(tmp_path / name, scores)) for name, scores in RUNS.items()]
    lines = costs_text(costs).replace(f"{tmp_path}/", "").splitlines()
    assert [line.split() for line in lines[2:12]] == [" ".join(row).split() for row in TABLE]
    assert [line.split() for line in lines[12:15]] == [
        "Runs BLEU FLOPs, paper's method FLOPs counted time devices scored on".split(),
        "base 27.30 3.3e+18 1.0e+18 12.0 h 8 x Tesla P100-SXM2-16GB test newstest2014, 3,003 "
        "sentences".split(),
        "cpu 27.30 not known 2.0e+13 1.5 min 2 x CPU test newstest2014, 3,003 sentences".split(),
    ]
    assert "--device-tflops" in lines[-1]
    assert len(lines) == 16


def test_a_record_cannot_write_to_the_terminal(tmp_path):
    cost = {**OF_CPU["training_cost"], "device": "CPU\n\x1b[2J"}
    scores = {**SCORES, "training_cost": cost, "evaluated_on": {"text": "a\r\x9b1A"}}
    run = write_run(tmp_path / "run", scores, origin="\u2028\x1b]0;b\x07")
    text = costs_text([run_cost(run)])
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.splitlines()) == 12 + 4


def test_the_csv_has_a_line_for_each_model_and_text(tmp_path):
    costs = [run_cost(write_run(tmp_path / name, scores)) for name, scores in RUNS.items()]
    rows = list(csv.DictReader(costs_csv(costs).splitlines()))
    paper = [
        [row["model"], row["scored_on"][-5:], row["bleu"], row["paper_flops"]] for row in rows[:-2]
    ]
    expected = [
        [name, text, bleu, flops]
        for name, de, fr, flops_de, flops_fr in TABLE
        for text, bleu, flops in (("en-de", de, flops_de), ("en-fr", fr, flops_fr))
        if bleu
    ]
    assert paper == expected
    assert {row["note"] for row in rows[:-2]} == {"Vaswani et al. (2017), Table 2"}
    assert [row["model"] for row in rows[-2:]] == [cost.run for cost in costs]
    assert [float(row["counted_flops"]) for row in rows[-2:]] == [1e18, 2e13]
    assert [row["paper_flops"] for row in rows[-2:]] == ["3.2832e+18", ""]


def test_the_record_is_json_with_numbers(tmp_path):
    record = costs_record([run_cost(write_run(tmp_path / "base", SCORES))])
    record = json.loads(json.dumps(record))
    assert record["paper"][6] == {
        "model": "GNMT + RL Ensemble",
        "bleu_en_de": 26.3,
        "bleu_en_fr": 41.16,
        "flops_en_de": 1.8e20,
        "flops_en_fr": 1.1e21,
    }
    (run,) = record["runs"]
    assert (run["bleu"], run["paper_flops"]) == (27.3, 3.2832e18)
