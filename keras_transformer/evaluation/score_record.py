"""The record of measured scores, with the command and the machine."""

from typing import Any

from keras_transformer.runs.environment import machine, package_versions


def score_record(
    *, seconds: float, target_tokens_per_second: float, command: str, **results: object
) -> dict[str, Any]:
    """Make the content of a run's `scores.json`.

    Args:
        seconds: duration of the training.
        target_tokens_per_second: target tokens trained on per second, without padding.
        command: the command line of the run.
        **results: JSON-compatible results, such as `bleu` and sacrebleu's `signature` of it.

    Returns:
        A JSON-compatible dictionary of these, `versions` and `machine`.
    """
    return {
        **results,
        "seconds": seconds,
        "target_tokens_per_second": target_tokens_per_second,
        "command": command,
        "versions": package_versions(),
        "machine": machine(),
    }
