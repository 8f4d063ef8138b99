import re
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.installation import __version__
from keras_transformer.settings import FITTED, EssentialSettings
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cli.program import CommandParser
from tests.cli.refusals import refusal


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag, call):
    assert call(flag) == (0, f"keras-transformer {__version__}\n", "")


def test_every_verb_has_help(call):
    code, text, _ = call("--help")
    assert code == 0
    verbs = Path(cli.__file__).parent / "verbs"
    modules = {path.name.removesuffix("_command.py") for path in verbs.glob("*_command.py")}
    assert set(cli.VERBS) == modules
    assert [*re.findall(rf"^  ({'|'.join(modules)})\b", text, re.M)] == [*cli.VERBS]
    assert re.findall(r"^(\w+):$", text, re.M) == ["options", *cli.GROUPS]
    for verb in ["translate", "score", "align", "average"]:
        assert f"keras-transformer {verb}" in call(verb, "--help")[1]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("trian", "keras-transformer: error: unknown verb trian. Did you mean train?"),
        ("export lit", "keras-transformer export: error: unknown kind lit. Did you mean litert?"),
        ("translate r --bean-size 2", "translate: error: unrecognized arguments: --bean-size. Did"),
        ("evaluate r --target a", "unrecognized arguments: --target. Did you mean --reference?"),
        ("score r --sorce a", "unrecognized arguments: --sorce. Did you mean --source? (see keras"),
        ("translate r --qqqq", "unrecognized arguments: --qqqq (see keras-transformer translate"),
        ("check r --json", "unrecognized arguments: --json (see keras-transformer check --help)"),
        ("serve a b", "unrecognized arguments: b (see keras-transformer serve --help)"),
        ("--completion fish", "invalid choice: 'fish'"),
        ("", "arguments are required: VERB"),
        ("translate", "arguments are required: RUN"),
        ("export", "arguments are required: KIND"),
        ("export saved-model", "arguments are required: RUN, DIRECTORY"),
        ("export saved-model r", "arguments are required: DIRECTORY"),
        ("export saved-model r to --precision int8", "argument --precision: invalid choice"),
        ("export ctranslate2 r to --beam-size 2", "unrecognized arguments: --beam-size"),
        ("export litert r to --alpha -1", "must be a number of at least 0. Received: '-1'"),
        ("export litert r to --xla", "unrecognized arguments: --xla"),
        ("train --source a --target b --tokenizer=", "argument --tokenizer: must not be empty"),
        ("average r", "one of the arguments --last --best is required"),
        ("average r --last=2 --best=2", "argument --best: not allowed with argument --last"),
        ("average r --last=0", "must be an integer from 1 to 2147483647. Received: '0'"),
        ("translate r --n-best=0", "must be an integer from 1 to 2147483647. Received: '0'"),
        ("translate r --beam-size=0", "must be an integer from 1 to 2147483647. Received: '0'"),
        ("translate r --batch-size=x", "must be an integer from 1 to 2147483647. Received: 'x'"),
        ("translate r --alpha=-1", "must be a number of at least 0. Received: '-1'"),
        ("translate r --alpha=nan", "must be a number of at least 0. Received: 'nan'"),
        ("translate r --min-length=-1", "must be an integer from 0 to 2147483647. Received: '-1'"),
        ("translate r --temperature=0", "must be a positive number. Received: '0'"),
        ("translate r --top-p=1.5", "must be a number above 0 and at most 1. Received: '1.5'"),
    ],
)
def test_a_slip_is_one_line_with_what_was_meant(line, told, call):
    assert told in refusal(call(*line.split()))


@pytest.mark.tensorflow
def test_the_short_help_of_train_says_what_the_long_one_does(call):
    from keras_transformer.translation_training import TranslationSettings

    flags = []
    for settings in (TranslationSettings, EssentialSettings):
        parser = CommandParser()
        settings.add_arguments(parser, FITTED)
        flags.append({action.dest: (action.metavar, action.help) for action in parser._actions})
    assert flags[0].items() > flags[1].items()
    _, short, _ = call("train", "--help")
    assert 10 < len(re.findall(r"^  --", short, re.M)) < 25
    assert "Run keras-transformer train --help-all to see all flags" in short
    for text in (short, call("train", "--help-all")[1]):
        assert f"(default: {FITTED['preset']})" in " ".join(text.split())


@pytest.mark.parametrize(
    "line",
    ["--help", "translate --help", "train --help", "train --help-all", "demo --help-all"],
)
def test_help_loads_neither_keras_nor_what_one_verb_needs(line):
    code = (
        "import sys\n"
        "from keras_transformer.toolkit import cli\n"
        "try:\n"
        f"    cli.main('{line}'.split())\n"
        "except SystemExit:\n"
        "    heavy = {'keras', 'tensorflow', 'jax', 'numpy', 'starlette', 'tqdm'}\n"
        "    sys.exit(bool(heavy & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE)
    assert run.returncode == 0
    assert b"--quiet" in run.stdout
