"""Shell blocks of a page, run by bash with a `keras-transformer` that the test writes."""

import os
import subprocess
import sys

import requests

# Writes the environment and the arguments of each call into a file of its own.
RECORDER = """#!{python}
import json, os, pathlib, sys
calls = pathlib.Path({calls!r})
names = [name for name in os.environ if name.startswith(("TF_CONFIG", "KERAS_"))]
call = {{"arguments": sys.argv[1:], "environment": {{name: os.environ[name] for name in names}}}}
(calls / f"{{len(list(calls.iterdir()))}}.json").write_text(json.dumps(call))
"""
# The program itself, whose trainings are small.
SMALL_PROGRAM = """#!{python}
import sys
from keras_transformer.toolkit.cli import main
sys.path[:] = {path!r}
arguments = sys.argv[1:] + ({small!r} if sys.argv[1] == "train" else [])
sys.exit(main(arguments))
"""


def write_program(path, text, /, **values):
    """Write a program, with the path of Python as `python`."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.format(python=sys.executable, **values), "utf-8")
    path.chmod(0o755)


def install(folder, program, **values):
    """Write `keras-transformer` into a folder; returns an environment that finds it there."""
    write_program(folder / "keras-transformer", program, path=sys.path, **values)
    names = ("TF_CONFIG", "KERAS_BACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    return {
        **environment,
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "",
        "JAX_PLATFORMS": "cpu",
    }


def start(script, environment, directory):
    """Start a script in a directory; returns the process."""
    return subprocess.Popen(
        ["bash", "-e", "-c", script],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def curl(words, server):
    """The answer of a `ModelServer` to a request by curl, given as the words after it."""
    url = words[-1].replace("http://localhost:8501", server.rest_address)
    assert url != words[-1]
    data = words[words.index("-d") + 1].encode() if "-d" in words else None
    return requests.request("POST" if data else "GET", url, data=data, timeout=60)
