"""`keras-transformer app`: the web app and its JSON interface."""

import argparse
import dataclasses
import os
import re
import threading
from collections.abc import Sequence

from keras_transformer.argument_checks import int_from_zero, positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.files import tell
from keras_transformer.installation import requiring, start_backend_quietly
from keras_transformer.toolkit.app import API_KEY, TITLE, AppLimits
from keras_transformer.toolkit.cli.program import add_flags, flag, open_in_browser, warn_of_reach

HOST = "127.0.0.1"
PORT = 8080
MOST_PORT = 65535
MOST_TITLE = 100  # characters
_HOST_NAME = r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*"


HELP = "start the web app, to translate or parse in the browser"
DESCRIPTION = """Serve the web app and its JSON interface until Ctrl-C. The page translates text;
for a parser run, it draws trees. By default, only this machine can reach the page. It loads
nothing from the network."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    open: bool = flag("open the page in the browser", False)
    port: int = flag(
        f"port to listen on; 0 picks a free one (default: {PORT})", PORT, type=int_from_zero
    )
    host: str = flag(
        "address to listen on. With 0.0.0.0, other machines can reach the page too, without a "
        "password, encryption or protection from slow clients; to give other people access, use a "
        f"proxy such as nginx instead (default: {HOST})",
        HOST,
        metavar="ADDRESS",
    )
    name: list[str] | None = flag(
        "additional host name to accept, such as that of a reverse proxy; repeatable",
        action="append",
        default=[],
        metavar="HOST",
    )
    title: str = flag(f"title of the page (default: {TITLE})", TITLE, metavar="TEXT")
    source_language: str | None = flag(
        "language whose rules determine where sentences end (default: the run's source language, "
        "or en)",
        metavar="CODE",
    )
    most_characters: int = flag(
        f"maximum number of characters in a text (default: {AppLimits.characters})",
        AppLimits.characters,
        type=positive_int,
    )
    most_sentences: int = flag(
        f"maximum number of sentences in a text (default: {AppLimits.sentences})",
        AppLimits.sentences,
        type=positive_int,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    several = (
        "run directory or name of a shipped model; the translations of several runs are shown side "
        "by side (default: all shipped models)"
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=several)
    add_flags(parser, _Flags)


def app(values: argparse.Namespace) -> None:
    """Run the verb."""
    _check(values.port, values.name, values.title, values.source_language)
    if os.environ.get(API_KEY, "key").strip() == "":
        raise UserInputError(f"The environment variable `{API_KEY}` must not be empty.")
    with requiring("app", "FastAPI and uvicorn are not installed"):
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.runs.shipped_models import presets
    from keras_transformer.toolkit.app.request_guard import is_loopback
    from keras_transformer.toolkit.app.server import address_of, bound_socket, make_server, serve

    paths = values.runs or [model.path for model in presets()]
    if not paths:
        raise UserInputError(
            "No models are shipped with this installation: pass a RUN, such as the run of "
            "`keras-transformer demo`."
        )
    for path in paths:  # report errors before importing Keras
        RunDirectory.open(path)
    limits = AppLimits(characters=values.most_characters, sentences=values.most_sentences)
    with bound_socket(values.host, values.port) as bound:
        address = address_of(bound, values.host)
        reach = " Only this machine can reach it." if is_loopback(values.host) else ""
        if not is_loopback(values.host):
            warn_of_reach(address)
            tell(
                "warning: slow clients can block the app for everyone. To give other people "
                f"access, listen on {HOST} behind a proxy such as nginx (docs/app.md)."
            )
        start_backend_quietly()
        from keras_transformer.toolkit.app.application import create_app
        from keras_transformer.toolkit.app.loaded_runs import loaded_runs

        with loaded_runs(paths, limits) as runs:
            web_app = create_app(
                runs,
                limits=limits,
                host=values.host,
                names=values.name,
                source_language=values.source_language,
                title=values.title,
                api_key=os.environ.get(API_KEY),
            )

            def on_start() -> None:
                print(f"Open {address} in a browser.{reach} Ctrl-C stops the app.", flush=True)
                if values.open:  # in a thread, because the server must answer the browser
                    threading.Thread(target=open_in_browser, args=[address], daemon=True).start()

            def on_end() -> None:
                for run in runs:
                    run.queue.stop()

            serve(make_server(web_app, on_start, on_end), bound)


def _check(port: int, names: Sequence[str], title: str, source_language: str | None) -> None:
    from keras_transformer.runs.run_records import check_language_code

    if port > MOST_PORT:
        raise UserInputError(f"`--port` must be a number from 0 to {MOST_PORT}. Received: {port}")
    for name in names:
        if not re.fullmatch(_HOST_NAME, name):
            raise UserInputError(
                "`--name` must be a host name such as translate.example.org, without a port. "
                f"Received: {name}"
            )
    if not (title.strip() and title.isprintable() and len(title) <= MOST_TITLE):
        raise UserInputError(
            f"`--title` must be a line of 1 to {MOST_TITLE} printable characters. "
            f"Received: {title[: MOST_TITLE + 1]!r}"
        )
    check_language_code("--source-language", source_language)
