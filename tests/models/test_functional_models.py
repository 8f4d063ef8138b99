"""Architectures from strangers: no class but ours, and no memory before it is known how much."""

import copy
import dataclasses
import json
import resource

import keras
import pytest

from keras_transformer.models import Transformer, build_transformer
from keras_transformer.models.functional_models import load_architecture

SIZES = {"hidden_dim": 8, "num_heads": 2, "intermediate_dim": 16, "num_encoder_layers": 1}


@pytest.fixture(scope="module")
def model():
    return build_transformer("tiny", vocabulary_size=20, num_decoder_layers=1, **SIZES)


def same_options(model, other):
    """Whether two models have the same options; one writes initializers as Keras does."""
    initializers = {"kernel_initializer": "glorot_uniform", "bias_initializer": "zeros"}
    options = [dataclasses.replace(each.options, **initializers) for each in (model, other)]
    return options[0] == options[1]


def functional(model):
    """The model as Keras writes one that names its layers, as runs of earlier versions have it."""
    return json.loads(keras.Model(model.input, model.output, name=model.name).to_json())


@pytest.fixture
def architecture(model):
    return functional(model)


def layer(architecture, name):
    return next(each for each in architecture["config"]["layers"] if each["name"] == name)


def test_the_same_model_is_made(model, architecture):
    before = copy.deepcopy(architecture)
    made = load_architecture(architecture, model.count_params())
    assert [weight.shape for weight in made.weights] == [weight.shape for weight in model.weights]
    assert architecture == before
    assert made(made.input).shape == model.output.shape


def test_the_class_of_an_earlier_version_is_a_transformer(model, architecture):
    names = {
        "module": "keras_transformer.models.generation.generative_model",
        "class_name": "GenerativeModel",
        "registered_name": "keras_transformer>GenerativeModel",
    }
    of_run = load_architecture({**architecture, **names})
    for made in (of_run, keras.saving.deserialize_keras_object({**architecture, **names})):
        assert type(made) is Transformer
        assert same_options(made, model)


@pytest.mark.parametrize(
    "options", [{"positions": "learned"}, {"dtype": "mixed_bfloat16"}, {"normalize_first": True}]
)
def test_other_kinds_of_models_are_made(options):
    model = build_transformer(
        "tiny", vocabulary_size=20, source_vocabulary_size=24, num_decoder_layers=1,
        **SIZES, **options,
    )  # fmt: skip
    made = load_architecture(functional(model), model.count_params())
    assert same_options(made, model)
    assert made.count_params() == model.count_params()


def test_another_number_of_weights_is_refused(model, architecture):
    number = model.count_params()
    with pytest.raises(ValueError, match=f"it has {number:,} weights, and 5 are there"):
        load_architecture(architecture, 5)


@pytest.mark.parametrize(
    ("name", "entry", "value"),
    [
        ("embedding", "vocabulary_size", 10**12),
        ("encoder_layer_1", "intermediate_dim", 10**13),
        ("decoder_layer_1", "key_dim", 10**13),
    ],
)
def test_a_model_larger_than_the_machine_is_refused_before_it_takes_memory(
    architecture, name, entry, value
):
    layer(architecture, name)["config"][entry] = value
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"its weights take [\d,]{3,} GB, and this machine has"):
        load_architecture(architecture)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB
    # Nor does Keras give it values later, with those of the next model.
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"positions": "words", "word_starts": [5], "vocabulary_size": 2 * 10**10}, "take .* GB"),
        ({"positions": "learned", "num_tables": 10**9}, "Keras cannot make it"),
    ],
)
def test_positions_of_strangers_take_no_memory(architecture, options, says):
    layer(architecture, "embedding")["config"].update(options)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=says):
        load_architecture(architecture)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


FOREIGN = {
    "wrapper": {"module": "keras.layers", "class_name": "TorchModuleWrapper"},
    "lambda": {"module": "keras.layers", "class_name": "Lambda"},
    "function": {"module": "builtins", "class_name": "function"},
    "python": {"module": "os", "class_name": "system"},
    "ours": {
        "module": "keras_transformer.cli",
        "class_name": "main",
        "registered_name": "keras_transformer>main",
    },
    "masked": {
        "module": "keras.layers",
        "class_name": "Lambda",
        "registered_name": "keras_transformer>PositionalEmbedding",
    },
    "registered": {
        "module": "keras.layers",
        "class_name": "Dense",
        "registered_name": "somebody>Dense",
    },
    "dict": {"module": {}, "class_name": []},
}


@pytest.mark.parametrize("entry", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("place", ["layer", "dtype", "model"])
def test_a_class_of_somebody_else_is_refused(architecture, entry, place):
    entry = {"registered_name": None, "config": {}, **entry}
    if place == "model":
        architecture = architecture | entry
    elif place == "layer":
        architecture["config"]["layers"][2] |= entry
    else:
        layer(architecture, "encoder_layer_1")["config"]["dtype"] = entry
    with pytest.raises(ValueError, match="it names the class"):
        load_architecture(architecture)


@pytest.mark.parametrize(
    "damage",
    [
        lambda config: config.clear(),
        lambda config: config.update(layers=None),
        lambda config: config.update(layers=config["layers"][:3]),
        lambda config: config.update(output_layers=["embedding", 7, 0]),
        lambda config: config.update(name=7),
        lambda config: config["layers"][2]["config"].update(hidden_dim="8"),
        lambda config: config["layers"][2]["config"].update(hidden_dim=-8),
        lambda config: config["layers"][2]["config"].update(vocabulary_size=1e999),
        lambda config: config["layers"][2]["config"].update(color="red"),
        lambda config: config["layers"][2].update(inbound_nodes=[{"args": [1]}]),
    ],
)
def test_what_is_no_model_is_one_sentence(architecture, damage):
    damage(architecture["config"])
    with pytest.raises(ValueError, match=".") as error:
        load_architecture(architecture)
    assert len(str(error.value).splitlines()) == 1


def test_what_is_nested_without_end_is_one_sentence(architecture):
    nested = []
    for _ in range(5000):
        nested = [nested]
    architecture["config"]["layers"][2]["config"]["hidden_dim"] = nested
    with pytest.raises(ValueError, match="it is not a functional model"):
        load_architecture(architecture)
