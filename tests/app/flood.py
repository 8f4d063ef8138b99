"""Many clients at once that send, wait and read so slowly that they might occupy a server."""

import contextlib
import socket
import threading
import time

import httpx

PAUSE = 2  # seconds between the bytes of a slow client
POST = (
    b"POST /api/translate HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n"
)
# What each client of a flood sends at once, and whether it goes on byte by byte.
FLOODS = {
    "silent": (b"", False),
    "slow headers": (b"GET / HTTP/1.1\r\nX: ", True),
    "slow bodies": (POST % b"localhost" + b"{", True),
    "refused, without a body": (POST % b"evil.example", False),
    "answers unread": (b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20, False),
}
ADDRESSES = {"one address": 1, "many addresses": 60_000}


class Flood:
    """Clients that do as one of `FLOODS` says, as long as the block lasts.

    Args:
        port: the port of a server on this machine.
        kind: a name of `FLOODS`.
        count: the number of clients.
        addresses: the number of addresses that they come from, at most 60,000.
    """

    def __init__(self, port, kind, count, addresses=1):
        self._port, self._count, self._addresses = port, count, addresses
        self._first, self._drips = FLOODS[kind]
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._drip)
        self._clients = []

    def __enter__(self):
        for number in range(self._count):
            client = socket.socket()
            self._clients.append(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            number %= self._addresses
            client.bind((f"127.0.{number // 250}.{number % 250 + 1}", 0))
            client.connect(("127.0.0.1", self._port))
            client.sendall(self._first)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._has_ended.set()
        self._thread.join()
        for client in self._clients:
            client.close()

    def _drip(self):
        while self._drips and not self._has_ended.wait(PAUSE):
            for client in self._clients:
                with contextlib.suppress(OSError):  # it was ended
                    client.sendall(b" ")


def ask(port):
    """Ask as somebody else, twice; returns the seconds of the slower answer."""
    seconds = []
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for method, path, body in (("GET", "/", None), ("POST", "/api/translate", {"text": "a"})):
            start = time.monotonic()
            assert client.request(method, path, json=body).status_code == 200
            seconds.append(time.monotonic() - start)
    return max(seconds)
