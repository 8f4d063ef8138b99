"""Trainings of adapters alone: what is learned, saved, merged, and gone on with."""

import shutil

import h5py
import keras
import numpy as np
import pytest

from keras_transformer import training
from keras_transformer.errors import UserInputError
from keras_transformer.models import build_transformer
from keras_transformer.optimizers import transformer_adam
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.checkpoints.training_state import find_state
from tests.training.equal_runs import arrays, assert_equal_runs
from tests.training.small_training import VOCABULARY_SIZE, batches, compiled, train

RANK, ALPHA = 2, 3.0
LAST = "step-00000004"


def numbers(tensor):
    return keras.ops.convert_to_numpy(tensor).astype("float64")


def transformer():
    return build_transformer(
        "tiny", vocabulary_size=VOCABULARY_SIZE, hidden_dim=32, intermediate_dim=64, num_heads=2,
        num_encoder_layers=1, num_decoder_layers=1, use_bias=True, dropout=0.1,
    )  # fmt: skip


def by_path(model):
    return {weight.path: numbers(weight) for weight in model.weights if "lora_" not in weight.name}


def learn(path, model, steps=4, ema=False, **options):
    """Train adapters of a model, or go on with it."""
    training.enable_lora(model, RANK, ALPHA)
    average = {"use_ema": True, "ema_momentum": 0.5} if ema else {}
    data = (({"source_ids": x, "target_ids": x}, y, w) for x, y, w in batches())
    dev = next(data)
    options = {"save_every": 2, "keep_last": 2, "seed": 3, "deterministic": True, **options}
    resumed = find_state(RunDirectory(path)) if options.get("resume") else None
    for _ in range(resumed.step if resumed else 0):
        next(data)
    trainer = compiled(model, transformer_adam(32, warmup_steps=2, scale=0.5, **average))
    return train(path, trainer, data, validation=dev, steps=steps, **options)


def merged(base, adapters):
    """Weights by path: those of the base, with `alpha / rank * A B` for the adapters' matrices."""
    return {
        path: value + ALPHA / RANK * (adapters[path][0] @ adapters[path][1])
        if path in adapters
        else value
        for path, value in base.items()
    }


def adapters_of(trainer):
    """A and B in float64 by the path of their matrix."""
    found = {}
    for weight in trainer.trainable_weights:
        layer, _, name = weight.path.rpartition("/")
        matrix = {"lora_kernel": "kernel", "lora_embeddings": "matrix"}[name[:-2]]
        found.setdefault(f"{layer}/{matrix}", {})[name[-1]] = numbers(weight)
    return {path: (pair["a"], pair["b"]) for path, pair in found.items()}


def check_weights(model, expected):
    found = by_path(model)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        np.testing.assert_allclose(found[path], value, atol=1e-6, err_msg=path)


class AdaptersOfSteps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.found = []

    def on_epoch_end(self, epoch, logs=None):
        self.found.append(adapters_of(self.model))


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of four updates, its model, the base's weights, and the adapters of both epochs."""
    model, seen = transformer(), AdaptersOfSteps()
    base = by_path(model)
    run, trainer = learn(tmp_path_factory.mktemp("lora") / "run", model, callbacks=[seen])
    return run.directory, trainer, base, seen.found


def test_adapters_alone_learn_and_have_a_place_in_the_optimizer(learned):
    _, trainer, base, (_, last) = learned
    check_weights(trainer, base)
    assert len(last) == 1 + 4 + 7  # the embeddings; one attention and two; two maps each
    assert all(np.abs(b).max() > 0 for _, b in last.values())
    adapters = sum(a.size + b.size for a, b in last.values())
    moments = sum(int(np.prod(v.shape)) for v in trainer.optimizer.variables if len(v.shape) > 0)
    assert moments == 2 * adapters


def test_files_hold_the_adapters_and_once_the_base(learned):
    run, _, base, (_, last) = learned
    adapters = sum(a.size + b.size for a, b in last.values())
    check_weights(run.load_model("base"), base)
    checkpoints = [*run.checkpoints.paths(), run.checkpoints.best_path]
    assert [path.name for path in run.checkpoints.paths()] == [
        "step-00000002.weights.h5", "step-00000004.weights.h5"
    ]  # fmt: skip
    size = run.checkpoints.base_path.stat().st_size
    # HDF5's own bytes are most of a file of so few numbers.
    assert all(path.stat().st_size < size / 2 for path in checkpoints if path.is_file())
    state = arrays(find_state(run))
    floats = sum(value.size for value in state.values() if value.dtype == np.float32)
    assert 3 * adapters <= floats < 3 * adapters + 20
    assert run.checksums.check_files() > 5


def test_a_checkpoint_is_loaded_merged(learned):
    run, trainer, base, (_, last) = learned
    model = run.load_model(LAST)
    check_weights(model, merged(base, last))
    assert all(layer.trainable for layer in model.layers)
    assert not any("lora" in weight.path for weight in model.weights)
    ids = np.array([[3, 4, 5, 2], [6, 2, 0, 0]], "int32")
    inputs = {"source_ids": ids, "target_ids": ids}
    np.testing.assert_allclose(numbers(model(inputs)), numbers(trainer(inputs)), atol=1e-5)


def test_the_average_is_that_of_the_merged_weights(learned, tmp_path):
    run, _, base, (first, last) = learned
    training.average_checkpoints(run.checkpoints.paths(), tmp_path / "mean.weights.h5")
    model = transformer()
    training.load_weights(model, tmp_path / "mean.weights.h5")
    both = merged(base, first), merged(base, last)
    expected = {path: (both[0][path] + both[1][path]) / 2 for path in base}
    check_weights(model, expected)
    of_means = {
        path: tuple((one + two) / 2 for one, two in zip(first[path], last[path], strict=True))
        for path in last
    }
    apart = merged(base, of_means)
    assert max(np.abs(apart[path] - expected[path]).max() for path in base) > 1e-5


def test_a_published_checkpoint_is_merged(learned, copied):
    _, _, base, (first, _) = learned
    copied.publish(copied.checkpoints.path_of(2))
    copied.checkpoints.base_path.unlink()
    check_weights(copied.load_model(), merged(base, first))


@pytest.fixture
def copied(learned, tmp_path):
    return RunDirectory.open(shutil.copytree(learned[0].path, tmp_path / "copy"))


def test_what_loads_into_a_model_with_adapters(learned, tmp_path):
    run, _, base, (_, last) = learned
    model = transformer()
    training.enable_lora(model, RANK, ALPHA)
    training.load_weights(model, run.checkpoints.path_of(4))
    check_weights(model, base)
    for path, pair in adapters_of(model).items():
        np.testing.assert_array_equal(pair[0], last[path][0])
        np.testing.assert_array_equal(pair[1], last[path][1])
    # From whole weights the adapters begin anew: with A and B of 0 they would learn nothing.
    training.load_weights(model, run.checkpoints.base_path)
    check_weights(model, base)
    for path, pair in adapters_of(model).items():
        kept = 1 if path.endswith("matrix") else 0  # of an embedding, A begins as 0
        np.testing.assert_array_equal(pair[kept], last[path][kept])
        assert not pair[1 - kept].any()
    other = transformer()
    training.enable_lora(other, RANK, 1.0)
    with pytest.raises(UserInputError, match="have a different rank or `lora_alpha`"):
        training.load_weights(other, run.checkpoints.path_of(4))


@pytest.mark.parametrize("ema", [False, True])
def test_a_training_goes_on_as_if_without_a_break(tmp_path, ema):
    """The base is the run's: the model that goes on has begun with weights of its own."""
    keras.utils.set_random_seed(7)
    learn(tmp_path / "whole", transformer(), ema=ema)
    keras.utils.set_random_seed(7)
    learn(tmp_path / "broken", transformer(), steps=2, ema=ema)
    keras.utils.set_random_seed(8)
    learn(tmp_path / "broken", transformer(), ema=ema, resume=True)
    assert_equal_runs(tmp_path / "broken", tmp_path / "whole")


@pytest.mark.parametrize("loses", ["content", "file"])
def test_a_training_does_not_go_on_without_its_base(copied, loses):
    base = copied.checkpoints.base_path
    if loses == "file":
        base.unlink()
    else:
        base.write_bytes(base.read_bytes()[:-1] + b"?")
    with pytest.raises(UserInputError, match=r"base\.weights\.h5"):
        copied.checksums.check_files()
    with pytest.raises(UserInputError, match=r"base\.weights\.h5"):
        copied.load_model(LAST)
    with pytest.raises(UserInputError, match=r"base\.weights\.h5 is missing or damaged"):
        learn(copied.path, transformer(), steps=6, resume=True)


def test_adapters_of_two_runs_have_no_average(learned, copied, tmp_path):
    paths = [learned[0].checkpoints.path_of(2), copied.checkpoints.path_of(4)]
    with pytest.raises(UserInputError, match="must be checkpoints of one run"):
        training.average_checkpoints(paths, tmp_path / "mean.weights.h5")


def test_adapters_of_another_model_are_refused(learned, copied):
    path = copied.checkpoints.path_of(4)
    copied.checksums.path.unlink()
    with h5py.File(path, "r+") as file:
        matrix = next(iter(file["lora/encoder_layer_1/self_attention"].values()))["kernel"]
        del matrix["b"]
        matrix["b"] = np.zeros((RANK, 5), "float32")
    with pytest.raises(UserInputError, match="are from another model: `encoder_layer_1/self"):
        copied.load_model(LAST)
    with h5py.File(path, "r+") as file:
        file["lora/embedding/token_embedding/matrix/scale"][...] = np.nan
    with pytest.raises(UserInputError, match="are not finite numbers"):
        copied.load_model(LAST)
    with h5py.File(path, "r+") as file:
        del file["lora/embedding/token_embedding/matrix/b"]
    with pytest.raises(UserInputError, match="Cannot read the weights"):
        copied.load_model(LAST)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("scale", np.ones(2), "are from another model"),
        ("scale", 1e300, "are not finite numbers"),  # only the products are infinite
        ("a", np.ones((12, RANK), "int8"), "are from another model"),
        ("scale", np.inf, "are not finite numbers"),
        ("a", np.ones(3, "float32"), "are from another model"),
        ("b", np.ones((RANK + 1, 32), "float32"), "are from another model"),
        ("a", np.zeros((0, 0), "float32"), "are from another model"),
        ("b", np.array(1, "int8"), "are from another model"),
        ("b", b"text", "is of type"),
        ("b", None, "Cannot read the weights"),
    ],
)
def test_damaged_adapters_are_one_line(copied, tmp_path, part, value, message):
    copied.checksums.path.unlink()
    paths = [copied.checkpoints.path_of(step) for step in (2, 4)]
    for path in paths:
        with h5py.File(path, "r+") as file:
            adapter = file["lora/embedding/token_embedding/matrix"]
            del adapter[part]
            if value is None:
                adapter.create_group(part)
            else:
                adapter[part] = value
    for read in (
        lambda: copied.load_model(LAST),
        lambda: training.average_checkpoints(paths, tmp_path / "mean.weights.h5"),
    ):
        with pytest.raises(UserInputError, match=message) as refused:
            read()
        assert str(refused.value).isprintable()


def test_a_line_tells_how_much_is_trained(tmp_path, capsys):
    model = transformer()
    plain = sum(value.size for value in by_path(model).values())
    learn(tmp_path / "run", model, steps=1, save_every=1, show_progress=True)
    # Ranks times inputs and outputs: embeddings; self-attention twice; cross-attention; maps.
    trained = RANK * ((12 + 32) + 2 * (32 + 96 + 64) + (64 + 32 + 64 + 64) + 4 * (32 + 64))
    total = plain + trained
    share = f"({100 * trained / total:.1f}%)"
    line = f"LoRA of rank 2: {trained:,} of {total:,} weights are trained {share}"
    assert line in capsys.readouterr().out
