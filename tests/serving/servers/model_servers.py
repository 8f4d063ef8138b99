"""A model server for tests: it holds real SavedModels and answers as TensorFlow Serving does."""

from tests.serving.servers.grpc_server import GrpcServer
from tests.serving.servers.rest_server import RestServer
from tests.serving.servers.servables import Batching, Servables


class ModelServer:
    """REST and gRPC on ports of the loop-back device, while it is entered.

    Args:
        models: dict by model name, of base paths (`exports/NAME`), or of dicts of `Servable`s
            by version, which several servers may share.
        batching: dict of the arguments of `Batching`, or None for a server without it.
        rest_port, grpc_port: 0 takes a free one.

    `rest_address`, `grpc_address` are what a client is given; `servables` makes requests fail.

    Example:
        >>> with ModelServer({"en_de": "exports/en_de"}) as server:  # doctest: +SKIP
        ...     TranslationClient(server.rest_address, "en_de").translate(["one"])
    """

    def __init__(self, models, batching=None, rest_port=0, grpc_port=0):
        self.servables = Servables(models, None if batching is None else Batching(**batching))
        self._ports = rest_port, grpc_port

    def __enter__(self):
        rest_port, grpc_port = self._ports
        self._rest = RestServer(self.servables, rest_port)
        self._grpc = GrpcServer(self.servables, grpc_port)
        self.rest_address, self.grpc_address = self._rest.address, self._grpc.address
        return self

    def __exit__(self, *_):
        self._rest.close()
        self._grpc.close()
