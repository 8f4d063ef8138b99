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
    options, _ = read()
    assert options.settings == Example()
    assert options.run.parent == pathlib.Path("runs/example")
    assert (options.overwrite, options.minutes, options.origin) == (False, None, None)


def test_flags_reach_settings_and_run_and_the_command_is_kept():
    options, _ = read(
        "--run", "runs/a b", "--minutes", "2.5", "--steps", "7", "--overwrite", "--from", "runs/c"
    )
    assert options.settings.steps == 7
    assert options.run == pathlib.Path("runs/a b")
    assert (options.overwrite, options.minutes) == (True, 2.5)
    assert options.origin == pathlib.Path("runs/c")
    expected = (
        "python -m recipes.example.train --run 'runs/a b' --minutes 2.5 --steps 7 --overwrite "
        "--from runs/c"
    )
    assert options.command == expected


def test_a_settings_file_gives_what_no_flag_says(tmp_path):
    (tmp_path / "few.toml").write_text("steps = 3")
    assert read("--settings", str(tmp_path / "few.toml"))[0].settings == Example(steps=3)


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
    assert f"invalid positive number value: '{minutes}'" in capsys.readouterr().err
