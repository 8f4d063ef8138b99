"""What to try with a run at the end of its training."""

import os
import pathlib
import shlex
import shutil
import sys

from keras_transformer.files import say


def next_commands(path: pathlib.Path, source: str) -> list[str]:
    """Commands to try with a run: translate, the web app, attention, an export.

    Args:
        path: path of the run.
        source: a sentence that the run can translate.
    """
    run, program, text = shlex.quote(str(path)), program_name(), shlex.quote(source)
    beside = shlex.quote(str(path.with_name(f"{path.name}-litert")))
    page = shlex.quote(str(path / "attention.html"))
    return [
        f"echo {text} | {program} translate {run}",
        f"{program} app {run} --open",
        f"{program} attention {run} --source {text} --output {page} --open",
        f"{program} export litert {run} {beside}",
    ]


def say_next_steps(path: pathlib.Path, source: str, *more: str) -> None:
    """Print commands to try with a run, and its path as the last line.

    Args:
        path: path of the run.
        source: a sentence that the run can translate.
        *more: further lines that say what to do and how, such as "What it cost: cost RUN".
    """
    lines = [f"  {command}" for command in next_commands(path, source)]
    say("\nTry next:", *lines, *more, "")
    say(path, result=True)


def program_name() -> str:
    """What to type for `keras-transformer`: its path if the shell would not find it."""
    own = pathlib.Path(sys.executable).with_name("keras-transformer")
    if shutil.which("keras-transformer") or not own.is_file():
        return "keras-transformer"
    return shlex.quote(os.path.relpath(own))
