"""Soak test of the web app: clients come and go for hours while memory use should stay flat.

    make benchmark-soak ARGS="RUN --source FILE --minutes 120"

Each client opens a connection, sends some requests at its rate, disconnects (sometimes in the
middle of a response) and reconnects. The memory use of the app is appended to a CSV file every 10
seconds.
"""

import argparse
import csv
import pathlib
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import httpx

_SECONDS_BETWEEN_ROWS = 10
_KILOBYTE = 1024


class Clients:
    """Threads that send requests to an app until `stop`.

    Args:
        address: the app's address.
        sentences: texts to send.
        number: number of clients.
        rate: total requests per second of all clients.
        seed: random seed that determines the texts and when clients disconnect.
    """

    def __init__(
        self, address: str, sentences: Sequence[str], number: int, rate: float, seed: int
    ) -> None:
        self.answers = self.refusals = self.left = 0
        self.failures: list[str] = []
        self._address, self._sentences = address, sentences
        self._pause = number / rate
        self._changed, self._ended = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._use, args=[random.Random(seed + i)])
            for i in range(number)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the clients after their current requests."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _use(self, chance: random.Random) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            with httpx.Client(base_url=self._address, timeout=120) as client:
                for _ in range(chance.randint(1, 30)):
                    # Time between requests, so slow responses do not lower the rate.
                    due += chance.uniform(0.5, 1.5) * self._pause
                    if self._ended.wait(max(due - time.monotonic(), 0)):
                        return
                    self._ask(client, chance)

    def _ask(self, client: httpx.Client, chance: random.Random) -> None:
        text = "\n".join(chance.choices(self._sentences, k=chance.randint(1, 4)))
        leaves = chance.random() < 0.1
        try:
            with client.stream("POST", "api/translate/stream", json={"text": text}) as answer:
                for _ in answer.iter_lines():
                    if leaves:
                        break
        except httpx.HTTPError as error:
            with self._changed:
                self.failures.append(repr(error))
            return
        with self._changed:
            self.left += leaves
            self.answers += answer.status_code == 200
            self.refusals += answer.status_code != 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak test. Return 1 if a request failed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="make benchmark-soak")
    parser.add_argument("run", help="run directory")
    parser.add_argument("--source", required=True, help="text file, one sentence per line")
    parser.add_argument("--minutes", type=float, default=120, help="default: %(default)s")
    parser.add_argument("--clients", type=int, default=5, help="default: %(default)s")
    parser.add_argument(
        "--rate", type=float, default=10, help="requests per second (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--csv", default="build/soak.csv", help="default: %(default)s")
    values = parser.parse_args(arguments)
    sentences = pathlib.Path(values.source).read_text("utf-8").splitlines()
    table = pathlib.Path(values.csv)
    table.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "keras_transformer", "app", values.run, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            if found is None:
                return process.wait() or 1
            clients = Clients(found[0], sentences, values.clients, values.rate, values.seed)
            try:
                rows = _watch(process.pid, clients, values.minutes, table)
            finally:
                clients.stop()
        finally:
            process.terminate()
    _report(rows, clients)
    return 1 if clients.failures else 0


def _watch(pid: int, clients: Clients, minutes: float, table: pathlib.Path) -> list[dict]:
    start, rows = time.monotonic(), []
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["minutes", "megabytes", "files", "answers", "failures"])
        writer.writeheader()
        while (passed := (time.monotonic() - start) / 60) < minutes:
            time.sleep(min(_SECONDS_BETWEEN_ROWS, 60 * minutes))
            rows.append(
                {
                    "minutes": round(passed, 2),
                    "megabytes": _resident_megabytes(pid),
                    "files": len([*pathlib.Path(f"/proc/{pid}/fd").iterdir()]),
                    "answers": clients.answers,
                    "failures": len(clients.failures),
                }
            )
            writer.writerow(rows[-1])
            file.flush()
    return rows


def _resident_megabytes(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text("utf-8")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return round(int(found[1]) / _KILOBYTE, 1) if found else 0.0


def _report(rows: list[dict], clients: Clients) -> None:
    print(
        f"{clients.answers:,} answers, {clients.left:,} of them left in the middle, "
        f"{clients.refusals:,} refusals, {len(clients.failures):,} failures"
    )
    for failure in clients.failures[:5]:
        print(f"  {failure}")
    for share in (0, 0.1, 0.25, 0.5, 0.75, 1):
        row = rows[round(share * (len(rows) - 1))]
        print(f"minute {row['minutes']:6.1f}: {row['megabytes']:,.1f} MB, {row['files']} files")


if __name__ == "__main__":
    sys.exit(main())
