"""The exported page: what it contains, what it refuses, and what it translates in a browser."""

import base64
import functools
import gzip
import hashlib
import http.server
import re
import threading

import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_bergamot, export_page
from keras_transformer.runs.shipped_models import shipped_folder
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.browser import browser, violations, visit  # noqa: F401
from tests.random_translation import build, sentences
from tests.small_trained_run import small_trained_run
from tests.translation_training.number_text import pairs

LINES = sentences(50)
STUDENT = {
    "zero_id": 1,
    "positions": "sinusoidal_t2t",
    "decoder_unit": "ssru",
    "normalize_first": False,
}
GREEDY = {"beam_size": 1}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(LINES, vocabulary_size=56)


def translator_of(tokenizer, **options):
    sizes = {"hidden_dim": 64, "intermediate_dim": 64, "use_bias": True}
    return Translator(build(tokenizer, **sizes | STUDENT | options), tokenizer, **GREEDY)


def parts_of(page):
    """The contents of the elements that the page unpacks, by their id."""
    found = re.findall(r'<script type="text/plain" id="(\w+)">([^<]*)</script>', page)
    return {name: gzip.decompress(base64.b64decode(content)) for name, content in found}


def test_a_page_contains_the_engine_the_model_and_what_it_allows(tokenizer, tmp_path):
    translator = translator_of(tokenizer)
    path = export_page(
        translator, tmp_path / "page.html", calibration=LINES, notice=["By A & B </p>"]
    )
    page = path.read_text("utf-8")
    exported = export_bergamot(translator, tmp_path / "ende", precision="int8", calibration=LINES)
    parts = parts_of(page)
    assert parts["model"] == (exported / "model.ende.intgemm.alphas.bin").read_bytes()
    assert parts["vocabulary"] == (exported / "vocab.ende.spm").read_bytes()
    assert "shortlist" not in parts
    readme = (shipped_folder("bergamot") / "README.md").read_text("utf-8")
    for name in ("engine", "wasm"):
        assert hashlib.sha256(parts[name]).hexdigest() in readme
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src 'none'; connect-src 'none';" in policy
    assert not {"'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*"} & {*policy.split()}
    assert "<p>By A &amp; B &lt;/p&gt;</p>" in page
    assert "{{" not in page


@pytest.mark.parametrize(
    ("options", "search", "message"),
    [
        ({"positions": "learned", "max_length": 64}, {}, "positions='learned'"),
        ({"positions": "rotary"}, {}, "positions='rotary'"),
        ({"decoder_unit": "attention", "normalize_first": True}, {}, "normalize_first=True"),
        ({"hidden_dim": 32}, {}, "hidden_dim=32"),
        ({"tie_weights": False}, {}, "tie_weights=False"),
        ({"zero_id": None}, {}, "zero_id=None"),
        ({}, {"beam_size": 2}, "length_penalty='power'"),
        ({}, {"beam_size": 2, "length_penalty": "power"}, "ending='marian'"),
        ({}, {"repetition_penalty": 1.5}, "repetition_penalty=1.0"),
        ({}, {"min_length": 3}, "min_length=0"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_in_one_line(
    tokenizer, tmp_path, options, search, message
):
    translator = translator_of(tokenizer, **options)
    with pytest.raises(UserInputError) as caught:
        export_page(translator, tmp_path / "page.html", calibration=LINES, **search)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "`export litert`" in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_calibration_and_places_are_checked_first(tokenizer, tmp_path):
    translator = translator_of(tokenizer)
    path = tmp_path / "page.html"
    with pytest.raises(UserInputError, match="`--calibration FILE`. must be sentences"):
        export_page(translator, path)
    with pytest.raises(UserInputError, match="`path` must be a file"):
        export_page(translator, tmp_path, calibration=LINES)
    (tmp_path / "page_files").mkdir()
    (tmp_path / "page_files" / "mine").touch()
    with pytest.raises(UserInputError, match="page_files already contains files"):
        export_page(translator, path, calibration=LINES, split=True)
    assert not path.exists()


@pytest.fixture(scope="module", params=["ssru", "attention"])
def digits_run(request, tmp_path_factory):
    """A run in Marian's form that translates digits, and its calibration file."""
    folder = tmp_path_factory.mktemp(request.param)
    form = STUDENT | {"decoder_unit": request.param, "final_norm": False, "shortlist": True}
    languages = {"source_language": "en", "target_language": "de"}
    run = small_trained_run(folder / "run", learning_rate_scale=0.5, **form, **languages)
    (folder / "calibration.en").write_text("".join(f"{line}\n" for line in pairs()[0][::8]))
    return run, folder / "calibration.en"


def translated(page, text):
    """The translation of a text, after it is complete."""
    page.fill("#text", text)
    page.locator("#translation[aria-busy=false]").wait_for()
    return page.locator("#translation").inner_text()


@pytest.mark.slow
@pytest.mark.commands
@pytest.mark.parametrize("search", [(), ("--beam-size", "4")], ids=["greedy", "beam"])
def test_it_translates_as_the_translator(digits_run, tmp_path, visit, search, capsys):  # noqa: F811
    """From a file, with its words linked, and whatever the text contains."""
    run, calibration = digits_run
    path = tmp_path / "page.html"
    options = ["--length-penalty", "power", "--ending", "marian", *(search or ("--beam-size", "1"))]
    command = ["export", "page", str(run), str(path), "--calibration", str(calibration)]
    assert cli.main([*command, "--shortlist", *options]) == 0
    assert capsys.readouterr().out == f"{path}\n"
    page = visit(path, permissions=["clipboard-read", "clipboard-write"])
    assert page.title() == "English to German"
    lines = pairs()[0][::7]
    beam_size = int((search or ("", "1"))[1])
    translator = Translator.load(
        run, beam_size=beam_size, length_penalty="power", ending="marian", shortlist=True
    )
    expected = translator.translate(lines)
    assert expected == pairs()[1][::7]
    assert translated(page, "\n".join(lines)).split("\n") == expected
    assert page.locator("#progress").text_content() == f"{len(lines)} sentences"

    assert translated(page, "one two three four") == "eins zwei drei vier"
    numbers = [one.get_attribute("data-number") for one in page.locator(".word").all()]
    assert {*numbers} <= {*"0123"}
    assert len(numbers) > 1

    # Words are linked by their numbers, whatever the model has learned of alignments.
    html = '<b id="1">Zwei</b><b id="1"> &lt;b&gt;</b> <b id="0">&amp; eins</b>.'
    page.evaluate(f"keep('one two', parse('{html}'))")
    assert translated(page, "  one two") == "  Zwei <b> & eins."
    page.locator("#translation").press("ArrowRight")
    assert page.locator("#announcer").text_content() == "Zwei: two"
    assert page.locator("#backdrop mark").text_content() == "two"
    assert page.locator("#translation .linked").all_text_contents() == ["Zwei", " <b>"]
    page.locator("#translation .word").last.hover()
    assert page.locator("#backdrop mark").text_content() == "one"
    page.locator("#text").press("End")
    assert page.locator("#translation .linked").all_text_contents() == ["Zwei", " <b>"]
    page.get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == "  Zwei <b> & eins."
    assert violations(page) == []


HOSTILE = {
    "HTML": '<script>alert(1)</script></textarea> one & <b id="0">two</b> &lt; <!-- x',
    "right to left": "שלום one. مرحبا two.",
    "emoji": "one 👩‍👩‍👧‍👦 🇩🇪 two",
    "control characters": "\x00one\x01 \u200b\ufeff two\u202e",
    "one long word": "x" * 2000,
    "no words": "?!... <<< &&&",
}


@pytest.mark.slow
@pytest.mark.commands
def test_hostile_texts_are_text(digits_run, tmp_path, visit):  # noqa: F811
    run, calibration = digits_run
    command = ["export", "page", str(run), str(tmp_path / "page.html"), "--beam-size", "1"]
    assert cli.main([*command, "--calibration", str(calibration)]) == 0
    page = visit(tmp_path / "page.html", dark=True, phone=True)
    tags = "[...document.querySelectorAll('#translation *')].map((one) => one.tagName).join()"
    for name, text in HOSTILE.items():
        translated(page, text)
        assert re.fullmatch(r"(SPAN,?)+", page.evaluate(tags)), name
    for nothing in (" \n\t", "\u200b", "\x00\x01", "\ufeff"):
        page.fill("#text", nothing)
        page.locator("#translation[aria-busy=false]").wait_for()
        assert page.locator("#progress").text_content() == ""
    page.evaluate("area.value = 'one \\ud800 two'; update()")
    assert translated(page, "one two three four") == "eins zwei drei vier"
    # A long text is translated sentence by sentence, and the next one does not wait for it.
    page.fill("#text", "".join(f"One two {number}. " for number in range(5000)))
    page.get_by_text(re.compile(r"^[1-9]\d* of 5000 sentences$")).wait_for()
    assert translated(page, "four three two one") == "vier drei zwei eins"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # An engine that has failed starts again.
    page.evaluate("numbered = () => '<b>'")
    assert translated(page, "two two") == "two two"


@pytest.mark.slow
@pytest.mark.commands
def test_a_split_page_loads_its_files_from_the_server(digits_run, tmp_path, visit):  # noqa: F811
    run, calibration = digits_run
    options = ["--split", "--beam-size", "1", "--calibration", str(calibration)]
    assert cli.main(["export", "page", str(run), str(tmp_path / "page.html"), *options]) == 0
    assert (tmp_path / "page.html").stat().st_size < 50_000
    assert cli.main(["check", str(tmp_path / "page_files")]) == 0
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(f"http://127.0.0.1:{server.server_port}/page.html")
        assert translated(page, "one two three four") == "eins zwei drei vier"
        (tmp_path / "page_files" / "model.gz").unlink()
        page = visit(page.url, allow=["404"])
        page.get_by_text("The model cannot be loaded: page_files/model.gz is missing.").wait_for()
        server.shutdown()
