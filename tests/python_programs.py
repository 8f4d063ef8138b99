"""Programs of Python in processes of their own, which import what this process imports."""

import os
import subprocess
import sys


def environment(**variables):
    """The environment of such a process, with more variables."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}


def run_python(*arguments, input=None, cwd=None, **variables):
    """Run `python ARGUMENTS`, which has to end well; returns the process with its output."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=input,
        cwd=cwd,
        env=environment(**variables),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def start_python(*arguments, **variables):
    """Start `python ARGUMENTS`, with a pipe for each of its streams."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(**variables), text=True, **pipes)


def start_on_cpu(backend, *arguments, **variables):
    """Start `python ARGUMENTS` on a backend of Keras, without a GPU if there is one."""
    cpu = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return start_python(*arguments, **{"KERAS_BACKEND": backend, **cpu, **variables})
