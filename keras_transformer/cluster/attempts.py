"""Counting what workers begin, so that work that ends its workers is given up."""

from collections import Counter
from types import ModuleType
from typing import Any

MOST = 4  # Spark's default


class Attempts:
    """How often workers began to load their model, and each block, without a result.

    Ray starts a worker that died again, and repeats its block, without limit. Its own limits also
    count the tries to reach a machine that was lost.

    Args:
        num_workers: number of workers, which all load at the beginning.

    Example:
        >>> attempts = Attempts(num_workers=2)
        >>> [attempts.begin_block(0, 7) for _ in range(5)]
        [True, True, True, True, False]
        >>> attempts.begin_block(0, 8)
        True
    """

    def __init__(self, num_workers: int) -> None:
        self._most_loads = MOST * num_workers
        self._loads = 0
        self._blocks: Counter[tuple[int, int]] = Counter()

    def begin_load(self) -> bool:
        """Whether a worker may load its model: not if it never gets further."""
        self._loads += 1
        return self._loads <= self._most_loads

    def begin_block(self, file: int, block: int) -> bool:
        """Whether a worker may answer a block: not if it ended others."""
        self._loads = 0  # as this worker has loaded
        self._blocks[file, block] += 1
        return self._blocks[file, block] <= MOST


def start_attempts(ray: ModuleType, num_workers: int) -> Any:
    """Handle of an `Attempts` on this machine, which ends when the handle is dropped."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    options = {"num_cpus": 0, "scheduling_strategy": here, "max_restarts": -1}
    return ray.remote(Attempts).options(**options, max_task_retries=-1).remote(num_workers)
