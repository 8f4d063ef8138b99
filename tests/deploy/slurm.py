"""Slurm's `srun` and `scontrol` on one computer: the tasks get the variables that Slurm sets."""

import os
import socket

from tests.pages.shell import write_program

JOB = "1234"
# Starts as many tasks as SLURM_NTASKS says and ends as srun does, with the highest exit code.
SRUN = """#!{python}
import itertools, os, pathlib, subprocess, sys
folder, arguments = pathlib.Path({folder!r}), sys.argv[1:]
(folder / "srun").write_text(" ".join(arguments))
command = list(itertools.dropwhile(lambda word: word.startswith("--"), arguments))
count = os.environ["SLURM_NTASKS"]
step = {{
    "SLURM_STEP_NUM_TASKS": count,
    "SLURM_STEP_NUM_NODES": "1",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_STEP_TASKS_PER_NODE": count,
    "SLURM_NODEID": "0",
}}
tasks = []
for number in map(str, range(int(count))):
    own = {{"SLURM_PROCID": number, "SLURM_LOCALID": number}}
    tasks.append(subprocess.Popen(command, env={{**os.environ, **step, **own}}))
(folder / "tasks").write_text(" ".join(str(task.pid) for task in tasks))
codes = [task.wait() for task in tasks]
sys.exit(max(code if code >= 0 else 128 - code for code in codes))
"""
SCONTROL = """#!{python}
import pathlib, sys
pathlib.Path({folder!r}, "scontrol").write_text(" ".join(sys.argv[1:]))
"""


def install(folder, tasks):
    """Write both programs into a folder; returns the variables of a job of so many tasks.

    The programs leave files there: `srun` and `scontrol`, their arguments, and `tasks`, the process
    ids of the tasks.
    """
    programs = folder / "programs"
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        write_program(programs / name, text, folder=str(folder))
    port = str(free_port(tasks))
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SLURM_JOB_ID": JOB,
        "SLURM_NTASKS": str(tasks),
        "SLURM_CPUS_PER_TASK": "1",
        "KERAS_TRANSFORMER_PORT": port,
        "JAX_COORDINATOR_PORT": port,
    }


def free_port(count):
    """The first of so many ports in a row on which nobody listens."""
    while True:
        sockets = [socket.socket() for _ in range(count)]
        try:
            sockets[0].bind(("127.0.0.1", 0))
            first = sockets[0].getsockname()[1]
            for offset, each in enumerate(sockets[1:], 1):
                each.bind(("127.0.0.1", first + offset))
            return first
        except (OSError, OverflowError):
            continue
        finally:
            for each in sockets:
                each.close()
