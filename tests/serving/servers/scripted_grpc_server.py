"""A gRPC server that answers each call with the bytes it was told to, or with a status."""

import concurrent.futures
import dataclasses

import grpc


@dataclasses.dataclass
class Status:
    """Instead of an answer: a code, and details of str or bytes."""

    code: object
    details: object = ""


class ScriptedGrpcServer:
    """Answers on a port of the loop-back device while it is entered.

    Args:
        answers: dict by method, such as `Predict`, of bytes or of a `Status`; or one for all.
        credentials: `grpc.ServerCredentials` for encrypted connections, or None.
        compression: `grpc.Compression` of the answers.

    `address` is what a client is given; `metadata` has a dict of each call's.
    """

    def __init__(self, answers, credentials=None, compression=None):
        self._answers, self._credentials = answers, credentials
        self._compression = compression
        self.metadata = []

    def __enter__(self):
        options = [("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(
            concurrent.futures.ThreadPoolExecutor(4),
            options=options,
            compression=self._compression,
            handlers=[_Handler(self._answer)],
        )
        if self._credentials is None:
            port, scheme = self._server.add_insecure_port("127.0.0.1:0"), "grpc"
        else:
            port = self._server.add_secure_port("127.0.0.1:0", self._credentials)
            scheme = "grpcs"
        self.address = f"{scheme}://127.0.0.1:{port}"
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(grace=None).wait()

    def _answer(self, method, context):
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self._answers
        answer = answer[method] if isinstance(answer, dict) else answer
        if isinstance(answer, Status):
            context.abort(answer.code, answer.details)
        return answer


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, answer):
        self._answer = answer

    def service(self, call):
        method = call.method.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._answer(method, context)
        )
