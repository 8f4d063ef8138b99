"""The shipped models on the home page."""

import functools
import http.server
import threading
import types

import numpy as np
import pytest

from docs.tools import home_translators
from keras_transformer import Translator
from keras_transformer.runs import shipped_models
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from tests.export.test_page import GREEDY, LINES, STUDENT
from tests.random_translation import build
from tests.runs.test_shipped_models import write_list

HOME = types.SimpleNamespace(file=types.SimpleNamespace(src_uri="index.md"))
INSTALL = '<h2 id="install">Install</h2>'


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """The folder of the model en_de, and the site with its page."""
    folder, tokenizer = tmp_path / "saved", SentencePieceTokenizer.train(LINES, vocabulary_size=56)
    write_list(folder, "en_de")
    (folder / "bergamot").symlink_to(shipped_models.shipped_folder("bergamot"))
    offsets, tokens = np.arange(57) * 56, np.tile(np.arange(56), 56)
    model = build(tokenizer, **STUDENT, hidden_dim=64, intermediate_dim=64, use_bias=True)
    shortlist = Shortlist(offsets, tokens, [], tokenizer)
    Translator(model, tokenizer, shortlist=shortlist, **GREEDY).save_to_preset(folder / "en_de")
    (folder / "en_de" / "calibration.txt").write_text("\n".join(LINES), "utf-8")
    monkeypatch.setattr(shipped_models, "_CLONE", folder)
    home_translators.pages.cache_clear()
    yield folder
    home_translators.pages.cache_clear()


def test_a_model_is_loaded_when_its_section_is_opened(shipped, tmp_path, visit):
    content = home_translators.on_page_content(INSTALL, HOME, None, None)
    assert content.endswith(INSTALL)
    (tmp_path / "translate").mkdir()
    (tmp_path / "index.html").write_text(f"<!doctype html><meta charset=utf-8>{content}", "utf-8")
    (page,) = home_translators.pages().values()
    (tmp_path / home_translators.address("en_de")).write_bytes(page)
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = visit(f"http://127.0.0.1:{server.server_port}/index.html")
        home.wait_for_load_state("networkidle")
        assert "/translate/en_de.html" not in asked
        home.get_by_text("en → de: translate in this browser").click()
        translator = home.frame_locator("iframe")
        translator.locator("#text").fill(LINES[0])
        translator.locator("#translation[aria-busy=false]").wait_for()
        assert translator.get_by_text("License: CC BY 2.0 FR.").count() == 1
        assert asked.count("/translate/en_de.html") == 1
        server.shutdown()


def test_without_models_the_home_page_is_unchanged(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped_models, "_CLONE", tmp_path)
    home_translators.pages.cache_clear()
    assert home_translators.on_page_content(INSTALL, HOME, None, None).strip() == INSTALL
    with pytest.raises(ValueError, match="index.md has no"):
        home_translators.on_page_content("<p>", HOME, None, None)
