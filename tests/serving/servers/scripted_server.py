"""A web server that answers each request as it was told to, also wrongly or not at all."""

import contextlib
import json
import socket
import socketserver
import ssl
import struct
import threading
import time

# Instead of an answer: the connection breaks off, or stays silent.
RESET, SILENT = "reset", "silent"
# Instead of a request's body.
ENCRYPTED = "encrypted"


class BrokenOff(bytes):
    """The part of an answer after which the connection ends."""


class Dripping(bytes):
    """An answer that comes byte by byte, with pauses of `PAUSE` seconds."""

    PAUSE = 0.02


class Held(bytes):
    """An answer that waits until its event `released` is set."""

    def __init__(self, *_):
        self.released = threading.Event()


class Endless(bytes):
    """An answer that begins so and goes on with a part until the client has enough."""

    def __new__(cls, begin, part=b" " * 2**16, pause=0.0):
        self = super().__new__(cls, begin)
        self.part, self.pause = part, pause
        return self


def answer(code=200, body=b"", content_type="application/json"):
    """A whole HTTP answer; bytes as they are, anything else as JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    head = f"HTTP/1.1 {code} Reason\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class ScriptedServer(socketserver.ThreadingTCPServer):
    """Answers the n-th request with the n-th answer, and all further ones with the last.

    Args:
        answers: each bytes, `BrokenOff`, `Dripping`, `Held`, `Endless`, `RESET` or `SILENT`.
        tls: an `ssl.SSLContext` for encrypted connections, or None.

    `address` is its URL, `requests` the bodies of all requests, as JSON, `heads` what comes before
    them, as text; `num_connections` counts those that were opened, `num_open` those that the client
    has not closed.
    """

    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, *answers, tls=None):
        super().__init__(("127.0.0.1", 0), None)
        self._answers, self._lock, self._tls = list(answers), threading.Lock(), tls
        self._closed = threading.Event()
        self.requests, self.heads = [], []
        self.num_connections = self.num_open = 0
        scheme = "http" if tls is None else "https"
        self.address = f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.005,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._closed.set()
        self.shutdown()
        self.server_close()

    def finish_request(self, connection, _):
        with self._lock:
            self.num_connections += 1
            self.num_open += 1
        # A client that gives up may reset the connection, or not like its certificate.
        with contextlib.suppress(ConnectionError, ssl.SSLError), connection:
            self._converse(connection)
        with self._lock:
            self.num_open -= 1

    def _converse(self, connection):
        with self._opened(connection) as connection, connection.makefile("rb") as stream:
            while self._read(stream):
                with self._lock:
                    only = len(self._answers) == 1
                    reply = self._answers[0] if only else self._answers.pop(0)
                if reply == SILENT:
                    self._closed.wait()
                    return
                if reply == RESET:
                    linger = struct.pack("ii", 1, 0)  # closing sends a reset
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    return
                self._send(connection, reply)
                if isinstance(reply, BrokenOff) or self.requests[-1] == ENCRYPTED:
                    return

    def _opened(self, connection):
        if self._tls is None:
            return contextlib.nullcontext(connection)
        return self._tls.wrap_socket(connection, server_side=True)

    def _send(self, connection, reply):
        if isinstance(reply, Held):
            reply.released.wait()
        if not isinstance(reply, Dripping):
            connection.sendall(reply)
            while isinstance(reply, Endless):
                connection.sendall(reply.part)
                time.sleep(reply.pause)
            return
        for byte in reply:
            connection.sendall(bytes([byte]))
            time.sleep(reply.PAUSE)

    def _read(self, stream):
        """Read a request; return whether there was one."""
        first = stream.read(1)
        if not first:
            return False
        if not first.isalpha():  # no HTTP: the greeting of an encrypted connection
            self.requests.append(ENCRYPTED)
            return True
        head, length = [first + stream.readline().strip()], 0
        while (line := stream.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            head.append(line)
        self.heads.append(b"\n".join(head).decode("latin-1"))
        self.requests.append(json.loads(stream.read(length) or b"null"))
        return True
