"""Peaks by the names that drivers give."""

import pytest

from keras_transformer.evaluation.step_work import device_peak, paper_sustained


@pytest.mark.parametrize(
    ("name", "precision", "tflops"),
    [
        ("NVIDIA H200", "mixed_bfloat16", 989.4),
        ("NVIDIA H200", "float32", 494.7),
        ("NVIDIA H100 80GB HBM3", "mixed_float16", 989.4),
        ("NVIDIA H100 PCIe", "mixed_bfloat16", 756.0),
        ("NVIDIA A100-SXM4-40GB", "float32", 156.0),
        ("NVIDIA A100-PCIE-40GB", "mixed_bfloat16", 312.0),
        ("Tesla V100-SXM2-16GB", "mixed_float16", 125.0),
        ("Tesla V100-PCIE-32GB", "float32", 14.0),
        ("Tesla P100-PCIE-16GB", "float32", 9.3),
        ("Tesla T4", "mixed_float16", 65.0),
        ("Tesla K80", "float32", 4.37),
        ("NVIDIA GeForce RTX 3090", "mixed_bfloat16", 71.0),
        ("NVIDIA L4", "mixed_bfloat16", 121.0),
        ("TPU v5 lite", "mixed_bfloat16", 197.0),
        ("TPU v4", "float32", 275.0),
        ("CPU", "float32", None),
        ("AMD EPYC 9654 96-Core Processor", "float32", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "float32", None),
        ("NVIDIA GeForce RTX 3090 Ti", "float32", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "float32", None),
        ("NVIDIA A10G", "float32", None),
        ("Tesla V100-SXM2-16GB", "mixed_bfloat16", None),
        ("Tesla K80", "mixed_float16", None),
        ("", "float32", None),
    ],
)
def test_peaks_are_those_of_the_table_or_none(name, precision, tflops):
    assert device_peak(name, precision) == (tflops and pytest.approx(tflops * 1e12))


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="`precision` must be one of .*'float64'"):
        device_peak("NVIDIA H200", "float64")


def test_the_papers_values():
    names = ["Tesla K80", "Tesla K40m", "Tesla M40", "Tesla P100-SXM2-16GB", "NVIDIA H200"]
    values = [paper_sustained(name) for name in names]
    assert values == [2.8e12, 3.7e12, 6.0e12, 9.5e12, None]
