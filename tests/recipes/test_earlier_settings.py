"""Runs of versions that knew fewer settings go on."""

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_json
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit.demo.number_pairs import NumberWordsSettings
from keras_transformer.training.checkpoints.training_state import check_same_settings
from keras_transformer.translation_training import TranslationSettings
from recipes.multi30k_en_de.settings import Multi30kSettings
from recipes.recipe_options import recipe_options
from recipes.wmt14_en_de.settings import WMT14EnDeSettings
from recipes.wmt14_en_fr.settings import WMT14EnFrSettings
from recipes.wsj_parsing.settings import ParsingSettings
from tests.evaluation.cost.recorded_runs import write_run

NEW = {
    "num_encoder_layers", "num_decoder_layers", "key_dim", "value_dim", "use_bias", "max_length",
    "global_clipnorm", "language", "activation", "layer_norm_epsilon", "final_norm", "tie_weights",
    "use_logits_bias", "attention_window",
}  # fmt: skip
CLASSES = {
    TranslationSettings: {"positions", "extra_length"},
    Multi30kSettings: {"positions", "extra_length"},
    WMT14EnDeSettings: {"positions", "extra_length"},
    WMT14EnFrSettings: {"positions", "extra_length"},
    NumberWordsSettings: {
        "positions", "extra_length", "attention_dropout", "activation_dropout", "normalize_first",
    },
    ParsingSettings: set(),
}  # fmt: skip


@pytest.mark.parametrize("settings", CLASSES)
def test_what_an_earlier_version_did_not_know_is_its_default(settings):
    new = NEW | CLASSES[settings]
    earlier = {name: value for name, value in settings().to_dict().items() if name not in new}
    check_same_settings(earlier, settings.from_dict(earlier).to_dict(), settings.may_change)
    changes = {"use_bias": True, "num_encoder_layers": 7, "global_clipnorm": 1.0}
    for name, value in {**changes, "activation": "gelu"}.items():
        other = settings.from_dict({**earlier, name: value}).to_dict()
        with pytest.raises(UserInputError, match=f"settings: `{name}` was not given and is "):
            check_same_settings(earlier, other, settings.may_change)


@pytest.mark.parametrize("value", [None, "plain"])
def test_a_run_of_before_residual_connections_has_the_plain_one(value):
    values = Multi30kSettings(residual_connection=value).to_dict()
    earlier = {name: x for name, x in values.items() if name != "residual_connection"}
    for older in (earlier, {**earlier, "residual_connection": None}):
        check_same_settings(older, values)
    check_same_settings({**earlier, "residual_connection": "plain"}, values)
    with pytest.raises(UserInputError, match='`residual_connection` was "plain" and is "deepnorm"'):
        check_same_settings(earlier, {**values, "residual_connection": "deepnorm"})


@pytest.mark.parametrize("value", [None, "plain"])
def test_a_training_goes_on_and_starts_from_a_plain_run_without_a_flag(value, tmp_path):
    run = RunDirectory(write_run(tmp_path / "run", metrics=False))
    earlier = Multi30kSettings(precision="float32", residual_connection=value).to_dict()
    write_json(run.settings_path, earlier)

    def read(*arguments):
        flags = list(map(str, arguments))
        return recipe_options("multi30k_en_de", Multi30kSettings, "", arguments=flags)[0].settings

    check_same_settings(earlier, read("--run", run.path, "--resume").to_dict())
    for flags in ([], ["--residual-connection", "plain"]):
        read("--from", run.path, *flags).check_origin(run)
    with pytest.raises(UserInputError, match="must be 'plain'. Received: .*'b2t'"):
        read("--from", run.path, "--residual-connection", "b2t").check_origin(run)
