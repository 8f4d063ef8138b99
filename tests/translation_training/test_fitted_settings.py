"""Settings that follow from the text, the minutes and the speed of the devices."""

import argparse
import string
import types

import pytest

from keras_transformer.data import SentencePairs
from keras_transformer.settings import FITTED
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training import TrainingCommand, add_training_arguments
from keras_transformer.training.translation import data
from keras_transformer.training.translation.data import (
    TextSize,
    TranslationData,
    by_minutes,
    by_text,
    fit_settings,
)
from keras_transformer.translation_training import TranslationSettings
from tests.translation_training.number_text import pairs, train_pairs


def size(number):
    return TextSize(pairs=number, characters=100, words=number * 2, target_tokens=10)


def test_the_size_of_a_text_is_of_all_its_parts():
    texts = [SentencePairs(["A house.", "a tree"], ["ein Haus.", "ein Baum"])] * 2
    found = TextSize.of(texts)
    assert (found.pairs, found.words) == (4, 6)
    assert found.characters == len(set("ahouse.treinubm"))
    assert found.target_tokens == pytest.approx(8.5 / 3.5)


@pytest.mark.parametrize(
    ("number", "preset", "vocabulary"),
    [(3000, "tiny", 1500), (30_000, "small", 3400), (4_500_000, "base", 23_200)],
)
def test_more_text_makes_a_larger_model(number, preset, vocabulary):
    values = by_text(size(number))
    assert (values["preset"], values["vocabulary_size"]) == (preset, vocabulary)
    TranslationSettings.from_dict(values)


@pytest.mark.parametrize("number", [7, 60, 625])
def test_the_vocabulary_can_be_trained_on_the_text(number):
    sources, targets = (side[:number] for side in pairs())
    text = TextSize.of([SentencePairs(sources, targets)])
    settings = TranslationSettings.from_dict(by_text(text))
    tokenizer = SentencePieceTokenizer.train(
        sources + targets,
        vocabulary_size=settings.vocabulary_size,
        byte_fallback=True,
        user_defined_symbols=settings.symbols.split(),
    )
    assert tokenizer.vocabulary_size == settings.vocabulary_size


LETTERS = " ".join(string.ascii_uppercase)
RARE = [*["one two"] * 20_500, *(chr(0x4E00 + number) for number in range(3000))]


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
@pytest.mark.parametrize(
    ("sources", "targets"),
    [
        (["Hello."] * 300, ["Hallo!"] * 300),
        ([LETTERS] * 2000, [LETTERS.lower()] * 2000),
        (RARE, RARE),
        (["ﬁne e\u0301", "①② ｗｉｄｅ"] * 20, ["½ ñandú", "ABC\u00a0\tdef"] * 20),
    ],
    ids=["one sentence", "letters", "rare characters at the end", "characters of several forms"],
)
def test_each_character_of_a_text_has_an_id(sources, targets, normalization):
    """No character is dropped: `SentencePieceTokenizer.train` refuses too few ids."""
    text = TextSize.of([SentencePairs(sources, targets)])
    given = {"symbols": "<a> <b>", "normalization": normalization}
    settings = data._settings(given, by_text(text))
    tokenizer = SentencePieceTokenizer.train(
        sources + targets,
        vocabulary_size=settings.vocabulary_size,
        byte_fallback=True,
        normalization=normalization,
        user_defined_symbols=settings.symbols.split(),
    )
    assert tokenizer.vocabulary_size == settings.vocabulary_size


@pytest.mark.parametrize("minutes", [1, 5, 60, 1000])
@pytest.mark.parametrize("speed", [100, 4000, 200_000])
def test_a_training_of_any_time_leaves_its_warm_up(minutes, speed):
    settings = TranslationSettings(preset="small")
    values = by_minutes(settings, 60 * minutes, speed)
    updates = 60 * minutes * speed * 0.9 / values["batch_tokens"]
    assert 1024 <= values["batch_tokens"] <= settings.batch_tokens
    assert 1 <= values["warmup_steps"] <= updates / 8 + 1
    assert values["steps"] >= 10 * updates - 10
    fitted = TranslationSettings.from_dict({"preset": "small", **values})
    # The peak is at most that of the preset.
    peak = fitted.learning_rate_scale * fitted.warmup_steps**-0.5
    assert peak <= settings.warmup_steps**-0.5 * 1.001


def test_an_hour_on_two_cores_has_a_few_thousand_updates():
    values = by_minutes(TranslationSettings(preset="small"), 3600, 4300)
    assert values["batch_tokens"] == 4096
    assert values["warmup_steps"] == 425
    assert values["save_every"] == 283


@pytest.fixture
def fitted_names(monkeypatch):
    """Returns the names of the settings that `fit_settings` sets for texts of several sizes."""
    names = set()
    from_dict = TranslationSettings.from_dict

    def recorded(values):
        names.update(values)
        return from_dict(values)

    monkeypatch.setattr(TranslationSettings, "from_dict", recorded)
    monkeypatch.setattr(data, "measured_speed", lambda *_: 4000)
    run = types.SimpleNamespace(earlier=None, say=lambda *_: None, adopt=lambda _: None)
    texts = TranslationData([SentencePairs(["a"], ["b"])])

    def found(minutes, **given):
        names.clear()
        call = TrainingCommand(TranslationSettings(), "run", minutes=minutes, given=given)
        for number in (3000, 30_000, 4_500_000):
            monkeypatch.setattr(TextSize, "of", lambda _, number=number: size(number))
            fit_settings(call, texts, run)
        return names - given.keys()

    return found


def test_the_help_lists_the_settings_that_are_fitted(fitted_names):
    assert fitted_names(60, target_language="zh") == FITTED.keys()
    with_minutes = {name for name, text in FITTED.items() if text.startswith("with --minutes")}
    assert fitted_names(None, target_language="zh") == FITTED.keys() - with_minutes
    of_size = {name for name, text in FITTED.items() if "with --preset" in text}
    found = fitted_names(None, target_language="zh", preset="tiny")
    assert found == FITTED.keys() - with_minutes - of_size - {"preset"}


@pytest.mark.parametrize(
    ("flag", "fitted", "fixed"),
    [
        ("--preset tiny|small|base|big|ROW", "fitted to the text", "base"),
        ("--vocabulary-size INT", "fitted to the text", "16000"),
        ("--dropout FLOAT", "fitted to the text; with --preset, the preset's", "the preset's"),
        (
            "--save-every INT",
            "with --minutes, fitted to the time and the machine; otherwise 1000",
            "1000",
        ),
        ("--cooldown FLOAT", "with --minutes, 0.3; otherwise 0.0", "0.0"),
        (
            "--tune-alpha, --no-tune-alpha",
            "with --minutes, fitted to the text; otherwise False",
            "False",
        ),
        ("--max-repeats INT", "8", "0"),
        ("--alpha FLOAT", "0.6", "0.6"),
    ],
)
def test_help_shows_what_a_setting_is_fitted_to(flag, fitted, fixed, tmp_path):
    for fits, default in ((True, fitted), (False, fixed)):
        parser = argparse.ArgumentParser()
        add_training_arguments(parser, TranslationSettings, tmp_path, fits=fits)
        text = " ".join(parser.format_help().split())
        place = text.rindex(flag)  # the first one is in the usage
        assert text[place:].partition("(default: ")[2].startswith(f"{default})")


def train(tmp_path, *arguments, **settings):
    return train_pairs(tmp_path, tmp_path / "run", "--no-tensorboard", *arguments, **settings)


ONE_LAYER = {
    "preset": "tiny", "num_layers": 1, "hidden_dim": 32, "num_heads": 2, "bleu_every": 0,
    "tune_alpha": False, "steps": 2,
}  # fmt: skip


@pytest.fixture
def slow_device(monkeypatch):
    """A device so slow that a minute has 20 of the smallest updates of any model."""
    speed = 20 * data._SMALLEST_BATCH / 60
    monkeypatch.setattr(data, "measured_speed", lambda *_: speed)


@pytest.mark.slow
def test_a_command_of_files_and_minutes_trains_and_goes_on(tmp_path, capsys):
    languages = ["--source-language", "en", "--target-language", "zh-Hans"]
    quick = ["--minutes", "0.05", "--bleu-every", "0"]
    code, run = train(tmp_path, *languages, *quick)
    assert code == 0
    record = run.record()
    assert (record.source_language, record.target_language) == ("en", "zh-Hans")
    assert run.settings()["bleu_tokenize"] == "zh"
    printed = capsys.readouterr().out
    assert "warning: only 625 pairs." in printed
    assert "warning: time for only about " in printed
    assert run.settings()["tune_alpha"] is False  # 62 sentences are too few to choose by
    assert "Settings for 625 pairs: --preset tiny --vocabulary-size " in printed
    assert " --max-repeats 8" in printed
    assert " --steps " not in printed
    stages = ["Timing training steps of the preset tiny", "Training the vocabulary: "]
    stages += ["No dev text given: holding out 62 training pairs", "Averaging checkpoints of "]
    stages += ["Translating the dev text, 62 sentences", "Try next:"]
    places = [printed.index(stage) for stage in stages]
    assert places == sorted(places)
    settings = run.settings()
    assert settings["preset"] == "tiny"
    assert settings["normalize_first"] is True
    assert f" --vocabulary-size {settings['vocabulary_size']} " in printed
    assert settings["steps"] >= 8000  # the minutes end it
    assert train(tmp_path, "--resume", "--minutes", "0.1")[0] == 0
    assert run.settings() == settings


@pytest.mark.slow
@pytest.mark.usefixtures("slow_device")
def test_what_is_given_stays(tmp_path):
    given = ONE_LAYER | {"warmup_steps": 77, "batch_tokens": 600, "byte_fallback": False}
    given |= {"positions": "learned", "max_length": 40}
    code, run = train(tmp_path, "--minutes", "1", "--max-repeats", "0", **given)
    assert code == 0
    assert run.record().search is None
    settings = run.settings()
    assert {name: settings[name] for name in given} == given
    assert settings["normalize_first"] is False  # the preset as it is
    assert settings["cooldown"] == 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"positions": "words", "separate_vocabularies": True},
        {"positions": "learned", "max_length": 40},
        {"max_tokens": 2000, "byte_fallback": False},
    ],
)
def test_the_speed_of_any_model_can_be_measured(tmp_path, options):
    code, run = train(tmp_path, "--minutes", "0.05", **ONE_LAYER, **options)
    assert code == 0
    assert run.settings()["batch_tokens"] >= options.get("max_tokens", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("slow_device")
def test_a_run_keeps_its_settings(tmp_path):
    code, run = train(tmp_path, **ONE_LAYER)
    assert code == 0
    before = run.settings()
    assert train(tmp_path, "--resume", "--steps", "3", "--minutes", "10")[0] == 0
    assert run.settings() == before | {"steps": 3}
