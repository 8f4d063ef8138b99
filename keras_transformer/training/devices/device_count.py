"""Checks of the number of devices, for both backends."""

from keras_transformer.errors import UserInputError


def check_gpu_count(replicas: int | None, gpus: int) -> None:
    """Raise `UserInputError` if there are fewer GPUs than replicas."""
    if replicas is not None and replicas > gpus:
        raise UserInputError(
            f"`replicas` must be at most the number of this machine's GPUs, {gpus}. "
            f"Received: replicas={replicas}"
        )


def started_too_late(replicas: int) -> RuntimeError:
    """Return the error of a CPU that can no longer be divided."""
    return RuntimeError(
        f"`start_devices(replicas={replicas})` must be called before anything is computed: "
        "the backend has started already, with fewer devices"
    )


def check_one_cpu(replicas: int | None) -> None:
    """Raise `UserInputError` for several replicas on each of several machines without GPU."""
    if replicas is not None and replicas > 1:
        raise UserInputError(
            "`replicas` must be 1 on several machines without GPU: start more processes. "
            f"Received: replicas={replicas}"
        )


def one_start_only() -> RuntimeError:
    """Return the error of machines that can no longer join."""
    return RuntimeError(
        "`start_devices()` must be called before anything is computed, and once, where several "
        "machines train together"
    )
