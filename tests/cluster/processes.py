"""The processes of a cluster, and of no other one on this computer."""

import subprocess


def processes(cluster, pattern, *nodes):
    """Numbers of the processes that raylets have started, by their command line.

    The raylets are those of the nodes, or of the whole cluster.
    """
    raylets = [
        str(info.process.pid)
        for node in nodes or cluster.list_all_nodes()
        for info in node.all_processes["raylet"]
    ]
    command = ["pgrep", "--parent", ",".join(raylets), "--full", pattern]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]
