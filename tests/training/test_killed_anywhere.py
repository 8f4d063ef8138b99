"""A training that is killed at any of its file operations goes on as if nothing had happened.

A file of its own, so that the other tests of trainings run beside it: it takes long.
"""

import random

import pytest

from keras_transformer.runs.checksums import RunChecksums
from tests.training.equal_runs import assert_equal_runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("tensorflow", {"ema": True, "loss_scale": True}),
        ("tensorflow", {"mode": "max", "patience": 2}),
        ("tensorflow", {"lora": True}),
        ("jax", {"ema": True}),
    ],
)
def test_killed_at_many_file_operations(trainings, tmp_path, backend, options, random_seed):
    """At every 13th one of a training, 13 having no part in the number of those of a save."""
    run = trainings(backend).run
    assert run(tmp_path / "whole", **options)[0] == 0
    code, operation = -9, random.Random(random_seed).randint(1, 13)
    while code == -9:
        path = tmp_path / str(operation)
        print(f"killed at operation {operation}")
        code, _ = run(path, kill=operation, **options)
        if code == -9:
            checksums = RunChecksums(path)
            if checksums.path.is_file():
                checksums.check_files()
            assert run(path, **options)[0] == 0
        assert_equal_runs(path, tmp_path / "whole")
        operation += 13
    assert operation > 100


@pytest.mark.slow
def test_adapters_on_jax_killed_at_a_file_operation(trainings, tmp_path, random_seed):
    """On TensorFlow, the test above has them."""
    operation, options = random.Random(random_seed).randint(40, 100), {"ema": True, "lora": True}
    print(f"killed at operation {operation}")
    assert trainings("jax").run(tmp_path / "whole", **options)[0] == 0
    assert trainings("jax").run(tmp_path / "run", kill=operation, **options)[0] == -9
    assert trainings("jax").run(tmp_path / "run", **options)[0] == 0
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")
