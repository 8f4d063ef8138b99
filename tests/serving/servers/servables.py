"""What a model server holds: SavedModels run as sessions, found by name and version, batched.

Codes, and the texts about what is missing, are those of TensorFlow Serving: core/basic_manager.cc,
model_servers/get_model_status_impl.cc.
"""

import concurrent.futures
import contextlib
import pathlib
import queue
import threading
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

# Canonical status codes.
INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, INTERNAL, UNAVAILABLE = 3, 5, 9, 13, 14
DEFAULT_SIGNATURE = "serving_default"


class StatusError(Exception):
    """A request failed: a canonical code and the server's message."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Servable:
    """One version of a model: a SavedModel in a session, as the model server loads it.

    Args:
        path: directory of the SavedModel.
    """

    def __init__(self, path):
        self._session = tf.compat.v1.Session(graph=tf.Graph())
        with self._session.graph.as_default():
            meta_graph = tf.compat.v1.saved_model.loader.load(self._session, ["serve"], str(path))
        self.signatures = dict(meta_graph.signature_def)
        self.largest_batch = 0

    def signature(self, name):
        """The `SignatureDef` of a name; "" is the default's."""
        name = name or DEFAULT_SIGNATURE
        if name not in self.signatures:
            raise StatusError(FAILED_PRECONDITION, f'Serving signature key "{name}" not found.')
        return self.signatures[name]

    def run(self, signature_name, inputs):
        """The outputs of a signature, by name, for a dict of arrays."""
        signature = self.signature(signature_name)
        if missing := signature.inputs.keys() - inputs:
            raise StatusError(INVALID_ARGUMENT, f"Missing but required: {missing}.")
        try:
            feeds = {signature.inputs[name].name: array for name, array in inputs.items()}
            fetches = {name: info.name for name, info in signature.outputs.items()}
            self.largest_batch = max(self.largest_batch, *map(len, inputs.values()))
            return self._session.run(fetches, feeds)
        except tf.errors.OpError as error:
            raise StatusError(error.error_code, error.message) from error
        except (TypeError, ValueError) as error:  # a name, type or rank that is not the signature's
            raise StatusError(INVALID_ARGUMENT, str(error)) from error


def load_versions(base_path):
    """The latest servable in a base path, by its version."""
    names = [path.name for path in pathlib.Path(base_path).iterdir() if path.name.isdigit()]
    latest = max(names, key=int)
    return {int(latest): Servable(pathlib.Path(base_path, latest))}


class Batching:
    """Puts together what several requests ask of a signature at the same time.

    Rows of different lengths are padded with the first element of the tensor.

    Args:
        max_batch_size: so many rows are computed at once, without waiting for others.
        timeout: seconds that the first request waits for others.
    """

    def __init__(self, max_batch_size=32, timeout=0.005):
        self.max_batch_size, self.timeout = max_batch_size, timeout
        self._queues, self._lock = {}, threading.Lock()

    def run(self, servable, signature_name, inputs):
        """What `Servable.run` returns, by way of a batch."""
        found = concurrent.futures.Future()
        with self._lock:
            key = (id(servable), signature_name)
            if key not in self._queues:
                self._queues[key] = queue.Queue()
                arguments = (servable, signature_name, self._queues[key])
                threading.Thread(target=self._work, args=arguments, daemon=True).start()
            self._queues[key].put((inputs, len(next(iter(inputs.values()))), found))
        return found.result()

    def _work(self, servable, signature_name, tasks):
        while True:
            batch = [tasks.get()]
            end = time.monotonic() + self.timeout
            with contextlib.suppress(queue.Empty):
                while sum(size for _, size, _ in batch) < self.max_batch_size:
                    batch.append(tasks.get(timeout=max(end - time.monotonic(), 0)))
            inputs, sizes, futures = zip(*batch, strict=True)
            try:
                merged = {name: _merged([one[name] for one in inputs]) for name in inputs[0]}
                outputs = servable.run(signature_name, merged)
            except Exception as error:
                for found in futures:
                    found.set_exception(error)
                continue
            for end, size, found in zip(np.cumsum(sizes), sizes, futures, strict=True):
                found.set_result({name: rows[end - size : end] for name, rows in outputs.items()})


def _merged(arrays):
    shape = [max(sizes) for sizes in zip(*(array.shape for array in arrays), strict=True)]
    return np.concatenate([
        np.pad(
            array,
            [(0, 0), *((0, shape[i] - array.shape[i]) for i in range(1, array.ndim))],
            constant_values=array.flat[0],
        )
        for array in arrays
    ])  # fmt: skip


class Servables:
    """The models of a server, and the ways in which a test makes them fail.

    Args:
        models: dict by model name, of base paths or of dicts of `Servable`s by version.
        batching: a `Batching`, or None.
    """

    def __init__(self, models, batching=None):
        self._models = {
            name: model if isinstance(model, dict) else load_versions(model)
            for name, model in models.items()
        }
        self._batching = batching
        self._states = {}
        self._failures, self._lock = [], threading.Lock()
        self.num_requests = 0

    def fail_next(self, times, code=UNAVAILABLE, message="Too much to do.", after=None):
        """Let the next predictions fail so, each after an event."""
        self._failures += [(code, message, after)] * times

    def set_state(self, name, version, state, error_message=""):
        """Let a version be in a state such as LOADING, in which it does not serve."""
        self._states[name, version] = (state, error_message)

    def find(self, name, version=None):
        """`(version, Servable)` of a name and a version, or of the latest."""
        loaded = self._models.get(name, {})
        loaded = {v: one for v, one in loaded.items() if (name, v) not in self._states}
        if version is None and loaded:
            version = max(loaded)
        if version not in loaded:
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            raise StatusError(NOT_FOUND, f"Servable not found for request: {wanted}")
        return version, loaded[version]

    def status(self, name, version=None):
        """`(version, state, code, error message)` of each version, or of one."""
        versions = sorted(self._models.get(name, {}))
        if version is not None and version not in versions:
            raise StatusError(NOT_FOUND, f"Could not find version {version} of model {name}")
        if not versions:
            raise StatusError(NOT_FOUND, f"Could not find any versions of model {name}")
        found = []
        for one in versions if version is None else [version]:
            state, message = self._states.get((name, one), ("AVAILABLE", ""))
            found.append((one, state, INTERNAL if message else 0, message))
        return found

    def predict(self, servable, signature_name, inputs):
        """The outputs of a signature, batched if the server batches."""
        with self._lock:
            self.num_requests += 1
            failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            code, message, after = failure
            if after is not None:
                after.wait()
            if code:
                raise StatusError(code, message)
        if self._batching is None:
            return servable.run(signature_name, inputs)
        return self._batching.run(servable, signature_name, inputs)
