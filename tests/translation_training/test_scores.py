"""What `scores.json` holds of a training."""

import json

import pytest

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import DeviceSpeed, FitRecord
from keras_transformer.translation_training.scores import write_scores


def test_scores_hold_the_work_and_the_cost_of_the_training(tmp_path):
    record = FitRecord(
        steps=10,
        seconds=100.0,
        target_tokens_per_second=5.0,
        stopped_because="steps",
        step_seconds=0.5,
        flops=3 * 10**20,
        flop_utilisation=0.25,
    )
    speed = DeviceSpeed("NVIDIA L4", 2, 121e12, 60e12, "device_tflops")
    run = RunDirectory(tmp_path)
    lines = ["a house by the lake", "two dogs play"]
    returned = write_scores(run, lines, lines, record=record, speed=speed, command="train")
    scores = json.loads(run.scores_path.read_text())
    assert scores == returned
    assert scores["bleu"] == pytest.approx(100)
    assert (scores["step_seconds"], scores["flop_utilisation"]) == (0.5, 0.25)
    assert scores["training_cost"] == {
        "counted_flops": 3 * 10**20,
        "paper_flops": 100.0 * 2 * 60e12,
        "devices": 2,
        "device": "NVIDIA L4",
        "sustained_flops_per_device": 60e12,
        "sustained_from": "device_tflops",
    }
