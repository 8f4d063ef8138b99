"""The scores of a program after a given training time."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.engines import KEPT_MEMORY
from keras_transformer.evaluation import bleu, chrf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """The result of a program.

    Args:
        program: name of the program.
        minutes: requested training time in minutes.
        trained_minutes: actual training time in minutes.
        updates: number of weight updates.
        parameters: number of weights.
        target_tokens_per_second: training speed, without padding.
        averaged_checkpoints: number of checkpoints averaged for decoding.
        alpha: exponent of the length penalty, chosen on the dev text.
        bleu, chrf: scores on the dev text, from 0 to 100.
        bleu_signature, chrf_signature: sacrebleu signatures.
        commands: command lines for training and decoding.
        details: other values reported by the program.
    """

    program: str
    minutes: float
    trained_minutes: float
    updates: int
    parameters: int
    target_tokens_per_second: float
    averaged_checkpoints: int
    alpha: float
    bleu: float
    chrf: float
    bleu_signature: str
    chrf_signature: str
    commands: list[str]
    details: dict[str, Any]


def scores(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    """Return BLEU (13a), chrF and their signatures, with the field names of `Measurement`.

    Example:
        >>> round(scores(["Das ist ein Haus ."], ["Das ist ein Haus ."])["bleu"], 6)
        100.0
    """
    bleu_score, bleu_signature = bleu(hypotheses, references)
    chrf_score, chrf_signature = chrf(hypotheses, references)
    return {
        "bleu": bleu_score,
        "bleu_signature": bleu_signature,
        "chrf": chrf_score,
        "chrf_signature": chrf_signature,
    }


def environment(threads: int) -> dict[str, str]:
    """Return environment variables for both programs: number of threads and memory retention."""
    number = str(threads)
    return {
        **os.environ,
        "OMP_NUM_THREADS": number,
        "MKL_NUM_THREADS": number,
        "TF_NUM_INTRAOP_THREADS": number,
        "TF_NUM_INTEROP_THREADS": number,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        **KEPT_MEMORY,
    }
