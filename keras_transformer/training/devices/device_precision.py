"""The precision that a machine's devices train fastest in."""

import keras

_FIRST_GPU_WITH_BFLOAT16 = (8, 0)  # compute capability of NVIDIA's Ampere


def fastest_precision() -> str:
    """The dtype policy that this machine's devices train fastest in, at the same quality.

    Returns:
        `"mixed_bfloat16"` where the devices have hardware to multiply bfloat16: TPUs, NVIDIA GPUs
        from Ampere on and, on TensorFlow, CPUs with AMX. Otherwise `"float32"`.
    """
    is_jax = keras.backend.backend() == "jax"
    kinds = {name.split(":")[0].lower() for name in keras.distribution.list_devices()}
    if "tpu" in kinds:
        is_fast = True
    elif kinds & {"gpu", "cuda"}:
        capabilities = _jax_gpus() if is_jax else _tensorflow_gpus()
        is_fast = all(capability >= _FIRST_GPU_WITH_BFLOAT16 for capability in capabilities)
    else:
        is_fast = not is_jax and "amx_bf16" in _processor_flags()
    return "mixed_bfloat16" if is_fast else "float32"


def _tensorflow_gpus() -> list[tuple[int, ...]]:
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [detail.get("compute_capability", (0, 0)) for detail in details]


def _jax_gpus() -> list[tuple[int, ...]]:
    import jax

    texts = [getattr(device, "compute_capability", "0.0") for device in jax.local_devices()]
    return [tuple(int(number) for number in text.split(".")) for text in texts]


def _processor_flags() -> list[str]:
    """What the processor can do, in Linux's words; nothing elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split() for line in lines if line.startswith("flags")), [])
    except OSError:
        return []
