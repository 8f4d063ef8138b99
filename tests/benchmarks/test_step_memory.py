"""The memory that XLA plans for a training step."""

import re

import pytest

from tests.python_programs import run_python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "length", "vocabulary", "bar"),
    [
        (128, 32, 50_000, 1.1),  # logits of 0.76 GiB: with them, a step takes three times that
        (128, 64, 500, 0.8),  # 1.16 GiB with JAX's gradients of softmax and layer normalization
    ],
)
def test_a_step_keeps_neither_its_logits_nor_copies_for_gradients(rows, length, vocabulary, bar):
    arguments = f"--preset tiny --rows {rows} --length {length} --vocabulary-size {vocabulary}"
    done = run_python("-m", "benchmarks.step_memory", *arguments.split(), JAX_PLATFORMS="cpu")
    assert f"tiny, float32, {rows} x {length} tokens a side" in done.stdout
    sizes = dict(re.findall(r"(\w+) +([\d.]+) GiB", done.stdout))
    assert list(sizes) == ["temporary", "arguments", "outputs", "sum"]
    assert 0.1 < float(sizes["temporary"]) < bar
