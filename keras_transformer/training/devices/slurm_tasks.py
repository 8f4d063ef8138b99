"""The tasks that Slurm's `srun` started together, read from the variables that it sets."""

import itertools
import os
import re

from keras_transformer.errors import UserInputError

NUM_TASKS = "SLURM_STEP_NUM_TASKS"
NODES = "SLURM_STEP_NODELIST"
TASKS_PER_NODE = "SLURM_STEP_TASKS_PER_NODE"
TASK = "SLURM_PROCID"
NODE = "SLURM_NODEID"
JOB = "SLURM_JOB_ID"
PORT = "KERAS_TRANSFORMER_PORT"

# Ports of tasks, unless PORT names the first: above the ports that Linux gives to outgoing
# connections, and 16 consecutive ones for each job, so that two jobs can share a node.
_FIRST_PORT, _LAST_PORT, _PORTS_OF_A_JOB = 61440, 65535, 16


def slurm_tasks() -> tuple[list[str], int]:
    """Return the addresses of all tasks of this `srun`, and the number of this task.

    The list is empty if `srun` started a single task or none, as in the shell of `salloc`.
    Tasks are expected in the order of their nodes, as `srun --distribution=block` starts them: task
    0 is the first of the first node. The tasks on a node listen on consecutive ports.

    Raises:
        UserInputError: the variables do not describe a group of tasks.

    Reference: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    """
    if os.environ.get(NUM_TASKS, "1") == "1":
        return [], 0
    try:
        nodes = expand_nodes(os.environ[NODES])
        counts = expand_counts(os.environ[TASKS_PER_NODE])
        places = [
            (node, place)
            for node, count in zip(range(len(nodes)), counts, strict=True)
            for place in range(count)
        ]
        task = int(os.environ[TASK])
        node, _ = places[task]
        if len(places) != int(os.environ[NUM_TASKS]) or node != int(os.environ.get(NODE, node)):
            raise ValueError
    except (KeyError, ValueError, IndexError) as error:
        names = (NUM_TASKS, NODES, TASKS_PER_NODE, TASK, NODE)
        received = ", ".join(f"{name}={os.environ.get(name)}" for name in names)
        raise UserInputError(
            "The variables of Slurm must describe tasks in the order of their nodes, as `srun "
            f"--distribution=block` starts them. Received: {received}"
        ) from error
    port = _first_port(max(counts))
    return [f"{nodes[node]}:{port + place}" for node, place in places], task


def expand_nodes(text: str) -> list[str]:
    """Return the names in a list of nodes, in its order.

    Example:
        >>> expand_nodes("node[01-03,07],gpu1")
        ['node01', 'node02', 'node03', 'node07', 'gpu1']
    """
    entries = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if ",".join(entries) != text:
        raise ValueError(f"not a list of nodes: {text}")
    return [node for entry in entries for node in _expand(entry)]


def expand_counts(text: str) -> list[int]:
    """Return the number of tasks of each node.

    Example:
        >>> expand_counts("2(x3),1")
        [2, 2, 2, 1]
    """
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise ValueError(f"not a list of tasks per node: {text}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _expand(entry):
    """The names of an entry such as `node[01-03,07]`, which may have several brackets."""
    parts = re.split(r"\[(.*?)\]", entry)  # every second part was between brackets
    choices = [_numbers(part) if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def _numbers(ranges):
    """The numbers of `01-03,07` as texts, with their leading zeros."""
    found = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        found += [str(number).zfill(len(first)) for number in numbers]
    return found


def _first_port(tasks_of_a_node):
    text = os.environ.get(PORT) or str(_FIRST_PORT + _offset_of_the_job(tasks_of_a_node))
    last = _LAST_PORT - tasks_of_a_node + 1
    if not text.isdecimal() or not 1 <= int(text) <= last:
        raise UserInputError(
            f"{PORT} must be a port from 1 to {last}, the first of the {tasks_of_a_node} of a "
            f"node. Received: {text}"
        )
    return int(text)


def _offset_of_the_job(tasks_of_a_node):
    ports = max(_PORTS_OF_A_JOB, tasks_of_a_node)
    job = os.environ.get(JOB, "")
    number = int(job) if job.isdecimal() else 0
    return number % max(1, (_LAST_PORT + 1 - _FIRST_PORT) // ports) * ports
