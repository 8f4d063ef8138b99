"""Preparation for training: devices, precision, random numbers and compiled programs."""

import contextlib
import hashlib
import os
import platform
from pathlib import Path

import keras

from keras_transformer.argument_checks import check_positive_int, python_number
from keras_transformer.decoding.compiled_calls import compiles_with_xla
from keras_transformer.files import note
from keras_transformer.installation import backend_name, held_stderr, user_cache, without_logs
from keras_transformer.text.sentencepiece_model import fields
from keras_transformer.training.devices.devices import Devices

_FIRST_GPU_WITH_BFLOAT16 = (8, 0)  # compute capability of NVIDIA Ampere
_made_deterministic = False  # for TensorFlow's operations; cannot be undone


def start_devices(replicas: int | None = None) -> Devices:
    """Find and start the devices for training.

    Call this function before anything is computed: a backend that has started cannot add devices or
    join other machines. Several machines find each other through environment variables: on
    TensorFlow, through `TF_CONFIG` or the variables set by Slurm; on JAX, through
    `KERAS_DISTRIBUTION_JOB_ADDRESSES`, `KERAS_DISTRIBUTION_NUM_PROCESSES` and
    `KERAS_DISTRIBUTION_PROCESS_ID`, or the variables set by Slurm and Open MPI. The machines wait
    for each other in this call. They must draw the same random numbers: call
    `keras.utils.set_random_seed` with the same seed on each machine.

    Args:
        replicas: positive integer, number of devices to use on this machine. Each device trains a
            copy of the model on its share of each batch. Without a GPU, the CPU is divided into
            this many devices. Defaults to all GPUs, or the CPU as one device.

    Returns:
        The devices of all machines.

    Raises:
        UserInputError: the machine has fewer GPUs than `replicas`, the environment does not
            describe a group of machines, or Keras's backend is neither TensorFlow nor JAX.
        ValueError: `replicas` is not a positive integer.
        RuntimeError: the backend has already started with fewer devices.

    Example:

    ```python
    devices = start_devices(replicas=2)
    with devices.scope():
        model = training_model(build_transformer(vocabulary_size=8000))
        model.compile(transformer_adam(hidden_dim=512), LabelSmoothingCrossEntropy(0.1))
    model.fit(devices.batches(reader), steps_per_epoch=1000)  # `reader`: a `data.BatchReader`
    devices.stop()
    ```
    """
    if replicas is not None:
        check_positive_int("replicas", replicas)
    if backend_name() == "jax":
        from keras_transformer.training.devices.jax_devices import is_one_of_several, start
    else:
        from keras_transformer.training.devices.tensorflow_devices import is_one_of_several, start
    if is_one_of_several():
        note("Waiting for the other machines")
    with without_logs():
        return start(python_number(replicas))


def make_reproducible(seed: int, deterministic: bool = True) -> None:
    """Seed all random generators and, optionally, make operations deterministic.

    With both, two CPU training runs with the same seed on one machine have bit-identical losses.
    With only the seed, the random numbers are the same, but rounding makes losses slowly diverge.
    Call this function before building the model. JAX operations on a CPU are always deterministic.

    Args:
        seed: seed for all generators.
        deterministic: whether to make TensorFlow operations deterministic, which is slower.
    """
    # Keras also seeds TensorFlow if installed, and imports it for this purpose on JAX.
    global _made_deterministic
    with held_stderr():
        keras.utils.set_random_seed(seed)
    if deterministic and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
        _made_deterministic = True


def compiles_by_default() -> bool:
    """Whether XLA compiles training steps by default, as in decoding.

    TensorFlow operations are not compiled if `make_reproducible` has made them deterministic. This
    function does not start any devices, because devices may have to be divided first.
    """
    if keras.backend.backend() != "tensorflow":
        return compiles_with_xla()
    import tensorflow as tf

    with without_logs():
        kinds = {device.device_type for device in tf.config.list_physical_devices()}
    return compiles_with_xla(bool(kinds & {"GPU", "TPU"}) and not _made_deterministic)


def fastest_precision() -> str:
    """Return the dtype policy for the fastest training on this machine without loss of quality.

    Returns:
        `"mixed_bfloat16"` if the devices have hardware for bfloat16 multiplication: TPUs, NVIDIA
        GPUs since Ampere and, on TensorFlow, CPUs with AMX. Otherwise, `"float32"`.
    """
    is_jax = keras.backend.backend() == "jax"
    kinds = {name.split(":")[0].lower() for name in keras.distribution.list_devices()}
    if "tpu" in kinds:
        is_fast = True
    elif kinds & {"gpu", "cuda"}:
        capabilities = _jax_gpus() if is_jax else _tensorflow_gpus()
        is_fast = all(capability >= _FIRST_GPU_WITH_BFLOAT16 for capability in capabilities)
    else:
        is_fast = not is_jax and "amx_bf16" in processor_flags()
    return "mixed_bfloat16" if is_fast else "float32"


def _tensorflow_gpus() -> list[tuple[int, ...]]:
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [detail.get("compute_capability", (0, 0)) for detail in details]


def _jax_gpus() -> list[tuple[int, ...]]:
    import jax

    texts = [getattr(device, "compute_capability", "0.0") for device in jax.local_devices()]
    return [tuple(int(number) for number in text.split(".")) for text in texts]


def processor_flags() -> list[str]:
    """Return the processor's feature flags on Linux; an empty list on other systems."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split() for line in lines if line.startswith("flags")), [])
    except OSError:
        return []


MOST_BYTES = 4 << 30  # limit for JAX programs; the least recently used are removed
_TENSORFLOW_FLAG = "--tf_xla_persistent_cache_directory"
_FIELDS = {1, 2, 3}  # of an XlaSerializedCacheEntry


def keep_compiled_programs() -> Path | None:
    """Make the backend store and reuse compiled XLA programs in the user's cache folder.

    Programs are stored in `keras_transformer/compiled` under `$XDG_CACHE_HOME` or `~/.cache`, in a
    separate folder per backend version and processor type. A note on stderr names a newly created
    folder. A folder set by the user takes precedence: `JAX_COMPILATION_CACHE_DIR`, or
    `--tf_xla_persistent_cache_directory` in `TF_XLA_FLAGS`. Call this before anything is compiled.

    Returns:
        The folder, or None if the user has set a different folder or the folder cannot be created.
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
        _remove_damaged(folder)
        os.environ["TF_XLA_FLAGS"] = f"{flags} {_TENSORFLOW_FLAG}={folder}".strip()
    return folder


def _remove_damaged(folder: Path) -> None:
    """Remove programs that were truncated by a power failure, which would make TensorFlow fail."""
    for path in folder.glob("xla_compile_cache_*.pb"):
        with contextlib.suppress(OSError):
            try:
                found = {number for (number, _), _ in fields(path.read_bytes())}
            except (IndexError, ValueError):
                found = set()
            if not found >= _FIELDS:
                path.unlink()


def _folder(version: str) -> Path | None:
    """Return the folder for a backend version on this processor type; None without permission."""
    processor = hashlib.sha256(" ".join(processor_flags()).encode()).hexdigest()[:8]
    folder = user_cache("compiled") / f"{version}-{platform.machine()}-{processor}"
    try:
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    if is_new:
        note(f"Keeping XLA's compiled programs in {folder}")
    return folder
