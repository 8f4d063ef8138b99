import dataclasses
import pathlib

import pytest

from keras_transformer.settings import Settings, setting
from recipes.recipe_options import recipe_options


@dataclasses.dataclass(frozen=True)
class Example(Settings):
    steps: int = setting(500, "the loss is flat by then", minimum=1)


def read(*arguments, **kwargs):
    return recipe_options("example", Example, "An example.", arguments=list(arguments), **kwargs)


def test_defaults_name_a_new_run_below_the_recipe():
    options = read()
    assert options.settings == Example()
    assert options.run.parent == pathlib.Path("runs/example")
    assert (options.overwrite, options.minutes, options.paths) == (False, None, {})


def test_flags_reach_settings_and_run_and_the_command_is_kept():
    options = read("--run", "runs/a b", "--minutes", "2.5", "--steps", "7", "--overwrite")
    assert options.settings.steps == 7
    assert options.run == pathlib.Path("runs/a b")
    assert (options.overwrite, options.minutes) == (True, 2.5)
    expected = (
        "python -m recipes.example.train --run 'runs/a b' --minutes 2.5 --steps 7 --overwrite"
    )
    assert options.command == expected


def test_a_recipes_own_path_is_required(capsys):
    assert read("--data", "corpus", paths={"data": "folder"}).paths["data"] == pathlib.Path(
        "corpus"
    )
    with pytest.raises(SystemExit):
        read(paths={"data": "folder"})
    assert "required: --data" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "x"])
def test_minutes_must_be_positive(minutes, capsys):
    with pytest.raises(SystemExit):
        read("--minutes", minutes)
    assert f"invalid positive number value: '{minutes}'" in capsys.readouterr().err
