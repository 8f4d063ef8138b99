"""A Ray cluster of two nodes on the loopback interface."""

import os

import pytest

CPUS = 1  # of a node


@pytest.fixture(scope="module")
def cluster():
    """Two raylets of one CPU each; `cluster.address` joins them."""
    before = dict(os.environ)
    os.environ.update(
        RAY_USAGE_STATS_ENABLED="0",
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
        RAY_worker_niceness="0",  # with Ray's 15 they starve beside other work
    )
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS})
    cluster.add_node(num_cpus=CPUS)
    yield cluster
    cluster.shutdown()
    os.environ.clear()
    os.environ.update(before)
