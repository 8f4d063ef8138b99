"""Peak memory of a program's devices."""

import keras


def peak_device_memory() -> int | None:
    """Return the most bytes in use at once on one device of this process; None if unknown."""
    peaks = _jax_peaks() if keras.backend.backend() == "jax" else _tensorflow_peaks()
    return max(peaks, default=None)


def _jax_peaks() -> list[int]:
    import jax

    accounts = [device.memory_stats() or {} for device in jax.local_devices()]
    return [account["peak_bytes_in_use"] for account in accounts if "peak_bytes_in_use" in account]


def _tensorflow_peaks() -> list[int]:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    return [tf.config.experimental.get_memory_info(device.name)["peak"] for device in devices]
