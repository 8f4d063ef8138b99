import re
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.installation import __version__
from keras_transformer.settings import EssentialSettings
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.program import CommandParser


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([flag])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"keras-transformer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["translat"], ["translate"], ["translate", "r", "--x"]])
def test_wrong_command_line_is_one_line(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_every_verb_has_help(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    verbs = Path(cli.__file__).parent / "verbs"
    modules = {path.name.removesuffix("_command.py") for path in verbs.glob("*_command.py")}
    assert set(cli.VERBS) == modules
    assert [*re.findall(rf"^  ({'|'.join(modules)})\b", text, re.M)] == [*cli.VERBS]
    assert re.findall(r"^(\w+):$", text, re.M) == ["options", *cli.GROUPS]
    for verb in ["translate", "score", "align", "average"]:
        with pytest.raises(SystemExit) as caught:
            cli.main([verb, "--help"])
        assert caught.value.code == 0
        assert f"keras-transformer {verb}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("trian", "keras-transformer: error: unknown verb trian. Did you mean train?"),
        ("export lit", "keras-transformer export: error: unknown kind lit. Did you mean litert?"),
        ("translate r --bean-size 2", "translate: error: unrecognized arguments: --bean-size. Did"),
        ("score r --sorce a", "unrecognized arguments: --sorce. Did you mean --source? (see keras"),
        ("translate r --qqqq", "unrecognized arguments: --qqqq (see keras-transformer translate"),
        ("check r --json", "unrecognized arguments: --json (see keras-transformer check --help)"),
        ("serve a b", "unrecognized arguments: b (see keras-transformer serve --help)"),
        ("--completion fish", "invalid choice: 'fish'"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(line, told, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(line.split())
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.tensorflow
def test_the_short_help_of_train_says_what_the_long_one_does(capsys):
    from keras_transformer.translation_training import TranslationSettings

    flags = []
    for settings in (TranslationSettings, EssentialSettings):
        parser = CommandParser()
        settings.add_arguments(parser)
        flags.append({action.dest: (action.metavar, action.help) for action in parser._actions})
    assert flags[0].items() > flags[1].items()
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    short = capsys.readouterr().out
    assert 10 < len(re.findall(r"^  --", short, re.M)) < 25
    assert "keras-transformer train --help-all shows every flag" in short


def test_a_shell_completes_verbs_and_their_flags(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--completion", "bash"])
    assert caught.value.code == 0
    script = capsys.readouterr().out
    ask = "COMP_WORDS=({}); COMP_CWORD={}; _shtab_keras_transformer; echo ${{COMPREPLY[@]}}"
    for typed, expected in (("tr", "train translate"), ("tune --alph", "--alphas")):
        words = f"keras-transformer {typed}"
        line = ask.format(words, words.count(" "))
        done = subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True)
        assert set(expected.split()) <= set(done.stdout.split()), done.stderr


@pytest.mark.parametrize("verb", ["translate", "train", "demo", ""])
def test_help_loads_neither_keras_nor_what_one_verb_needs(verb):
    code = (
        "import sys\n"
        "from keras_transformer.toolkit import cli\n"
        "try:\n"
        f"    cli.main([*'{verb}'.split(), '--help'])\n"
        "except SystemExit:\n"
        "    heavy = {'keras', 'tensorflow', 'jax', 'numpy', 'starlette', 'tqdm'}\n"
        "    sys.exit(bool(heavy & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE)
    assert run.returncode == 0
    assert b"--quiet" in run.stdout
