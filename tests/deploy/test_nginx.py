"""`deploy/nginx/nginx.conf` in a real nginx before an app: slow clients shut nobody out."""

import contextlib
import getpass
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess

import httpx
import psutil
import pytest

from keras_transformer.toolkit.cli.verbs.app_command import HOST, PORT
from tests.app.conftest import listening
from tests.app.fake_run import FakeRun
from tests.app.flood import ADDRESSES, FLOODS, Flood, ask
from tests.external_data import ROOT
from tests.pages.page import Page
from tests.serving.servers.certificates import Certificates
from tests.waiting import wait_until

NAME = "translate.example"
CONFIGURATION = ROOT / "deploy" / "nginx" / "nginx.conf"
TEMPORARY = "".join(
    f"{kind}_temp_path {{folder}}/{kind};"
    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
)


@pytest.fixture
def nginx(tmp_path):
    """Start nginx with the configuration before an app on a port; gives nginx's port."""
    path = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
    program = shutil.which("nginx", path=path)
    if program is None:
        pytest.skip("nginx is not installed")
    with contextlib.ExitStack() as stack:

        def start(app_port, **changes):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            text = changed(
                {
                    "user www-data;": f"user {getpass.getuser()};",
                    "/var/log/nginx": str(tmp_path),
                    "http {": "http {" + TEMPORARY.format(folder=tmp_path),
                    "listen 80 ": f"listen 127.0.0.1:{port} ",
                    f"http://{HOST}:{PORT};": f"http://{HOST}:{app_port};",
                }
                | changes
            )
            (tmp_path / "nginx.conf").write_text(text)
            options = ["-p", tmp_path, "-c", tmp_path / "nginx.conf", "-e", tmp_path / "start.log"]
            settings = f"daemon off; pid {tmp_path}/nginx.pid;"
            process = stack.enter_context(subprocess.Popen([program, *options, "-g", settings]))
            stack.callback(process.terminate)
            wait_until(lambda: answers(port))
            return port

        yield start


def changed(changes):
    """The configuration with each text replaced, at all of its places."""
    text = CONFIGURATION.read_text("utf-8")
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def num_open(port):
    """The number of connections that the server on a port holds."""
    return sum(
        one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port
        for one in psutil.net_connections("tcp")
    )


@pytest.fixture
def app_port():
    with listening([FakeRun()]) as address:
        yield httpx.URL(address).port


@pytest.mark.parametrize("addresses", ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_stays_in_nginx_and_shuts_nobody_out(nginx, app_port, kind, addresses):
    port = nginx(app_port)
    with Flood(port, kind, 40, addresses):
        ask(port)
        wait_until(lambda: num_open(app_port) == 0)
        assert num_open(port) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("addresses", ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize("kind", FLOODS)
def test_so_does_one_of_300(nginx, app_port, kind, addresses):
    port = nginx(app_port)
    with Flood(port, kind, 300, addresses):
        ask(port)
        wait_until(lambda: num_open(app_port) == 0)  # what is complete has been answered
        assert statistics.median(ask(port) for _ in range(20)) < 1


@pytest.mark.parametrize("kind", [kind for kind in FLOODS if kind != "slow bodies"])
def test_each_state_of_a_connection_has_a_deadline(nginx, app_port, kind):
    port = nginx(app_port, **{" 10s;": " 3s;"})
    with Flood(port, kind, 5):
        assert num_open(port) >= 5
        wait_until(lambda: num_open(port) == 0, 30)


def test_one_address_cannot_take_all_connections(nginx, app_port):
    port = nginx(app_port, **{"addresses 500;": "addresses 20;"})
    with Flood(port, "slow bodies", 40), httpx.Client(base_url=f"http://127.0.0.1:{port}") as same:
        assert same.get("/").status_code == 429
        transport = httpx.HTTPTransport(local_address="127.0.0.2")
        with httpx.Client(base_url=same.base_url, transport=transport) as other:
            assert other.get("/").status_code == 200


def test_a_stream_passes_line_by_line_and_ends_with_its_client(nginx):
    run = FakeRun(turns=1)
    with listening([run], names=[NAME]) as address:
        port = nginx(httpx.URL(address).port)
        site = f"http://{NAME}:{port}"
        headers = {"Host": f"{NAME}:{port}", "Origin": site}
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as client,
            client.stream(
                "POST", "/api/translate/stream", json={"text": "\n".join("abcdefghij")}
            ) as answer,
        ):
            lines = answer.iter_lines()
            events = [json.loads(next(lines))["event"] for _ in range(3)]
            assert events == ["start", "sentence", "sentence"]
        wait_until(lambda: run.queue.waiting() == 0)
        run.turns.release(100)


def test_the_lines_for_encryption_and_passwords_are_right(nginx, app_port, tmp_path):
    certificate, key = Certificates(tmp_path).server
    (tmp_path / "passwords").write_text("me:{PLAIN}secret\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nginx(
        app_port,
        **{
            "    # ": "    ",
            "listen 443 ": f"listen 127.0.0.1:{port} ",
            "/etc/ssl/certs/translate.pem": str(certificate),
            "/etc/ssl/private/translate.key": str(key),
            "/etc/nginx/passwords": str(tmp_path / "passwords"),
        },
    )
    address = f"https://127.0.0.1:{port}/api/runs"
    assert httpx.get(address, verify=False).status_code == 401
    assert httpx.get(address, verify=False, auth=("me", "secret")).status_code == 200


def test_the_page_shows_its_limits():
    table = Page("docs/app.md").text.split("| limit in `nginx.conf` |")[1].split("\n\n")[0]
    shown = [int(number.replace(",", "")) for number in re.findall(r"\| ([\d,]+)", table)]
    names = ("client_header_timeout", "client_body_timeout", "proxy_read_timeout", "send_timeout",
             "keepalive_timeout", "limit_conn addresses", "worker_connections")  # fmt: skip
    text = CONFIGURATION.read_text("utf-8")
    assert shown == [int(re.search(rf" {name} (\d+)s?;", text)[1]) for name in names]


def test_its_log_does_not_grow_with_bad_requests(nginx, app_port, tmp_path):
    port = nginx(app_port)
    address = f"http://127.0.0.1:{port}/"
    for _ in range(5):
        assert httpx.post(address, content=b"x" * 2_000_000).status_code == 413
        assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 403
    logs = [path for path in pathlib.Path(tmp_path).glob("*.log") if path.stat().st_size]
    assert [path.read_text() for path in logs] == []
