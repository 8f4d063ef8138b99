"""The processes of a cluster, and of no other one on this computer."""

import subprocess


def processes(cluster, pattern):
    """Numbers of the processes that the cluster's raylets have started, by their command line."""
    raylets = [
        str(info.process.pid)
        for node in cluster.list_all_nodes()
        for info in node.all_processes["raylet"]
    ]
    command = ["pgrep", "--parent", ",".join(raylets), "--full", pattern]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]
