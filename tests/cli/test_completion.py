"""Completion of the command line, by a real bash in a terminal."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

BASH = shutil.which("bash")
# The command prints its words. The script of `--completion` follows.
SETUP = """
bind 'set bell-style none'
bind 'set enable-bracketed-paste off'
PS1='$ '
keras-transformer() { printf '<%s>' "$@"; echo ' END'; }
"""


def completion(shell):
    """The script, made by a process that must not import what takes seconds."""
    code = (
        "import sys\n"
        "from keras_transformer.toolkit import cli\n"
        "try:\n"
        f"    cli.main(['--completion', '{shell}'])\n"
        "except SystemExit:\n"
        "    sys.exit(bool({'keras', 'tensorflow', 'jax', 'numpy'} & set(sys.modules)))\n"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_the_script_is_made_without_a_backend(shell):
    assert "preset" in completion(shell)


@pytest.fixture
def typed(tmp_path):
    """Function of what is typed after the command: the words that bash makes of it."""
    (tmp_path / "setup").write_text(SETUP + completion("bash"))
    home = tmp_path / "home"
    (home / "runs" / "en_de").mkdir(parents=True)
    for name in ("train en.txt", "package.argosmodel", "runs/en_de/run.json"):
        (home / name).touch()
    terminal, inside = pty.openpty()
    shell = subprocess.Popen(
        [BASH, "--noprofile", "--init-file", str(tmp_path / "setup"), "-i"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=home,
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "INPUTRC": "/dev/null"},
        start_new_session=True,
    )
    os.close(inside)

    def words(line):
        os.write(terminal, f"keras-transformer {line}\n".encode())
        output, end = b"", time.monotonic() + 60
        while b"> END" not in output:
            if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
                pytest.fail(f"no answer to {line!r}: {output!r}")
            output += os.read(terminal, 1 << 16)
        return output.decode().rpartition("\n<")[2].partition("> END")[0].split("><")

    with shell:
        yield words
        shell.kill()
    os.close(terminal)


@pytest.mark.skipif(BASH is None, reason="bash is missing: its completion is untested")
def test_tab_completes_verbs_flags_choices_files_and_directories(typed):
    for line, *words in (
        ("transl\t", "translate"),
        ("export lit\t", "export", "litert"),
        ("train --pres\tti\t", "train", "--preset", "tiny"),
        ("train --preset A-h3\t", "train", "--preset", "A-h32"),
        ("train --xla of\t", "train", "--xla", "off"),
        ("export litert --prec\tint\t", "export", "litert", "--precision", "int8"),
        ("train --source tr\t--dev-so\t", "train", "--source", "train en.txt", "--dev-source"),
        ("train --mix tr\t", "train", "--mix", "train en.txt"),
        ("import ct\tpa\t", "import", "ctranslate2", "package.argosmodel"),
        ("app ru\ten\t", "app", "runs/en_de/"),
        ("app tr\t", "app", "tr"),  # a run is a directory
    ):
        assert typed(line) == words
