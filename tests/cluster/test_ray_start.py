"""A cluster that a command starts for itself."""

import json
import os
import subprocess
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cluster.ray_start import ray_cluster

LISTENING = """
import json, os, psutil
from keras_transformer.toolkit.cluster.ray_start import ray_cluster

before = dict(os.environ)
with ray_cluster("local") as ray:
    assert ray.get(ray.remote(lambda: 1).remote()) == 1
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    sockets = [one for process in processes for one in process.net_connections("inet")]
    listening = {one.laddr.ip for one in sockets if one.status == psutil.CONN_LISTEN}
    commands = [" ".join(process.cmdline()) for process in processes]
added = {name: value for name, value in os.environ.items() if before.get(name) != value}
print(json.dumps([sorted(listening), commands, added]))
"""


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
def test_it_listens_on_loopback_alone_without_telemetry():
    environment = {name: x for name, x in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-c", LISTENING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    addresses, commands, added = json.loads(done.stdout)
    assert {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
    assert any("raylet" in command for command in commands)
    pages = [command for command in commands if "dashboard/dashboard.py" in command]
    assert pages
    assert all("--disable-frontend" in command for command in pages)
    assert added["RAY_USAGE_STATS_ENABLED"] == "0"


def test_it_does_not_listen_elsewhere_because_ray_was_imported_before(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", raising=False)
    with pytest.raises(UserInputError, match="CLUSTER=0 before `import ray`"), ray_cluster("local"):
        pass


def test_a_cluster_that_nobody_answers_for_is_one_line():
    pytest.importorskip("ray")
    with (
        pytest.raises(UserInputError, match="The Ray cluster localhost:1 cannot be joined"),
        ray_cluster("localhost:1"),
    ):
        pass
