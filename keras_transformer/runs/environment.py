"""What a result depends on besides the code: library versions and the machine."""

import importlib.metadata
import os
import platform
from typing import Any

from keras_transformer.distribution import __version__, distribution_name

# The libraries that can change a score or a speed, besides this one.
RECORDED_PACKAGES = (
    "keras",
    "tensorflow",
    "tensorflow-text",
    "jax",
    "numpy",
    "sentencepiece",
    "sacrebleu",
    "sacremoses",
)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of recorded packages, if installed, and Keras's backend."""
    import keras  # takes seconds, and is not needed to read a run's files

    versions = {
        "python": platform.python_version(),
        "backend": keras.backend.backend(),
        distribution_name(): __version__,
    }
    for name in RECORDED_PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def machine() -> dict[str, Any]:
    """Return the processor, its number of cores, the backend's devices and the system."""
    import keras

    return {
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "devices": keras.distribution.list_devices(),
        "system": platform.platform(),
    }


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.machine()
