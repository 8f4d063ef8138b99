"""Tensors as the REST API of TensorFlow Serving writes and reads them: util/json_tensor.cc."""

import base64
import json

import numpy as np
import tensorflow as tf

from tests.serving.servers.servables import INVALID_ARGUMENT, StatusError


def parsed(body):
    """The JSON object of a request's body."""
    if not body:
        raise StatusError(INVALID_ARGUMENT, "JSON Parse error: The document is empty")
    try:
        request = json.loads(body.decode("utf-8", "surrogateescape"))
    except ValueError as error:
        raise StatusError(INVALID_ARGUMENT, f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise StatusError(INVALID_ARGUMENT, f"JSON Value: {request} Is not object")
    return request


def input_arrays(request, infos):
    """The input arrays of a request, and whether it is columnar."""
    if "instances" in request and "inputs" in request:
        raise StatusError(
            INVALID_ARGUMENT,
            "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ",
        )
    if "instances" in request:
        return _inputs_of_rows(request["instances"], infos), False
    if "inputs" in request:
        return _inputs_of_columns(request["inputs"], infos), True
    raise StatusError(INVALID_ARGUMENT, "Missing 'inputs' or 'instances' key")


def _inputs_of_rows(rows, infos):
    if not isinstance(rows, list):
        raise StatusError(INVALID_ARGUMENT, "Excepting 'instances' to be an list/array")
    if not rows:
        raise StatusError(INVALID_ARGUMENT, "No values in 'instances' array")
    if not _is_named(rows[0]):
        if len(infos) > 1:
            raise StatusError(
                INVALID_ARGUMENT,
                "instances is a plain list, but expecting list of objects as multiple input "
                "tensors required as per tensorinfo_map",
            )
        rows = [{next(iter(infos)): row} for row in rows]
    for i, row in enumerate(rows):
        if not _is_named(row) or set(row) != set(infos):
            raise StatusError(
                INVALID_ARGUMENT,
                f"Failed to process element: {i} of 'instances' list. JSON object: {row} keys must "
                f"be equal to: {','.join(sorted(infos))}",
            )
    return {name: _array([row[name] for row in rows], infos[name]) for name in infos}


def _inputs_of_columns(columns, infos):
    if not _is_named(columns):
        if len(infos) > 1:
            raise StatusError(
                INVALID_ARGUMENT,
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map",
            )
        columns = {next(iter(infos)): columns}
    for name in infos:
        if name not in columns:
            raise StatusError(INVALID_ARGUMENT, f"Missing named input: {name} in 'inputs' object.")
    return {name: _array(columns[name], infos[name]) for name in infos}


def _is_named(value):
    """Whether a value is an object of named tensors, and not one of base64."""
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(value, info):
    dtype = tf.dtypes.as_dtype(info.dtype)
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
    flat = []
    _fill(value, shape, dtype, flat)
    # An element at a time: NumPy would strip the zeros at the end of bytes.
    array = np.empty(len(flat), dtype.as_numpy_dtype)
    for i, element in enumerate(flat):
        array[i] = element
    return array.reshape(shape)


def _fill(value, shape, dtype, flat):
    """Add the elements of a nested list of this shape."""
    if not isinstance(value, list):
        if shape:
            raise StatusError(
                INVALID_ARGUMENT,
                f"JSON Value: {json.dumps(value)} found at incorrect level in the JSON DOM.",
            )
        flat.append(_element(value, dtype))
        return
    if not shape:
        raise StatusError(INVALID_ARGUMENT, "Encountered list at unexpected level")
    if len(value) != shape[0]:
        raise StatusError(
            INVALID_ARGUMENT,
            f"Encountered list at unexpected size: {len(value)} expected size: {shape[0]}",
        )
    for entry in value:
        _fill(entry, shape[1:], dtype, flat)


def _element(value, dtype):
    if dtype == tf.string and isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise StatusError(
                INVALID_ARGUMENT,
                "JSON Parse error: The surrogate pair in string is invalid. at offset: 0",
            ) from None
    if dtype == tf.string and isinstance(value, dict) and isinstance(value.get("b64"), str):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except ValueError:
            raise StatusError(INVALID_ARGUMENT, "Unable to base64 decode") from None
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if dtype.is_integer and is_int and dtype.min <= value <= dtype.max:
        return value
    if dtype.is_floating and (is_int or isinstance(value, float)):
        return value
    raise StatusError(
        INVALID_ARGUMENT,
        f"JSON Value: {json.dumps(value)} Type: {type(value).__name__} is not of expected type: "
        f"{dtype.name}",
    )


def written(outputs, is_columnar):
    """The answer with these arrays, by name, in columns or in rows."""
    outputs = {name: _json_value(name, array) for name, array in outputs.items()}
    key = "outputs" if is_columnar else "predictions"
    if len(outputs) == 1:
        return {key: next(iter(outputs.values()))}
    if is_columnar:
        return {key: outputs}
    rows = zip(*outputs.values(), strict=True)
    return {key: [dict(zip(outputs, row, strict=True)) for row in rows]}


def _json_value(name, value):
    if isinstance(value, np.ndarray):
        return [_json_value(name, entry) for entry in value]
    if isinstance(value, bytes):
        if name.endswith("_bytes"):
            return {"b64": base64.b64encode(value).decode()}
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.float32):
        return _decimal(value)
    return value.item() if isinstance(value, np.generic) else value


def _decimal(value):
    """The number with six digits, or with nine if those are another number."""
    short = float(f"{value:.6g}")
    return short if np.float32(short) == value or not np.isfinite(value) else float(f"{value:.9g}")
