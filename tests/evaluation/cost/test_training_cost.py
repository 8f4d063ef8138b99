"""The cost of a training, against the paper's own numbers."""

import json
import types

import pytest

from keras_transformer.evaluation.step_work import DeviceSpeed
from keras_transformer.evaluation.training_cost import PAPER_TABLE_2, cost_table, training_cost

HOUR = 3600


def devices(name, replicas=1):
    return types.SimpleNamespace(device_name=name, replicas=replicas)


def record(device_seconds, flops=None):
    return types.SimpleNamespace(device_seconds=device_seconds, flops=flops)


@pytest.mark.parametrize(
    ("model", "hours"), [("Transformer (base model)", 12), ("Transformer (big)", 3.5 * 24)]
)
def test_the_papers_trainings_cost_what_its_table_says(model, hours):
    """Section 5.2: 12 hours and 3.5 days on 8 P100."""
    speed = DeviceSpeed.of(devices("Tesla P100-SXM2-16GB", 8))
    cost = training_cost(record(8 * hours * HOUR), speed)
    row = next(row for row in PAPER_TABLE_2 if row.model == model)
    assert f"{cost['paper_flops']:.1e}" == f"{row.flops_en_de:.1e}"
    assert cost["sustained_from"] == "Vaswani et al. (2017), footnote 5"


@pytest.mark.parametrize(
    ("name", "tflops", "expected", "source"),
    [
        ("NVIDIA H200", None, 989.4e12, "the device's peak"),
        ("NVIDIA H200", 400, 400e12, "device_tflops"),
        ("Tesla P100-SXM2-16GB", 8, 8e12, "device_tflops"),
        ("CPU", 0.5, 0.5e12, "device_tflops"),
        ("CPU", None, None, None),
    ],
)
def test_where_the_speed_is_from(name, tflops, expected, source):
    speed = DeviceSpeed.of(devices(name, 4), "mixed_bfloat16", device_tflops=tflops)
    assert speed.sustained_flops == expected
    assert speed.sustained_from == source
    cost = training_cost(record(4 * 10.0, flops=123), speed)
    assert cost["paper_flops"] == (expected and 10.0 * 4 * expected)
    assert json.loads(json.dumps(cost)) == {
        "counted_flops": 123,
        "paper_flops": cost["paper_flops"],
        "device_seconds": 40.0,
        "devices": 4,
        "device": name,
        "sustained_flops_per_device": expected,
        "sustained_from": source,
    }
    assert speed.total_peak_flops == (expected and 4 * expected)


def test_utilisation_is_of_the_peak_and_not_of_what_the_paper_takes():
    speed = DeviceSpeed.of(devices("Tesla P100-SXM2-16GB", 8))
    assert speed.total_peak_flops == pytest.approx(8 * 10.6e12)
    assert DeviceSpeed.of(devices("Tesla T4"), "mixed_bfloat16").total_peak_flops is None


def test_the_table_shows_the_paper_and_this_training():
    speed = DeviceSpeed.of(devices("Tesla P100-SXM2-16GB", 8))
    lines = cost_table(training_cost(record(8 * 12 * HOUR, 2.5e18), speed), bleu=26.94).splitlines()
    assert lines[2].split() == ["ByteNet", "23.75"]
    assert [*"GNMT + RL Ensemble".split(), "26.30", "41.16", "1.8e+20", "1.1e+21"] in [
        line.split() for line in lines
    ]
    assert lines[-4].split()[2:] == ["28.4", "41.8", "2.3e+19", "2.3e+19"]
    assert lines[-3] == "This training: BLEU 26.94"
    assert lines[-2].endswith("counted: 2.5e+18")
    assert lines[-1].endswith(
        "method: 3.3e+18, 96.0 device hours x 9.5 TFLOP/s of Tesla P100-SXM2-16GB "
        "(Vaswani et al. (2017), footnote 5)"
    )


def test_the_table_says_what_is_not_known():
    cost = training_cost(record(10.0), DeviceSpeed.of(devices("CPU", 4)))
    own, counted, by_paper = cost_table(cost).splitlines()[-3:]
    assert own == "This training"
    assert "not known" in counted
    for part in ("not known", "4 x CPU", "--device-tflops"):
        assert part in by_paper


def test_devices_of_several_kinds_have_no_cost_by_the_papers_way():
    cost = training_cost(record(None, 123), DeviceSpeed.of(devices("Tesla P100-SXM2-16GB", 8)))
    assert (cost["counted_flops"], cost["paper_flops"], cost["device_seconds"]) == (123, None, None)
    said = cost_table(cost).splitlines()[-1]
    assert said.endswith("not known, as the devices were different before 8 x Tesla P100-SXM2-16GB")
