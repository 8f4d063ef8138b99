"""Joining a Ray cluster or starting a cluster on this machine."""

import contextlib
import logging
import os
import shutil
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.installation import held_stderr, pip_install

LOCAL = "local"
_CONNECT_SECONDS = 10
# Ray reads these variables when it is imported.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU keep their environment
    "RAY_DATA_LOG_LEVEL": "CRITICAL",  # errors are raised
}
# On Linux, Ray's servers listen on all addresses unless clusters are disabled.
_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextlib.contextmanager
def ray_cluster(address: str) -> Iterator[ModuleType]:
    """Join a Ray cluster for the duration of a `with` block.

    Args:
        address: `"auto"` or `HOST:PORT` for a running cluster, or `"local"` for a new cluster on
            this machine only. The new cluster listens on the loopback interface, is stopped at the
            end of the block, and runs without a dashboard or telemetry.

    Yields:
        The `ray` module. A process that has already joined a cluster, such as a worker, stays in
        that cluster, regardless of the address.

    Raises:
        UserInputError: Ray is not installed, the cluster does not respond, or a new cluster would
            listen on other interfaces because Ray was already imported.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if address == LOCAL and "ray" not in sys.modules:
        os.environ[_CLUSTERS] = "0"
    try:
        import ray
    except ModuleNotFoundError as error:
        raise UserInputError(
            f"`--cluster` needs Ray ({error.name} is missing): {pip_install('ray')}"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    if address == LOCAL and os.environ.get(_CLUSTERS) != "0":
        raise UserInputError(
            "A Ray cluster of this machine must listen only on the loopback interface, which Ray "
            f"decides when it is imported: set {_CLUSTERS}=0 before `import ray`."
        )
    _check_answers(address)
    # Python's own messages are shown, but Ray's native log is shown only after an error.
    with (
        open(os.dup(2), "w", encoding="utf-8") as own,
        held_stderr(UserInputError),
        contextlib.redirect_stderr(own),
    ):
        try:
            context: Any = ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                include_dashboard=False if address == LOCAL else None,
            )
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserInputError(f"The Ray cluster {address} cannot be joined: {reason}") from error
        try:
            # Ray prints the logs of lost machines to standard output.
            with contextlib.redirect_stdout(sys.stderr):
                yield ray
        finally:
            ray.shutdown()
            if address == LOCAL:  # Ray does not delete the logs of a cluster
                shutil.rmtree(context.address_info["session_dir"], ignore_errors=True)


@contextlib.contextmanager
def told_by_ray(ray: ModuleType, what: str) -> Iterator[None]:
    """Convert Ray errors, such as errors about lost workers, to a `UserInputError`.

    Args:
        ray: the module.
        what: description of the tasks, for error messages.
    """
    try:
        yield
    except ray.exceptions.RayTaskError:  # raised by the task itself
        raise
    except ray.exceptions.RayError as error:
        raise UserInputError(
            f"{what} were lost again and again, as happens if memory runs out: {said_by_ray(error)}"
        ) from error


def ordered_rows(items: Sequence[Any]) -> Any:
    """Return a `ray.data.Dataset` of these items that preserves the order of results.

    Each item and each derived row is a separate task.
    """
    import ray.data

    # Small jobs have fewer tasks than the maximum.
    warnings.filterwarnings("ignore", "The m(ax|in)imum number of concurrent")
    rows = ray.data.from_items(list(items), override_num_blocks=len(items))
    context = rows.context  # for this dataset only
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    return rows


def found_by(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function's result, or the `UserInputError` that it raises.

    Pass the returned value to `given`, which raises the error. Ray would wrap an error that a task
    raises.
    """
    try:
        return function(*arguments)
    except UserInputError as error:
        return UserInputError(str(error))


def given(found: Any) -> Any:
    """Return the value from `found_by`, or raise it if it is an error."""
    if isinstance(found, Exception):
        raise found
    return found


def said_by_ray(error: Exception) -> str:
    """Return the message of a Ray error as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def _check_answers(address: str) -> None:
    """Refuse a cluster that does not respond. Ray itself would retry for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UserInputError(f"The Ray cluster {address} cannot be joined: {error}") from error
