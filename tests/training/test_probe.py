"""The step before the first: it changes nothing, or says what to do."""

import json

import keras
import pytest

from keras_transformer.data import plan_batches
from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import TrainingRun, training_run
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.training_models import ProbeRecord, is_out_of_memory, probe
from keras_transformer.types import SpecialTokens
from tests.python_programs import run_python
from tests.training.probed_training import corpus, trainer
from tests.training.small_training import WORK, TokenizerStub, train


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("jax", marks=pytest.mark.slow)])
def test_two_replicas_with_and_without_a_probe_and_without_memory(tmp_path, backend):
    # With oneDNN a failed allocation is tried again for 10 seconds.
    variables = {"KERAS_BACKEND": backend, "TF_ENABLE_ONEDNN_OPTS": "0"}
    run_python("-m", "tests.training.probed_training", tmp_path, 2, **variables)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["line"].startswith("The largest batch (10 sentences of 8 + 6 tokens) fits;")
    plain, probed = report["losses"]
    assert plain == probed
    assert plain[0] != plain[1]
    assert len(report["equal"]) >= 12  # weights, dropout seeds, moments, averages, iterations
    assert all(report["equal"])
    assert report["out_of_memory"] == (
        "Out of memory on 2 x CPU in a step of the largest batch (900 sentences of 20 + 20 "
        "tokens). To fix this: lower `--batch-tokens` from 30000 to 15000; keep it and pass "
        "`--accumulate 2`, for the same result; pass `--precision mixed_bfloat16`"
    )


def test_without_memory_an_older_run_stays_and_a_new_one_is_not_begun(tmp_path, monkeypatch):
    def without_memory(*_, **__):
        raise UserInputError("Out of memory")

    monkeypatch.setattr(training_run, "probe", without_memory)
    older = train(tmp_path / "older", steps=1)[0].directory
    files = sorted(older.path.rglob("*"))
    reader = plan_batches(corpus((7, 5, 40)), SpecialTokens(), batch_tokens=80)
    for path, overwrite in ((older.path, True), (tmp_path / "new", False)):
        with (
            pytest.raises(UserInputError, match="Out of memory"),
            TrainingRun(path, steps=1, overwrite=overwrite, show_progress=False) as run,
        ):
            run.begin(trainer(), reader, work=WORK, tokenizer=TokenizerStub())
    assert sorted(older.path.rglob("*")) == files
    assert not RunDirectory(tmp_path / "new").is_run()


class Failing:
    """A compiled model whose training fails."""

    def __init__(self, error, dtype="float32"):
        layer = keras.layers.Dense(1, dtype=dtype)
        layer.build((1, 1))
        self.error, self.layers, self.variables = error, [layer], []
        self.optimizer = keras.optimizers.SGD()
        self.optimizer.build([])

    def fit(self, *args, **options):
        raise self.error


def failed(error, batch_tokens, accumulate=1, dtype="float32", **options):
    """What a probe says on one device, of 16 sentences of 5 + 4 tokens."""
    reader = plan_batches(corpus((4, 3, 16)), SpecialTokens(), batch_tokens=batch_tokens)
    with pytest.raises(UserInputError) as caught:
        probe(Failing(error, dtype), reader, Devices("NVIDIA L4"), accumulate, **options)
    assert caught.value.__cause__ is error
    return str(caught.value)


def test_only_what_can_help_is_advised():
    said = failed(MemoryError(), batch_tokens=80, accumulate=4, dtype="mixed_float16")
    assert "on 1 x NVIDIA L4 in a step of the largest batch (16 sentences of 5 + 4 tokens)" in said
    assert "in 4 slices. To fix this: lower `--batch-tokens` from 80 to 40; keep it" in said
    assert "`--accumulate 8`" in said
    assert "--precision" not in said
    said = failed(MemoryError(), batch_tokens=8, dtype="mixed_bfloat16")
    assert said.endswith("(1 sentence of 5 + 4 tokens). To fix this: use a smaller model")


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        (
            {"device_tokens": 200},
            "lower `--batch-tokens` from 80 to 40; keep it and lower `--device-tokens` from 200 to "
            "40, for the same result; pass `--precision mixed_bfloat16`",
        ),
        (
            {"fixed": ["batch_tokens", "precision"]},
            "pass `--accumulate 2`, for the same result",
        ),
        (
            {"fixed": ["batch_tokens", "precision"], "device_tokens": 30, "accumulate": 3},
            "lower `--device-tokens` from 30 to 13, for the same result",
        ),
        (
            {"fixed": ["batch_tokens", "precision"], "accumulate": 16},
            "use devices with more memory",
        ),
        (
            {"fixed": ["precision"]},
            "lower `--batch-tokens` from 80 to 40; keep it and pass `--accumulate 2`, for the same "
            "result",
        ),
    ],
    ids=["device tokens", "resumed", "resumed with device tokens", "no part left", "from a run"],
)
def test_advice_can_be_followed(options, ways):
    assert failed(MemoryError(), batch_tokens=80, **options).endswith(f"To fix this: {ways}")


@pytest.mark.parametrize(
    "message",
    [
        "RESOURCE_EXHAUSTED: Out of memory allocating 720000000 bytes.",
        "INTERNAL: Error dispatching computation: Out of memory allocating 6532795776 bytes.",
        "OOM when allocating tensor with shape[8991,20000]",
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    ],
)
def test_what_backends_say_without_memory(message):
    assert is_out_of_memory(RuntimeError(message))


def test_other_errors_stay_what_they_are():
    error = RuntimeError("The room is full")
    reader = plan_batches(corpus((4, 3, 16)), SpecialTokens(), batch_tokens=80)
    with pytest.raises(RuntimeError, match="The room is full"):
        probe(Failing(error), reader, Devices("CPU"))


def test_a_probe_can_be_read():
    record = ProbeRecord(1024, 24, 25, seconds=7.6, peak_bytes=5 * 2**30 // 2)
    assert str(record) == (
        "The largest batch (1,024 sentences of 24 + 25 tokens) fits into 2.5 GiB per device; "
        "first step after 8 s"
    )


def test_a_probed_model_is_as_it_was():
    model = trainer()
    before = model.get_weights()
    reader = plan_batches(corpus((7, 5, 40)), SpecialTokens(), batch_tokens=80)
    assert probe(model, reader, Devices("CPU"), accumulate=2).sentences == 10
    assert int(model.optimizer.iterations.numpy()) == 0
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
