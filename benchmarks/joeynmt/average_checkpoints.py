"""Averages JoeyNMT checkpoints. JoeyNMT's Python runs this file, so it imports little.

JoeyNMT's repository contains a script for this purpose, but its package does not.
"""

import json
import sys
from typing import Any


def mean_state(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean weights of several checkpoints, computed in float64.

    Args:
        states: `state_dict`s of a model. Non-float tensors are taken from the last one.
    """
    mean = dict(states[-1])
    for name, last in mean.items():
        if last.is_floating_point():
            total = sum(state[name].double() for state in states)
            mean[name] = (total / len(states)).to(last.dtype)
    return mean


def main(paths: list[str]) -> None:
    """Write the mean to the first path, and print information about the last checkpoint."""
    import torch

    output, inputs = paths[0], paths[1:]
    states = []
    for path in inputs:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
        states.append(checkpoint["model_state"])
    torch.save({"model_state": mean_state(states)}, output)
    stats = checkpoint["stats_state"]
    facts = {"updates": stats["steps"], "target_tokens": stats["total_tokens"]}
    print(json.dumps({**facts, "torch": torch.__version__}))


if __name__ == "__main__":
    main(sys.argv[1:])
