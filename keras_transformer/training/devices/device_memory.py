"""How much memory of its devices a program has used."""

import keras


def peak_device_memory():
    """Return the most bytes that were in use at once on one device of this process.

    None where the backend does not keep account of it, as on a CPU.
    """
    peaks = _jax_peaks() if keras.backend.backend() == "jax" else _tensorflow_peaks()
    return max(peaks, default=None)


def _jax_peaks():
    import jax

    accounts = [device.memory_stats() or {} for device in jax.local_devices()]
    return [account["peak_bytes_in_use"] for account in accounts if "peak_bytes_in_use" in account]


def _tensorflow_peaks():
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    return [tf.config.experimental.get_memory_info(device.name)["peak"] for device in devices]
