"""What a model server holds: SavedModels run as sessions, found by name and version, batched.

Sessions, texts and codes are those of TensorFlow Serving: servables/tensorflow/predict_util.cc,
core/basic_manager.cc, model_servers/get_model_status_impl.cc, batching/batching_session.cc.
"""

import pathlib
import queue
import threading
import time

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops

# Canonical status codes.
INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 3, 4, 5
RESOURCE_EXHAUSTED, FAILED_PRECONDITION, INTERNAL, UNAVAILABLE = 8, 9, 13, 14
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
            message = f'Serving signature key "{name}" not found.'
            raise StatusError(FAILED_PRECONDITION, message)
        return self.signatures[name]

    def run(self, signature_name, inputs, output_filter=()):
        """The outputs of a signature: a dict of arrays.

        Args:
            signature_name: "" is the default's.
            inputs: dict of arrays.
            output_filter: names of the outputs wanted; none: all.
        """
        signature = self.signature(signature_name)
        wanted = list(output_filter) or list(signature.outputs)
        extra, missing = set(inputs) - set(signature.inputs), set(signature.inputs) - set(inputs)
        if extra or missing:
            raise StatusError(
                INVALID_ARGUMENT,
                f"input size does not match signature: {len(inputs)}!={len(signature.inputs)}. "
                f"Sent extra: {{{','.join(extra)}}}. "
                f"Missing but required: {{{','.join(missing)}}}.",
            )
        if set(wanted) - set(signature.outputs):
            raise StatusError(
                INVALID_ARGUMENT, f"output tensor alias not found in signature: {wanted}"
            )
        for name, array in inputs.items():
            wanted_type, given = (
                tf.dtypes.as_dtype(one) for one in (signature.inputs[name].dtype, array.dtype)
            )
            if wanted_type != given:
                raise StatusError(
                    INVALID_ARGUMENT,
                    f"Expects arg[0] to be {wanted_type.name} but {given.name} is provided",
                )
        feeds = {signature.inputs[name].name: array for name, array in inputs.items()}
        fetches = {name: signature.outputs[name].name for name in wanted}
        self.largest_batch = max(self.largest_batch, *map(_batch_size, inputs.values()))
        try:
            return self._session.run(fetches, feeds)
        except tf.errors.OpError as error:
            raise StatusError(error.error_code, error.message) from error
        except (TypeError, ValueError) as error:  # a type or rank that is not the signature's
            raise StatusError(INVALID_ARGUMENT, str(error)) from error


def _batch_size(array):
    return array.shape[0] if array.ndim else 0


def load_versions(base_path, every_version=False):
    """The servables in a base path, by version: the latest, as is the server's default, or all."""
    paths = [path for path in pathlib.Path(base_path).iterdir() if path.name.isdigit()]
    paths = sorted(paths, key=lambda path: int(path.name))
    return {int(path.name): Servable(path) for path in (paths if every_version else paths[-1:])}


class Batching:
    """Puts together what several requests ask of a signature at the same time.

    Args:
        max_batch_size: most rows of a batch.
        timeout: seconds that the first request waits for others.
        pad_variable_length_inputs: whether rows of different lengths are padded, with the first
            element of the tensor.
    """

    def __init__(self, max_batch_size=32, timeout=0.005, pad_variable_length_inputs=False):
        self.max_batch_size, self.timeout = max_batch_size, timeout
        self.pad_variable_length_inputs = pad_variable_length_inputs
        self._queues, self._lock, self._closed = {}, threading.Lock(), False

    def run(self, servable, signature_name, inputs):
        """What `Servable.run` returns, by way of a batch."""
        sizes = {_batch_size(array) for array in inputs.values()}
        if len(sizes) != 1:
            raise StatusError(
                INVALID_ARGUMENT, "Batching Run() input tensors must have equal 0th-dimension size"
            )
        (size,) = sizes
        if size > self.max_batch_size:
            raise StatusError(
                INVALID_ARGUMENT,
                f"Task size {size} is larger than maximum input batch size {self.max_batch_size}",
            )
        servable.signature(signature_name)
        task = {"inputs": inputs, "size": size, "done": threading.Event()}
        self._queue(servable, signature_name or DEFAULT_SIGNATURE).put(task)
        task["done"].wait()
        if "error" in task:
            raise task["error"]
        return task["outputs"]

    def close(self):
        with self._lock:
            self._closed = True
            for tasks in self._queues.values():
                tasks.put(None)

    def _queue(self, servable, signature_name):
        with self._lock:
            key = (id(servable), signature_name)
            if key not in self._queues:
                tasks = self._queues[key] = queue.Queue()
                arguments = (servable, signature_name, tasks)
                threading.Thread(target=self._work, args=arguments, daemon=True).start()
            return self._queues[key]

    def _work(self, servable, signature_name, tasks):
        first = tasks.get()
        while first is not None:
            batch, size, following = [first], first["size"], None
            end = time.monotonic() + self.timeout
            while size < self.max_batch_size:
                try:
                    task = tasks.get(timeout=max(end - time.monotonic(), 0))
                except queue.Empty:
                    break
                if task is None or size + task["size"] > self.max_batch_size:
                    following = (task,)
                    break
                batch.append(task)
                size += task["size"]
            self._run_batch(servable, signature_name, batch)
            first = following[0] if following else tasks.get()

    def _run_batch(self, servable, signature_name, batch):
        try:
            outputs = servable.run(signature_name, self.merged(batch))
            start = 0
            for task in batch:
                end = start + task["size"]
                task["outputs"] = {name: array[start:end] for name, array in outputs.items()}
                start = end
        except Exception as error:
            for task in batch:
                task["error"] = error
        for task in batch:
            task["done"].set()

    def merged(self, batch):
        """The inputs of several tasks as those of one."""
        merged = {}
        for name in batch[0]["inputs"]:
            arrays = [task["inputs"][name] for task in batch]
            shapes = {array.shape[1:] for array in arrays}
            if len(shapes) > 1:
                if not self.pad_variable_length_inputs:
                    raise StatusError(
                        FAILED_PRECONDITION,
                        f"Tensors with name '{name}' from different tasks have different shapes "
                        "and padding is turned off. Set pad_variable_length_inputs to true, or "
                        "ensure that all tensors with the same name have equal dimensions "
                        "starting with the first dim.",
                    )
                arrays = _padded(arrays)
            merged[name] = np.concatenate(arrays)
        return merged


def _padded(arrays):
    sizes = [max(size) for size in zip(*(array.shape for array in arrays), strict=True)]
    if any(array.size == 0 for array in arrays):
        raise StatusError(INVALID_ARGUMENT, "Got empty tensor in batch of non-empty tensors.")
    return [
        np.pad(
            array,
            [(0, 0), *((0, sizes[i] - array.shape[i]) for i in range(1, array.ndim))],
            constant_values=array.flat[0],
        )
        for array in arrays
    ]


class Servables:
    """The models of a server, and the ways in which a test makes them fail.

    Args:
        models: dict by model name, of base paths or of dicts of `Servable`s by version.
        batching: a `Batching`, or None.
        every_version: whether all versions of a base path are loaded, or the latest.
    """

    def __init__(self, models, batching=None, every_version=False):
        self._models = {
            name: model if isinstance(model, dict) else load_versions(model, every_version)
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

    def predict(self, servable, signature_name, inputs, output_filter=()):
        """The outputs of a signature, batched unless outputs are left out, as the server does."""
        with self._lock:
            self.num_requests += 1
            failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            code, message, after = failure
            if after is not None:
                after.wait()
            if code:
                raise StatusError(code, message)
        if self._batching is None or output_filter:
            return servable.run(signature_name, inputs, output_filter)
        return self._batching.run(servable, signature_name, inputs)

    def close(self):
        if self._batching is not None:
            self._batching.close()
