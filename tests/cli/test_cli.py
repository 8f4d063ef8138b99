import re
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer import cli
from keras_transformer.distribution import __version__


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
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
    assert [*re.findall(rf"^    ({'|'.join(modules)})\b", text, re.M)] == [*cli.VERBS]
    for verb in ["translate", "score", "align", "average"]:
        with pytest.raises(SystemExit) as caught:
            cli.main([verb, "--help"])
        assert caught.value.code == 0
        assert f"keras-transformer {verb}" in capsys.readouterr().out


def test_help_loads_neither_keras_nor_a_backend():
    code = (
        "import sys\n"
        "from keras_transformer import cli\n"
        "try:\n"
        "    cli.main(['translate', '--help'])\n"
        "except SystemExit:\n"
        "    sys.exit(bool({'keras', 'tensorflow', 'jax'} & set(sys.modules)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.PIPE)
    assert run.returncode == 0
    assert b"--n-best" in run.stdout
