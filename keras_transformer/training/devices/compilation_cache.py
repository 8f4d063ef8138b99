"""Programs that XLA has compiled, kept on disk: a second training of the same sizes has them."""

import hashlib
import os
import platform
from pathlib import Path

import keras

from keras_transformer.files.standard_streams import note
from keras_transformer.training.devices.device_start import processor_flags

MOST_BYTES = 4 << 30  # of JAX's programs; the ones used longest ago go
_TENSORFLOW_FLAG = "--tf_xla_persistent_cache_directory"


def keep_compiled_programs() -> Path | None:
    """Let the backend keep what XLA compiles, and find it again, in the user's cache folder.

    The folder is `keras_transformer/compiled` in `$XDG_CACHE_HOME`, or in `~/.cache`, with one for
    each version of the backend and kind of processor in it. It is named on stderr when it is made.
    A folder of the user's own is left as it is: `JAX_COMPILATION_CACHE_DIR`, or
    `--tf_xla_persistent_cache_directory` in `TF_XLA_FLAGS`. Call it before anything is compiled.

    Returns:
        The folder; None if the user has another one, or if it cannot be made.
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
        note(f"What XLA compiles is kept in {folder}")
    return folder
