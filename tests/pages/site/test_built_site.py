"""The site that `make docs` builds: what its search finds, opened as a file too, and its heads."""

import importlib.util
import re
import subprocess
import sys

import pytest

from docs.tools.built_site import dead_links
from docs.tools.page_heads import HEADS
from tests.browser import PATIENCE
from tests.pages.page import ROOT
from tests.pages.site.search_ranking import Ranking

# What newcomers type, and the pages that answer. The queries were chosen before the site was
# tuned for them.
QUERIES = {
    "tflite": ["litert"],
    "8 GPUs": ["scaling"],
    "what is alpha": ["glossary", "translating"],
    "out of memory": ["faq", "training", "scaling"],
    "quantize": ["litert", "ctranslate2"],
    "layers": ["layers"],
    "batch size": ["training"],
    "resume training": ["training"],
    "bleu": ["translating", "glossary"],
    "android": ["tutorials/android_app"],
    "docker": ["tutorials/docker_compose", "serving"],
    "opus mt": ["opus_mt"],
    "hugging face": ["keras/coming_from_pipeline", "keras/coming_from_keras_hub"],
    "fine-tune": ["tutorials/fine_tune"],
    "beam size": ["translating"],
    "checkpoint averaging": ["training"],
    "gpu": ["scaling", "tutorials/get_started"],
    "jax": ["jax"],
    "pytorch": ["jax"],
    "vocabulary size": ["text"],
    "tokenizer": ["text"],
    "sacrebleu": ["translating"],
    "attention visualization": ["attention"],
    "label smoothing": ["the_paper", "training"],
    "learning rate schedule": ["the_paper", "training"],
    "tensorflow serving": ["serving"],
    "kubernetes": ["scaling"],
    "windows": ["project/compatibility"],
    "changelog": ["changelog"],
    "parse trees": ["parsing"],
    "lora": ["training", "tutorials/fine_tune"],
    "ensemble": ["translating"],
    "sampling": ["translating"],
    "length penalty": ["translating"],
    "csv": ["data", "training"],
    "multiple languages": ["opus_mt", "faq"],
    "install": ["tutorials/get_started"],
    "train my own model": ["training", "tutorials/language_pair"],
    "rest api": ["app", "serving"],
    "ios": ["litert"],
    "pipeline": ["keras/coming_from_pipeline"],
    "slurm": ["scaling"],
    "tensorboard": ["training"],
    "early stopping": ["training"],
    "positional encoding": ["the_paper", "layers"],
    "translate a file": ["translating"],
    "word alignment": ["translating"],
    "back translation": ["translating", "data"],
    "mixed precision": ["training", "keras/tools"],
    "roadmap": ["project/roadmap"],
    "TransformerEncoderLayer": ["api/layers"],
    "SearchOptions": ["api/decoding"],
    "build_transformer": ["api/models"],
    "fit_texts": ["api/data"],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def ranking(site):
    return Ranking(site)


@pytest.mark.parametrize("query", QUERIES)
def test_the_right_page_is_first(query, ranking):
    assert ranking.pages(query)[0] in [f"{page}.html" for page in QUERIES[query]]


def test_common_words_of_a_question_change_nothing(ranking):
    assert ranking.pages("What is the batch size?") == ranking.pages("batch size?")


def test_every_page_has_its_own_description(site):
    descriptions = {}
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        if path.name != "404.html" and 'name="generator"' in text:  # not one that a page embeds
            found = re.search('<meta name="description" content="([^"]+)"', text)
            descriptions[path.relative_to(site).as_posix()] = found[1]
    wanted = {page.replace("README.md", "index.md").replace(".md", ".html") for page in HEADS}
    assert set(descriptions) == wanted
    assert len(set(descriptions.values())) == len(wanted)


def test_it_loads_nothing_from_elsewhere(site):
    assert dead_links(site) == []


def test_the_search_of_a_site_opened_as_a_file_ranks_as_computed(site, ranking, browser):
    page = browser.new_page()
    page.set_default_timeout(PATIENCE)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    box = page.get_by_role("textbox", name="Search")
    box.click()
    first = page.locator(".md-search-result__link").first
    for query in [*[*QUERIES][::4], "build_transformer", "fit_te"]:
        box.fill("")
        box.press_sequentially(query)
        first.and_(page.locator(f'[href*="/{ranking.pages(query)[0]}"]')).wait_for()
    page.close()
    local = ("file:", "data:", "blob:")
    assert [address for address in asked if not address.startswith(local)] == []
