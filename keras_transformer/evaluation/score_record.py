"""The record of a measured score: what was measured, by which command, on which machine."""

from keras_transformer.runs.environment import machine, package_versions


def score_record(*, seconds, target_tokens_per_second, command, **results):
    """The content of a run's `scores.json`.

    Args:
        seconds: duration of the training.
        target_tokens_per_second: real target tokens (no padding) trained on in a second.
        command: the command line of the run.
        **results: what was measured, such as `bleu` and sacrebleu's `signature` of it.

    Returns:
        A dict fit for JSON; `versions` and `machine` are added.
    """
    return {
        **results,
        "seconds": seconds,
        "target_tokens_per_second": target_tokens_per_second,
        "command": command,
        "versions": package_versions(),
        "machine": machine(),
    }
