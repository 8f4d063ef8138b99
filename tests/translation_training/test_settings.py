import argparse
import dataclasses
import shutil

import pytest

from keras_transformer import models
from keras_transformer.errors import UserInputError
from keras_transformer.models import PRESETS
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import TrainingCommand, add_training_arguments
from keras_transformer.training.checkpoints.training_state import check_same_settings
from keras_transformer.translation_training import TranslationSettings


@pytest.mark.parametrize("preset", ["tiny", "base", "big"])
def test_what_is_not_given_is_the_presets(preset):
    settings, sizes = TranslationSettings(preset=preset), PRESETS[preset]
    assert (settings.dropout, settings.steps) == (sizes.dropout, sizes.training_steps)
    assert settings.average == sizes.averaged_checkpoints
    assert settings.batch_tokens == sizes.batch_tokens


@pytest.mark.parametrize("code", ["german", "d", "de_DE", "de\n", ""])
def test_a_language_is_given_by_its_code(code):
    assert TranslationSettings(target_language="pt-BR").target_language == "pt-BR"
    with pytest.raises(UserInputError, match="`target_language` must be a code such as en or pt-B"):
        TranslationSettings(target_language=code)


@pytest.mark.parametrize("preset", ["A-h1", "B-dk16", "C-N8", "D-ls2", "E-learned"])
def test_a_row_of_table_3_is_a_single_checkpoint(preset):
    assert TranslationSettings(preset=preset).average == 1
    assert TranslationSettings(preset=preset, average=3).average == 3


def test_given_values_outrank_the_presets():
    settings = TranslationSettings(preset="big", dropout=0.0, num_layers=2)
    assert settings.dropout == 0.0
    options = settings.model_options()
    assert (options["num_encoder_layers"], options["num_decoder_layers"]) == (2, 2)
    assert options["dropout"] == 0.0


def test_settings_of_a_run_give_the_same_settings():
    settings = TranslationSettings(preset="tiny", best_by="bleu", hidden_dim=64)
    assert TranslationSettings.from_dict(settings.to_dict()) == settings


def test_another_preset_brings_its_own_training_values():
    base = TranslationSettings(preset="base", dropout=0.25, seed=7).to_dict()
    merged = TranslationSettings.merge(base, {"preset": "big", "seed": 8})
    settings = TranslationSettings.from_dict(merged)
    assert (settings.steps, settings.average, settings.seed) == (300_000, 20, 8)
    assert settings.dropout == 0.25  # not the old preset's: somebody chose it
    assert TranslationSettings.merge(base, {"seed": 8}) == {**base, "seed": 8}


def test_a_moving_average_is_the_optimizers():
    options = TranslationSettings(ema=True, ema_momentum=0.9).optimizer_options()
    assert (options["use_ema"], options["ema_momentum"]) == (True, 0.9)
    assert "use_ema" not in TranslationSettings().optimizer_options()


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"best_by": "perplexity"}, {"monitor": "val_perplexity", "mode": "min"}),
        ({"best_by": "bleu"}, {"monitor": "val_bleu", "mode": "max"}),
        ({"average": 7, "average_of": "last"}, {"keep_last": 7, "keep_best": 1}),
        ({"average": 7, "average_of": "best"}, {"keep_last": 7, "keep_best": 7}),
    ],
)
def test_which_checkpoints_are_kept(given, options):
    assert TranslationSettings(**given).training_options().items() >= options.items()


def test_a_ranking_by_bleu_keeps_its_tokenizer():
    earlier = TranslationSettings(best_by="bleu").to_dict()
    settings = TranslationSettings(best_by="bleu", bleu_tokenize="char", language="de")
    with pytest.raises(UserInputError, match='settings: `bleu_tokenize` was "13a" and is "char"'):
        check_same_settings(earlier, settings.to_dict(), settings.may_change)
    settings = TranslationSettings(bleu_tokenize="char")
    check_same_settings(TranslationSettings().to_dict(), settings.to_dict(), settings.may_change)


@dataclasses.dataclass
class Origin:
    """A run to start from, which is its settings."""

    values: dict
    path: str = "runs/origin"

    def settings(self):
        return self.values


@pytest.mark.parametrize(
    "setting",
    [
        {"num_layers": 3},
        {"key_dim": 4},
        {"positions": "learned"},
        {"activation": "gelu"},
        {"layer_norm_epsilon": 1e-5},
        {"final_norm": True},
        {"tie_weights": False},
        {"residual_connection": "deepnorm"},
    ],
)
def test_the_run_that_a_training_starts_from_decides_its_model(setting):
    (name,) = setting
    origin = {"preset": "tiny", "precision": "float32", "num_layers": 2}  # of an older version
    TranslationSettings(preset="tiny", num_layers=2, dropout=0.0).check_origin(Origin(origin))
    settings = TranslationSettings.from_dict({**origin, **setting})
    with pytest.raises(UserInputError, match=f"runs/origin uses the model .*: `{name}` must be"):
        settings.check_origin(Origin(origin))
    settings.check_origin(Origin(settings.to_dict()))


def test_no_residual_connection_is_the_plain_one():
    plain = TranslationSettings(residual_connection="plain")
    older = {name: x for name, x in plain.to_dict().items() if name != "residual_connection"}
    for origin in (older, {**older, "residual_connection": None}):
        plain.check_origin(Origin(origin))
        with pytest.raises(UserInputError, match="`residual_connection` must be 'plain'. Received"):
            TranslationSettings(residual_connection="deepnorm").check_origin(Origin(origin))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"best_by": "bleu", "bleu_every": 0}, "only if BLEU is measured"),
        ({"source_tokenizer": "en.model"}, "`source_tokenizer` needs `tokenizer`"),
        ({"preset": "huge"}, "`preset` must be one of tiny, small, base"),
        ({"hidden_dim": 30, "num_heads": 4}, "`hidden_dim` must be a multiple of `num_heads`"),
        ({"num_heads": 7}, "Received: hidden_dim=512, num_heads=7"),
        ({"positions": "words"}, "`positions` can be words only with `separate_vocabularies`"),
        ({"normalize_first": True, "residual_connection": "b2t"}, "must be 'plain' with"),
        ({"symbols": "<BT> <BT>"}, "`symbols` must be different from each other"),
        ({"symbols": "<unk>"}, "`symbols` must be different from each other"),
        ({"symbols": "<0x41>"}, "`symbols` must be different from each other"),
        ({"learning_rate_scale": 0}, "`learning_rate_scale` must be at least"),
        ({"seed": 2**32}, "`seed` must be less than"),
        ({"vocabulary_size": 3_000_000_000}, "`vocabulary_size` must be less than 2147483648"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(values, message):
    with pytest.raises(UserInputError, match=message):
        TranslationSettings(**values)


def test_the_precision_of_auto_is_that_of_the_model_a_training_starts_from():
    @dataclasses.dataclass
    class OriginInBfloat16(Origin):
        def load_architecture(self):
            return models.build_transformer("tiny", vocabulary_size=9, dtype="mixed_bfloat16")

    origin = OriginInBfloat16({"preset": "tiny", "precision": "auto"})
    for precision in ("auto", "mixed_bfloat16"):
        TranslationSettings(preset="tiny", precision=precision).check_origin(origin)
    with pytest.raises(UserInputError, match="`precision` must be 'mixed_bfloat16'"):
        TranslationSettings(preset="tiny", precision="float32").check_origin(origin)


def test_a_training_from_a_run_has_its_search(trained_run, tmp_path):
    """Such as that of an imported model, or one that `tune` has chosen."""
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    run.write_search_defaults({"beam_size": 6, "alpha": 1.0, "length_penalty": "power"})
    parser = argparse.ArgumentParser()
    add_training_arguments(parser, TranslationSettings, tmp_path)
    found = []
    for flags in ([], ["--beam-size", "2"]):
        arguments = parser.parse_args(["--from", str(run.path), *flags])
        options = TrainingCommand.from_arguments(arguments, TranslationSettings, "train")
        found.append((options.settings.beam_size, options.settings.alpha))
    assert found == [(6, 1.0), (2, 1.0)]


def test_adapters_of_a_run_trained_by_muon_are_updated_by_adam():
    muon = TranslationSettings(optimizer="muon").to_dict()
    settings = TranslationSettings.from_dict(TranslationSettings.merge(muon, {"lora_rank": 8}))
    assert settings.optimizer_options()["optimizer"] == "adam"
    assert settings.training_options()["needs_origin"]
    with pytest.raises(UserInputError, match="`optimizer` must be adam with `lora_rank`"):
        TranslationSettings(optimizer="muon", lora_rank=8)
    merged = TranslationSettings.merge(muon, {"lora_rank": None, "seed": 2})
    assert TranslationSettings.from_dict(merged).optimizer == "muon"
