"""The REST API of a model server, over `Servables`.

Paths, formats, codes and the texts about what is missing are those of TensorFlow Serving:
g3doc/api_rest.md, model_servers/http_rest_api_handler.cc, http_server.cc and util/json_tensor.cc.
"""

import base64
import contextlib
import http.server
import json
import re
import socket
import sys
import threading

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2

from tests.serving.servers.servables import INVALID_ARGUMENT, StatusError

# HTTP codes of the canonical ones.
HTTP_CODES = {
    0: 200, 1: 499, 2: 500, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409,
    11: 400, 12: 501, 13: 500, 14: 503, 15: 500, 16: 401,
}  # fmt: skip
CODE_NAMES = {0: "OK", 13: "INTERNAL"}
PREDICT = re.compile(r"(?i)/v1/models/([^/:]+)(?:/versions/(\d+))?:predict")
STATUS = re.compile(r"(?i)/v1/models/([^/:]+)(?:/versions/(\d+))?(?:/(metadata))?")


class RestServer:
    """Answers on a port of the loop-back device until it is closed.

    Args:
        servables: the `Servables`.
        port: 0 takes a free one.
    """

    def __init__(self, servables, port=0):
        self._server = _HttpServer(("127.0.0.1", port), _Handler)
        self._server.servables = servables
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class _HttpServer(http.server.ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._connections = set()

    def process_request(self, request, client_address):
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """Say nothing of clients that did not wait for their answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def server_close(self):
        """Close the port, and the connections that are kept open."""
        super().server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body of an answer in one packet

    def do_GET(self):
        self._answer(STATUS, self._get)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(PREDICT, lambda *arguments: self._post(body, *arguments))

    def log_message(self, *_):
        pass

    def _answer(self, path, work):
        if not self.path.lower().startswith("/v1/"):
            self._send(404, b"<html><body><h1>Not Found</h1></body></html>", "text/html")
            return
        try:
            match = path.fullmatch(self.path)
            if match is None:
                message = f"Malformed request: {self.command} {self.path}"
                raise StatusError(INVALID_ARGUMENT, message)
            name, version, *more = match.groups()
            code, answer = 0, work(name, int(version) if version else None, *more)
        except StatusError as error:
            code, answer = error.code, {"error": error.message}
        text = json.dumps(answer, indent=4, ensure_ascii=False)
        # Bytes that are not UTF-8 go out as they are.
        self._send(HTTP_CODES[code], text.encode("utf-8", "surrogateescape"), "application/json")

    def _send(self, code, body, content_type):
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _get(self, name, version, metadata):
        if metadata:
            return _metadata(self.server.servables, name, version)
        return {
            "model_version_status": [
                {
                    "version": str(one),
                    "state": state,
                    "status": {"error_code": CODE_NAMES[code], "error_message": message},
                }
                for one, state, code, message in self.server.servables.status(name, version)
            ]
        }

    def _post(self, body, name, version):
        servables = self.server.servables
        _, servable = servables.find(name, version)
        try:
            request = json.loads(body.decode("utf-8", "surrogateescape"))
            signature_name = request.get("signature_name", "")
            infos = servable.signature(signature_name).inputs
            inputs, is_columnar = _input_arrays(request, infos)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise StatusError(INVALID_ARGUMENT, f"JSON Value: {error!r}") from error
        outputs = servables.predict(servable, signature_name, inputs)
        return _written(outputs, is_columnar)


def _metadata(servables, name, version):
    version, servable = servables.find(name, version)
    signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=servable.signatures)
    signatures = json_format.MessageToDict(
        signatures, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return {
        "model_spec": {"name": name, "signature_name": "", "version": str(version)},
        "metadata": {"signature_def": signatures},
    }


def _input_arrays(request, infos):
    """The input arrays of a request, and whether it is columnar; an input alone needs no name."""
    is_columnar = "inputs" in request
    if is_columnar == ("instances" in request):
        raise ValueError("expecting one of 'inputs' and 'instances'")
    if is_columnar:
        columns = _named(request["inputs"], infos)
    else:
        rows = [_named(row, infos) for row in request["instances"]]
        columns = {name: [row[name] for row in rows] for name in infos}
    types = {name: tf.dtypes.as_dtype(info.dtype).as_numpy_dtype for name, info in infos.items()}
    arrays = {name: np.array(_encoded(columns[name]), types[name]) for name in infos}
    return arrays, is_columnar


def _named(value, infos):
    if isinstance(value, dict) and value.keys() != {"b64"}:
        return value
    (name,) = infos
    return {name: value}


def _encoded(value):
    """A nested list with bytes for strings and for objects of base64."""
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"], validate=True)
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _written(outputs, is_columnar):
    """The answer with these arrays, by name, in columns or in rows; one output has no name."""
    outputs = {name: _decoded(array.tolist()) for name, array in outputs.items()}
    key = "outputs" if is_columnar else "predictions"
    if len(outputs) == 1:
        return {key: next(iter(outputs.values()))}
    if is_columnar:
        return {key: outputs}
    rows = zip(*outputs.values(), strict=True)
    return {key: [dict(zip(outputs, row, strict=True)) for row in rows]}


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(one) for one in value]
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
