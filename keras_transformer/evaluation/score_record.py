"""The record of a measured score: what was measured, by which command, on which machine."""

from keras_transformer.runs.environment import machine, package_versions


def score_record(*, bleu, signature, seconds, target_tokens_per_second, command, **others):
    """The content of a run's `scores.json`.

    Args:
        bleu: BLEU from 0 to 100.
        signature: sacrebleu's signature of that score.
        seconds: duration of the training.
        target_tokens_per_second: real target tokens (no padding) trained on in a second.
        command: the command line of the run.
        **others: further results, such as `exact_match`.

    Returns:
        A dict fit for JSON; `versions` and `machine` are added.
    """
    return {
        "bleu": bleu,
        "signature": signature,
        **others,
        "seconds": seconds,
        "target_tokens_per_second": target_tokens_per_second,
        "command": command,
        "versions": package_versions(),
        "machine": machine(),
    }
