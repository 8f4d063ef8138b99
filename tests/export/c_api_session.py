"""A SavedModel in a process without Python TensorFlow: TensorFlow's C API by `ctypes` alone.

`tensorflow_model_server` loads a model in this way: the graph, its variables and assets, and the
libraries of operations; none of our code. Run as a script in an isolated Python (`python -I -S`,
which has no installed package), it answers the calls that stand on stdin as JSON.
"""

import base64
import concurrent.futures
import contextlib
import ctypes
import json
import math
import sys

INT32, FLOAT, STRING = 3, 1, 7  # of TF_DataType
NUMBERS = {INT32: ctypes.c_int32, FLOAT: ctypes.c_float}
STRING_SIZE = 24  # bytes of a TF_TString
POINTER = ctypes.c_void_p


class Output(ctypes.Structure):
    """TF_Output: an operation and the number of one of its outputs."""

    _fields_ = [("operation", POINTER), ("index", ctypes.c_int)]


class CApi:
    """The functions of TensorFlow's C library, with their types.

    Args:
        library: path of `libtensorflow_cc.so.2`.
    """

    def __init__(self, library):
        self._library = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)

    def __call__(self, name, *arguments, returns=POINTER):
        function = getattr(self._library, name)
        # Without a type an integer would lose its upper half on the way.
        arguments = [POINTER(a) if isinstance(a, int) else a for a in arguments]
        function.restype = returns
        return function(*arguments)

    def checked(self, name, *arguments):
        """Call a function that ends with a TF_Status; raise `RuntimeError` with its message."""
        with self.owned("Status") as status:
            found = self(name, *arguments, status)
            if self("TF_GetCode", status, returns=ctypes.c_int) != 0:
                message = self("TF_Message", status, returns=ctypes.c_char_p)
                raise RuntimeError(message.decode())
        return found

    @contextlib.contextmanager
    def owned(self, kind):
        """A TF_Status, TF_Graph ... that is deleted in the end."""
        made = self(f"TF_New{kind}")
        try:
            yield made
        finally:
            self(f"TF_Delete{kind}", made, returns=None)


class CApiSession:
    """A loaded SavedModel.

    Args:
        directory: that of the version.
        library: path of `libtensorflow_cc.so.2`.
        op_libraries: paths of libraries with more operations.
        signatures: dict of signature -> (inputs, outputs), each a dict of name -> (tensor's name,
            data type).
    """

    def __init__(self, directory, library, op_libraries, signatures):
        self._signatures = signatures
        self._api = CApi(library)
        for path in op_libraries:
            self._api.checked("TF_LoadLibrary", path.encode())
        self._graph = self._api("TF_NewGraph")
        tags = (ctypes.c_char_p * 1)(b"serve")
        with self._api.owned("SessionOptions") as options:
            self._session = self._api.checked(
                "TF_LoadSessionFromSavedModel",
                options, None, directory.encode(), tags, 1, self._graph, None,
            )  # fmt: skip

    def run(self, signature, inputs):
        """Call a signature.

        Args:
            signature: its name.
            inputs: dict of name -> (shape, flat list of bytes or ints).

        Returns:
            Dict of name -> (shape, flat list of bytes, ints or floats).
        """
        names, results = self._signatures[signature]
        assert inputs.keys() == names.keys()
        feeds = [self._tensor(*inputs[name], kind) for name, (_, kind) in names.items()]
        fetched = (POINTER * len(results))()
        try:
            self._api.checked(
                "TF_SessionRun",
                self._session, None,
                self._outputs(names), (POINTER * len(feeds))(*feeds), len(feeds),
                self._outputs(results), fetched, len(results),
                None, 0, None,
            )  # fmt: skip
        finally:
            for feed in feeds:
                self._delete(feed)
        found = {name: self._value(tensor) for name, tensor in zip(results, fetched, strict=True)}
        for tensor in fetched:
            self._api("TF_DeleteTensor", tensor, returns=None)
        return found

    def _outputs(self, tensors):
        found = (Output * len(tensors))()
        for place, (name, _) in zip(found, tensors.values(), strict=True):
            operation, _, index = name.partition(":")
            place.operation = self._api("TF_GraphOperationByName", self._graph, operation.encode())
            place.index = int(index)
        return found

    def _tensor(self, shape, values, kind):
        size = len(values) * (STRING_SIZE if kind == STRING else ctypes.sizeof(NUMBERS[kind]))
        dims = (ctypes.c_int64 * len(shape))(*shape)
        tensor = self._api("TF_AllocateTensor", kind, dims, len(shape), size)
        if kind == STRING:
            for place, value in zip(self._places(tensor), values, strict=True):
                self._api("TF_StringInit", place, returns=None)
                self._api("TF_StringCopy", place, value, len(value), returns=None)
        else:
            data = (NUMBERS[kind] * len(values))(*values)
            ctypes.memmove(self._api("TF_TensorData", tensor), data, size)
        return tensor

    def _delete(self, tensor):
        """Delete a tensor of ours: its strings first."""
        if self._api("TF_TensorType", tensor, returns=ctypes.c_int) == STRING:
            for place in self._places(tensor):
                self._api("TF_StringDealloc", place, returns=None)
        self._api("TF_DeleteTensor", tensor, returns=None)

    def _places(self, tensor):
        """The addresses of a string tensor's strings."""
        count = self._api("TF_TensorElementCount", tensor, returns=ctypes.c_int64)
        start = self._api("TF_TensorData", tensor) or 0
        return range(start, start + count * STRING_SIZE, STRING_SIZE)

    def _value(self, tensor):
        kind = self._api("TF_TensorType", tensor, returns=ctypes.c_int)
        rank = self._api("TF_NumDims", tensor, returns=ctypes.c_int)
        shape = [self._api("TF_Dim", tensor, axis, returns=ctypes.c_int64) for axis in range(rank)]
        if kind == STRING:
            values = [self._string(place) for place in self._places(tensor)]
        else:
            count = math.prod(shape)
            start = self._api("TF_TensorData", tensor)
            values = list((NUMBERS[kind] * count).from_address(start)) if count else []
        return shape, values

    def _string(self, place):
        size = self._api("TF_StringGetSize", place, returns=ctypes.c_size_t)
        return ctypes.string_at(self._api("TF_StringGetDataPointer", place), size)


def main():
    request = json.load(sys.stdin)
    names = ("directory", "library", "op_libraries", "signatures")
    session = CApiSession(*(request[name] for name in names))

    def answer(call):
        signature, inputs = call
        inputs = {
            name: (shape, [base64.b64decode(v) if isinstance(v, str) else v for v in values])
            for name, (shape, values) in inputs.items()
        }
        return {
            name: (
                shape,
                [base64.b64encode(v).decode() if isinstance(v, bytes) else v for v in values],
            )
            for name, (shape, values) in session.run(signature, inputs).items()
        }

    with concurrent.futures.ThreadPoolExecutor(request["threads"]) as threads:
        answers = list(threads.map(answer, request["calls"]))
    modules = sorted({name.partition(".")[0] for name in sys.modules})
    json.dump({"answers": answers, "modules": modules}, sys.stdout)


if __name__ == "__main__":
    main()
