"""XLA's compiled programs, kept on disk for later trainings with the same sizes."""

import hashlib
import os
import platform
from pathlib import Path

import keras

from keras_transformer.files.standard_streams import note
from keras_transformer.training.devices.device_start import processor_flags

MOST_BYTES = 4 << 30  # of JAX's programs; the least recently used ones are removed
_TENSORFLOW_FLAG = "--tf_xla_persistent_cache_directory"


def keep_compiled_programs() -> Path | None:
    """Let the backend keep XLA's compiled programs in the user's cache folder, and reuse them.

    The folder is in `keras_transformer/compiled`, in `$XDG_CACHE_HOME` or `~/.cache`; each version
    of the backend and kind of processor has its own. It is named on stderr when it is created. A
    folder that the user has set is kept: `JAX_COMPILATION_CACHE_DIR`, or
    `--tf_xla_persistent_cache_directory` in `TF_XLA_FLAGS`. Call it before anything is compiled.

    Returns:
        The folder; None if the user has set another one, or if it cannot be created.
    """
    if keras.backend.backend() == "jax":
        import jax

        if jax.config.values["jax_compilation_cache_dir"] is not None:
            return None
        folder = _folder(f"jax-{jax.__version__}")
        if folder is not None:
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
        return folder
    flags = os.environ.get("TF_XLA_FLAGS", "")
    if _TENSORFLOW_FLAG in flags:
        return None
    import tensorflow as tf

    folder = _folder(f"tensorflow-{tf.__version__}")
    if folder is not None:
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_TENSORFLOW_FLAG}={folder}".strip()
    return folder


def _folder(version: str) -> Path | None:
    """The folder of a backend's version on processors like this one; None without permission."""
    processor = hashlib.sha256(" ".join(processor_flags()).encode()).hexdigest()[:8]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(
        cache, "keras_transformer", "compiled", f"{version}-{platform.machine()}-{processor}"
    )
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if is_new:
        note(f"XLA's compiled programs are kept in {folder}")
    return folder
