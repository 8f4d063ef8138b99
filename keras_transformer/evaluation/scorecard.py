"""The record of a measured score: what was measured, by which command, on which machine."""

import importlib.metadata
import os
import platform

import keras

# The libraries that can change a score or a speed.
VERSIONED = (
    "keras-transformer", "keras", "tensorflow", "tensorflow-text", "jax", "numpy", "sentencepiece",
    "sacrebleu",
)  # fmt: skip


def scorecard(*, bleu, signature, seconds, target_tokens_per_second, command, **others):
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
        "versions": versions(),
        "machine": machine(),
    }


def versions():
    """Version of Python, of the backend in use and of the libraries that matter here."""
    found = {"python": platform.python_version(), "backend": keras.backend.backend()}
    for name in VERSIONED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None  # not installed
    return found


def machine():
    """Processor, number of its cores, the backend's devices and the system."""
    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "devices": keras.distribution.list_devices(),
        "system": platform.platform(),
    }


def _processor_name():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
