"""Apps that listen on a free port, in a thread of the test's process."""

import contextlib
import threading

import httpx
import pytest

from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.application import create_app
from keras_transformer.toolkit.app.loaded_runs import LoadedParser, LoadedTranslator
from keras_transformer.toolkit.app.server import address_of, bound_socket, make_server, serve
from tests.app.fake_run import FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import browser, visit  # noqa: F401
from tests.random_translation import build_parser, sentences

HOST = "127.0.0.1"
LIMITS = AppLimits(characters=2000, sentences=20, tokens=64)


@contextlib.contextmanager
def listening(runs, **options):
    """The address of an app with these runs, which ends with the block."""
    started = threading.Event()
    app = create_app(runs, host=HOST, **options)
    server = make_server(app, started.set, lambda: [run.queue.stop() for run in runs])
    bound = bound_socket(HOST, 0)
    thread = threading.Thread(target=serve, args=(server, bound))
    thread.start()
    assert started.wait(60)
    try:
        yield address_of(bound, HOST)
    finally:
        server.should_exit = True
        thread.join(60)
        bound.close()
        for run in runs:
            run.queue.close()
    assert not thread.is_alive()


@pytest.fixture
def start():
    """Start apps; gives a client of each."""
    with contextlib.ExitStack() as stack:

        def start(*runs, **options):
            address = stack.enter_context(listening(runs, **options))
            for run in runs:  # however the test ends, nothing waits for its turn
                stack.callback(run.turns.release, 1_000_000)
            return stack.enter_context(httpx.Client(base_url=address, timeout=60))

        yield start


def fake_run():
    """A fake run that specifies its languages."""
    run = FakeRun()
    run.source_language, run.target_language = "en", "de"
    return run


@pytest.fixture(scope="module")
def fake_app():
    """A client of an app with a fake run, which tests share; it computes at once."""
    with (
        listening([fake_run()]) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client


@pytest.fixture
def expect(browser):  # noqa: F811
    """Playwright's `expect`, which waits until it holds."""
    from playwright.sync_api import expect

    expect.set_options(timeout=30_000)
    return expect


@pytest.fixture
def typed(visit, start, expect):  # noqa: F811
    """Open an app of some runs, type a text and wait for its translations; gives the page."""

    def typed(text, shown, *runs, **options):
        page = visit(str(start(*runs).base_url), **options)
        field(page).fill(text)
        expect(page.locator(SENTENCE)).to_have_text(shown)
        return page

    return typed


@pytest.fixture(scope="session")
def translator(trained_run):
    return Translator.load(trained_run, max_source_length=64)


@pytest.fixture(scope="session")
def parser():
    """A parser with random weights, whose trees are wild."""
    target = TreeTokenizer.of(["(NP", "(S", "(VP", ")NP", ")S", ")VP", "XX"])
    source = SentencePieceTokenizer.train(sentences(50), vocabulary_size=320, byte_fallback=True)
    model = build_parser(target, source)
    return Parser(model, target, source, beam_size=2, extra_length=40, max_source_length=64)


@pytest.fixture(scope="session")
def address(translator, parser):
    """The address of an app with two runs that translate digits, and one that parses."""
    runs = [
        LoadedTranslator("digits", translator, LIMITS),
        LoadedTranslator("digits (2)", translator, LIMITS),
        LoadedParser("trees", parser, LIMITS),
    ]
    with listening(runs, limits=LIMITS) as address:
        yield address


@pytest.fixture(scope="session")
def one_run(translator):
    """The address of an app with one run."""
    run = LoadedTranslator("digits", translator, LIMITS)
    with listening([run], limits=LIMITS) as address:
        yield address


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=120) as client:
        yield client
