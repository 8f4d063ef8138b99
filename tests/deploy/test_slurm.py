"""Slurm's variables, and its batch script with an `srun` that starts the tasks on this computer."""

import json
import os
import re
import signal
import subprocess

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit.cli import make_parser
from keras_transformer.training.devices.tensorflow_devices import (
    expand_counts,
    expand_nodes,
    slurm_tasks,
)
from tests.deploy import slurm
from tests.deploy.conftest import lint
from tests.external_data import ROOT
from tests.pages.shell import RECORDER, SMALL_PROGRAM, install, write_program
from tests.training.devices.test_machines import ends, losses, wait_for_state
from tests.translation_training.number_text import SMALL, flags, write_pairs

SCRIPT = ROOT / "deploy" / "slurm" / "train.sbatch"
# The arguments of the command that the script's head shows.
SHOWN = re.search(r"^#   sbatch deploy/slurm/train\.sbatch (.+)", SCRIPT.read_text("utf-8"), re.M)
ARGUMENTS = SHOWN[1].split()
# Code that is less optimised is there in half the time.
PAGE = ROOT / "docs" / "scaling.md"
QUICK_XLA = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
TWO_NODES = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "node[09-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_PROCID": "2",
    "SLURM_NODEID": "1",
}


def test_the_page_shows_the_commands_of_the_script():
    shown = re.findall(r"^(?:(\w+)=(\w+) )?sbatch (.+)", PAGE.read_text("utf-8"), re.M)
    assert len(shown) == 2
    head = SCRIPT.read_text("utf-8")
    for variable, value, arguments in shown:
        assert f"{variable}={value}" in ("=", "KERAS_BACKEND=jax")
        options, script, of_the_program = arguments.partition("deploy/slurm/train.sbatch ")
        assert script
        assert of_the_program.split() == ARGUMENTS
        for option in options.split():  # it outranks the script's own
            name, _, number = option.partition("=")
            assert re.search(f"^#SBATCH {name}=", head, re.M)
            assert int(number) > 0


@pytest.fixture
def of_slurm(monkeypatch):
    """Sets variables; no others of Slurm are set."""

    def set_only(**variables):
        own = ("SLURM_", "KERAS_TRANSFORMER_PORT")
        for name in [name for name in os.environ if name.startswith(own)]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_only


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node1", ["node1"]),
        ("node1,gpu-2", ["node1", "gpu-2"]),
        ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
        ("a[9-11],b,c[3]-ib", ["a9", "a10", "a11", "b", "c3-ib"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_lists_of_nodes(text, names):
    assert expand_nodes(text) == names


@pytest.mark.parametrize("text", ["a,,b", "a[1-2", "a]", "a[x]", "a[]"])
def test_a_broken_list_of_nodes_is_refused(text):
    with pytest.raises(ValueError, match=r"not a list of nodes|invalid literal"):
        expand_nodes(text)


def test_tasks_per_node():
    assert expand_counts("3(x2),2,1") == [3, 3, 2, 1]
    with pytest.raises(ValueError, match="not a list of tasks per node"):
        expand_counts("2(3)")


def test_one_task_a_node(of_slurm):
    nodes = {"SLURM_STEP_NODELIST": "node[08-10]", "SLURM_STEP_TASKS_PER_NODE": "1(x3)"}
    of_slurm(**{**TWO_NODES, **nodes, "KERAS_TRANSFORMER_PORT": "4000"})
    os.environ["SLURM_NODEID"] = "2"
    assert slurm_tasks() == (["node08:4000", "node09:4000", "node10:4000"], 2)


def test_several_tasks_a_node(of_slurm):
    of_slurm(**TWO_NODES, KERAS_TRANSFORMER_PORT="4000")
    assert slurm_tasks() == (["node09:4000", "node09:4001", "node10:4000"], 2)


def test_jobs_that_follow_each_other_have_other_ports(of_slurm):
    ports = set()
    for job in range(1, 256):
        of_slurm(**{**TWO_NODES, "SLURM_JOB_ID": str(job)})
        addresses, _ = slurm_tasks()
        ports |= {int(address.split(":")[1]) for address in addresses}
    assert len(ports) == 2 * 255
    assert min(ports) > 60999  # the last that Linux gives to outgoing connections
    assert max(ports) <= 65535


def test_many_tasks_a_node_have_ports_in_every_job(of_slurm):
    nodes = {
        "SLURM_STEP_NUM_TASKS": "64",
        "SLURM_STEP_NODELIST": "node[08-09]",
        "SLURM_STEP_TASKS_PER_NODE": "32(x2)",
        "SLURM_PROCID": "0",
        "SLURM_NODEID": "0",
    }
    ports = []
    for job in range(500, 520):
        of_slurm(**{**TWO_NODES, **nodes, "SLURM_JOB_ID": str(job)})
        addresses, _ = slurm_tasks()
        ports += [int(address.split(":")[1]) for address in addresses if "node08" in address]
    assert len(set(ports)) == len(ports) == 20 * 32
    assert max(ports) <= 65535


@pytest.mark.tensorflow
def test_the_addresses_are_those_of_tensorflows_resolver(of_slurm):
    import tensorflow as tf

    of_slurm(**TWO_NODES, KERAS_TRANSFORMER_PORT="8888")
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=2, gpus_per_task=1, auto_set_gpu=False
    )
    addresses, task = slurm_tasks()
    assert resolver.cluster_spec().as_dict() == {"worker": addresses}
    assert resolver.get_task_info() == ("worker", task)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_NODELIST": "a[1-2]"},  # salloc's shell
        {**TWO_NODES, "SLURM_STEP_NUM_TASKS": "1"},  # srun --ntasks=1
    ],
    ids=["no Slurm", "salloc", "one task"],
)
def test_a_single_task_trains_alone(variables, of_slurm):
    from keras_transformer.training import start_devices

    of_slurm(**variables)
    assert slurm_tasks() == ([], 0)
    assert start_devices().processes == 1


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_STEP_NODELIST": "node[9-"},
        {"SLURM_STEP_TASKS_PER_NODE": "2"},
        {"SLURM_STEP_NUM_TASKS": "4"},
        {"SLURM_PROCID": "3"},
        {"SLURM_PROCID": "1"},  # of --distribution=cyclic
    ],
    ids=str,
)
@pytest.mark.tensorflow
def test_variables_that_do_not_fit_are_refused(variables, of_slurm):
    from keras_transformer.training import start_devices

    of_slurm(**{**TWO_NODES, **variables})
    name, value = next(iter(variables.items()))
    with pytest.raises(UserInputError, match="in the order of their nodes") as caught:
        start_devices()
    assert f"{name}={value}" in str(caught.value)


@pytest.mark.parametrize("port", ["0", "x", "65535"])
def test_a_port_must_be_one(port, of_slurm):
    of_slurm(**TWO_NODES, KERAS_TRANSFORMER_PORT=port)
    with pytest.raises(UserInputError, match="KERAS_TRANSFORMER_PORT must be a port from 1 to"):
        slurm_tasks()


def submit(folder, *arguments, **variables):
    """Start the batch script in a folder."""
    return subprocess.Popen(
        ["bash", str(SCRIPT), *arguments],
        cwd=folder,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def options_of_sbatch():
    lines = [line.split() for line in SCRIPT.read_text("utf-8").splitlines()]
    return dict(line[1].lstrip("-").partition("=")[::2] for line in lines if "#SBATCH" in line[:1])


def test_sbatch_asks_for_a_signal_to_the_tasks_and_may_start_the_job_again():
    options = options_of_sbatch()
    assert options["signal"] == "TERM@300"  # without "B:", which would signal the script alone
    assert {"requeue", "time", "nodes", "ntasks-per-node"} <= set(options)


@pytest.mark.parametrize(("code", "requeued"), [(0, False), (2, False), (143, True)])
def test_the_script_starts_again_what_was_told_to_stop(code, requeued, tmp_path):
    variables = slurm.install(tmp_path, tasks=1)
    program = "#!/bin/bash\nexit {code}\n"
    write_program(tmp_path / "programs" / "keras-transformer", program, code=code)
    assert ends(submit(tmp_path, **variables))[0] == code
    path = tmp_path / "scontrol"
    assert (path.read_text() if path.exists() else None) == (
        f"requeue {slurm.JOB}" if requeued else None
    )


def test_every_task_runs_the_same_command_with_all_gpus_of_its_node(tmp_path):
    calls = tmp_path / "calls"
    calls.mkdir()
    recorder = RECORDER.replace('"KERAS_"', '"KERAS_BACKEND", "JAX_LOCAL", "SRUN_"')
    variables = slurm.install(tmp_path, tasks=1)
    install(tmp_path / "programs", recorder, calls=str(calls))
    variables |= {"KERAS_BACKEND": "jax", "SLURM_GPUS_ON_NODE": "4", "SLURM_CPUS_PER_TASK": "16"}
    text = ["--source", "a b.en", "--target", "a b.de", "--run", "run"]
    assert ends(submit(tmp_path, *text, **variables))[0] == 0
    call = json.loads((calls / "0.json").read_text())
    assert call["arguments"] == ["train", *text, "--resume"]
    make_parser().parse_args(call["arguments"])
    assert call["environment"] == {
        "KERAS_BACKEND": "jax",
        "JAX_LOCAL_DEVICE_IDS": "0,1,2,3",
        "SRUN_CPUS_PER_TASK": "16",
    }


def test_shellcheck_finds_nothing():
    assert lint("shellcheck", SCRIPT) == (0, "")


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_two_tasks_train_one_model_and_go_on_after_the_time_limit(backend, tmp_path):
    variables = slurm.install(tmp_path, tasks=2)
    small = {**SMALL, "save_every": 5, "log_every": 1, "beam_size": 1, "probe": False}
    del small["steps"]
    environment = install(tmp_path / "programs", SMALL_PROGRAM, small=flags(**small))
    del environment["PATH"]
    variables |= environment | {"KERAS_BACKEND": backend}
    if backend == "jax":
        variables["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_XLA}"
    write_pairs(tmp_path, "train", stop=100)
    command = [*ARGUMENTS, "--steps"]
    run = tmp_path / "runs" / "en_de"

    job = submit(tmp_path, *command, "100000", **variables)
    wait_for_state(run, [job])
    for task in (tmp_path / "tasks").read_text().split():
        os.kill(int(task), signal.SIGTERM)
    code, _, errors = ends(job)
    assert code == 143, errors
    assert (tmp_path / "scontrol").read_text() == f"requeue {slurm.JOB}"
    done = len(losses(run))

    code, _, errors = ends(submit(tmp_path, *command, str(done + 5), **variables))
    assert code == 0, errors
    assert len(losses(run)) == done + 5
    assert [path.parent for path in tmp_path.glob("**/metrics.csv")] == [run]
    scores = json.loads(RunDirectory(run).scores_path.read_text("utf-8"))
    assert scores["training_cost"]["devices"] == 2
