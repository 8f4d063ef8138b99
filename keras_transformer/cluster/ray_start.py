"""Joining a Ray cluster, or starting one on this machine."""

import contextlib
import importlib
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError

LOCAL = "local"
_CONNECT_SECONDS = 10
# Ray reads these when it is imported.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # workers without a GPU keep their environment
}
# Ray's servers listen on every address of a Linux machine, unless clusters are off.
_CLUSTERS, _CLUSTERS_CONSTANT = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "ENABLE_RAY_CLUSTER"


@contextlib.contextmanager
def ray_cluster(address: str) -> Iterator[ModuleType]:
    """Join a Ray cluster for the duration of a `with` block.

    Args:
        address: `"auto"` or `HOST:PORT` for a running cluster, or `"local"` for a new cluster on
            only this machine, which listens on the loopback interface and ends with the block. It
            runs without dashboard and telemetry.

    Yields:
        The module `ray`. A process that has already joined a cluster, such as a worker, stays in
        its cluster, whatever the address.

    Raises:
        UserInputError: Ray is not installed, or the cluster does not answer.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    ray = _import("ray")
    if ray.is_initialized():
        yield ray
        return
    _check_answers(address)
    on_loopback = _on_loopback() if address == LOCAL else contextlib.nullcontext()
    with on_loopback, _without_native_messages():
        try:
            context = ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({"include_dashboard": False} if address == LOCAL else {}),
            )
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UserInputError(f"The Ray cluster {address} cannot be joined: {reason}") from error
        try:
            # Ray prints the log of a lost machine on standard output.
            with contextlib.redirect_stdout(sys.stderr):
                yield ray
        finally:
            ray.shutdown()
            if address == LOCAL:  # Ray leaves the logs of each cluster
                shutil.rmtree(context.address_info["session_dir"], ignore_errors=True)


@contextlib.contextmanager
def told_by_ray(ray: ModuleType, what: str) -> Iterator[None]:
    """Turn Ray's own errors, such as for lost workers, into a `UserInputError`.

    Args:
        ray: the module.
        what: the tasks that fail with these errors.
    """
    try:
        yield
    except ray.exceptions.RayTaskError:  # an error of the task itself
        raise
    except ray.exceptions.RayError as error:
        raise UserInputError(
            f"{what} ended again and again, as happens if memory runs out: {said_by_ray(error)}"
        ) from error


def said_by_ray(error: Exception) -> str:
    """Return the message of a Ray error as one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]


def last_line(error: Exception) -> str:
    """Return the last line of a Ray error, which says what went wrong after the traceback."""
    return str(error).strip().rpartition("\n")[2].strip()[:300]


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let the processes that Ray starts listen only on the loopback interface."""
    from ray._private import ray_constants

    enabled, variable = getattr(ray_constants, _CLUSTERS_CONSTANT), os.environ.get(_CLUSTERS)
    setattr(ray_constants, _CLUSTERS_CONSTANT, False)  # for this process
    os.environ[_CLUSTERS] = "0"  # for the processes that it starts
    try:
        yield
    finally:
        setattr(ray_constants, _CLUSTERS_CONSTANT, enabled)
        os.environ.pop(_CLUSTERS)
        if variable is not None:
            os.environ[_CLUSTERS] = variable


def _check_answers(address: str) -> None:
    """Refuse a cluster that does not answer; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise UserInputError(f"The Ray cluster {address} cannot be joined: {error}") from error


@contextlib.contextmanager
def _without_native_messages() -> Iterator[None]:
    """Keep Ray's native log off standard error, but let Python's messages through.

    The log is shown if the block fails with anything but an error for the user.
    """
    sys.stderr.flush()
    python_stderr, native = sys.stderr, os.dup(2)
    with tempfile.TemporaryFile() as held, open(os.dup(native), "w", encoding="utf-8") as own:
        os.dup2(held.fileno(), 2)
        sys.stderr = own
        try:
            yield
        except (UserInputError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:
            held.seek(0)
            os.write(native, held.read())
            raise
        finally:
            sys.stderr = python_stderr
            os.dup2(native, 2)
            os.close(native)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UserInputError(
            f"`--cluster` needs Ray ({error.name} is missing): {pip_install('ray')}"
        ) from error
