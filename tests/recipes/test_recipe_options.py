import dataclasses
import pathlib
from typing import ClassVar

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_json
from keras_transformer.settings import Settings, setting
from recipes.recipe_options import recipe_options
from tests.evaluation.cost.recorded_runs import write_run

ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Example(Settings):
    of_one_run: ClassVar = ()

    steps: int = setting(500, "the loss is flat by then", minimum=1)


def read(*arguments, **kwargs):
    return recipe_options("example", Example, "An example.", arguments=list(arguments), **kwargs)


def test_defaults_name_a_new_run_below_the_recipe():
    options, _ = read()
    assert options.settings == Example()
    assert options.run.parent == pathlib.Path("runs/example")
    assert (options.overwrite, options.minutes, options.origin) == (False, None, None)


def test_flags_reach_settings_and_run_and_the_command_is_kept():
    options, _ = read("--run", "runs/a b", "--minutes", "2.5", "--steps", "7", "--overwrite")
    assert options.settings.steps == 7
    assert options.run == pathlib.Path("runs/a b")
    assert (options.overwrite, options.minutes) == (True, 2.5)
    expected = (
        "python -m recipes.example.train --run 'runs/a b' --minutes 2.5 --steps 7 --overwrite"
    )
    assert options.command == expected


def test_a_settings_file_gives_what_no_flag_says(tmp_path):
    (tmp_path / "few.toml").write_text("steps = 3")
    assert read("--settings", str(tmp_path / "few.toml"))[0].settings == Example(steps=3)


def test_a_training_from_a_run_has_its_settings_but_for_the_given_ones(tmp_path):
    origin = tmp_path / "first"
    write_run(origin, metrics=False)
    write_json(origin / "settings.json", {"steps": 9, "of_another_recipe": 1})
    options, _ = read("--from", str(origin))
    assert (options.origin, options.settings) == (origin, Example(steps=9))
    assert read("--from", str(origin), "--steps", "4")[0].settings == Example(steps=4)
    with pytest.raises(UserInputError, match="There is no run directory"):
        read("--from", str(tmp_path / "none"))


def test_a_recipe_has_flags_of_its_own(capsys):
    def add(parser):
        parser.add_argument("--data", type=pathlib.Path, required=True)

    _, values = read("--data", "corpus", add=add)
    assert values.data == pathlib.Path("corpus")
    with pytest.raises(SystemExit):
        read(add=add)
    assert "required: --data" in capsys.readouterr().err


def test_a_recipe_may_not_start_from_a_run(capsys):
    with pytest.raises(SystemExit):
        read("--from", "runs/c", fine_tuning=False)
    assert "unrecognized arguments: --from" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "x"])
def test_minutes_must_be_positive(minutes, capsys):
    with pytest.raises(SystemExit):
        read("--minutes", minutes)
    assert f"must be a positive number. Received: '{minutes}'" in capsys.readouterr().err


def test_recipes_train_as_their_settings_say():
    """With R-Drop, and the weights that are not frozen, or adapters."""
    trainings = {*ROOT.glob("recipes/*/train.py"), ROOT / "keras_transformer/toolkit/demo/train.py"}
    trainings.remove(ROOT / "recipes/number_words/train.py")  # calls the demo's
    assert len(trainings) == 9
    for path in trainings:
        text, compiled = path.read_text(), "run.accumulate, tokenizer.special_tokens)"
        assert f"settings.compile(model, loss, {compiled}" in text, path
        if path.parent.name not in ("wsj_parsing", "demo"):  # whose settings have neither
            assert "translation_model(settings, source_tokenizer, tokenizer, run)" in text, path
