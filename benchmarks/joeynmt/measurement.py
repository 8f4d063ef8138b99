"""The scores of a program after some minutes of training."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.engines import KEPT_MEMORY
from keras_transformer.evaluation import bleu, chrf


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """What a program reached.

    Args:
        program: name of the program.
        minutes: the minutes that were asked for.
        trained_minutes: of the training itself.
        updates: of the weights.
        parameters: number of weights.
        target_tokens_per_second: trained on, without padding.
        averaged_checkpoints: checkpoints whose mean translated.
        alpha: exponent of the length penalty, chosen on the dev text.
        bleu, chrf: on the dev text, from 0 to 100.
        bleu_signature, chrf_signature: sacrebleu's.
        commands: command lines of the training and of the search.
        details: what else the program told.
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
    """BLEU (13a) and chrF with their signatures, by the names of a `Measurement`.

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
    """Environment variables of both programs: so many threads, and memory that is kept."""
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
