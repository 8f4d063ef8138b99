"""The page in a real browser: translate, look at words and attention, compare runs, draw trees.

At the end, a text or an option changes, and runs translate in opposite directions.
"""

import json
import re

import pytest

from keras_transformer.toolkit.app import AppLimits
from tests.app.fake_run import FakeParser, FakeRun
from tests.app.page_parts import SENTENCE, field
from tests.browser import violations
from tests.waiting import wait_until

TEXT = "one two three\n\nfour five. six"
SENTENCES = ["one two three", "four five.", "six"]


@pytest.fixture
def translated(visit, one_run, expect):
    """Open the page of one run and type the text; gives the page, once all is there."""

    def open_page(**options):
        page = visit(one_run, **options)
        field(page).fill(TEXT)
        expect(page.locator(SENTENCE)).to_have_count(3)
        return page

    return open_page


def chosen(page, expect, number=0):
    """Choose a sentence and wait for its words."""
    page.locator(SENTENCE).nth(number).click()
    expect(page.locator("#sentence .words")).to_have_count(2)


def texts(locator):
    return locator.all_text_contents()


def marks(page):
    """The words that are marked in the text, in the translation and in the panel."""
    return (
        texts(page.locator("#backdrop .linked")),
        texts(page.locator(".column .linked")),
        texts(page.locator("#sentence .linked")),
    )


def is_as_wide_as_the_window(page):
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_text_is_translated_while_typing(translated, translator, expect):
    page = translated()
    best = translator.translate(SENTENCES)
    shown = page.get_by_role("group", name="Translation by digits")
    assert shown.text_content() == f"{best[0]}\n\n{best[1]} {best[2]}"
    expect(page.locator(".column")).to_contain_text("3 sentences")
    expect(page.locator("#limits")).to_have_text(
        f"{len(TEXT)} of 2,000 characters, at most 20 sentences"
    )
    expect(page.get_by_role("status")).to_have_text("digits: 3 sentences")
    field(page).fill("")
    expect(page.locator(".sentence")).to_have_count(0)


@pytest.mark.slow
def test_without_that_a_key_or_the_button_translates(visit, start, expect):
    run = FakeRun()
    page = visit(str(start(run).base_url))
    page.get_by_label("While typing").uncheck()
    field(page).fill("a house")
    page.wait_for_timeout(1000)
    assert run.batches == []
    page.keyboard.press("Control+Enter")
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    field(page).fill("a tree")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator(SENTENCE)).to_have_text(["A TREE"])


@pytest.mark.slow
def test_the_n_best_have_scores_and_can_be_taken(translated, translator, expect):
    page = translated()
    page.locator(SENTENCE).first.click()
    candidates = translator.translate_nbest(SENTENCES[:1], 3)[0]
    labels = page.locator(".candidates label")
    expect(labels).to_have_count(3)
    assert texts(labels) == [text + f"{score:.2f}".replace("-", "−") for text, score in candidates]
    page.get_by_role("radio").nth(1).check()
    expect(page.locator(SENTENCE).first).to_have_text(candidates[1][0])
    expect(page.get_by_role("radio").nth(1)).to_be_focused()


@pytest.mark.slow
def test_the_text_and_the_translation_can_be_copied(translated, expect):
    page = translated(permissions=["clipboard-read", "clipboard-write"])
    shown = page.get_by_role("group", name="Translation by digits").text_content()
    for name, copied in (("Copy the translation", shown), ("Copy the text", TEXT)):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == copied
        expect(page.get_by_role("button", name=name)).to_be_visible()


def test_to_point_at_a_word_shows_where_it_comes_from(translated, translator, expect):
    page = translated()
    chosen(page, expect)
    (target,) = translator.translate(SENTENCES[:1])
    (alignment,) = translator.align(SENTENCES[:1], [target])
    words = target.split()
    for index, word in enumerate(words):
        page.locator(SENTENCE).first.locator(".word").nth(index).hover()
        linked = [SENTENCES[0].split()[s] for s, t in alignment.word_pairs() if t == index]
        expect(page.locator("#backdrop .linked")).to_have_text(linked)
        assert marks(page) == (linked, [word], [*linked, word])
    page.locator("h1").hover()
    expect(page.locator(".linked")).to_have_count(0)
    expect(page.locator("#backdrop .marked")).to_have_text(SENTENCES[0])


@pytest.mark.slow
def test_the_keyboard_shows_it_too(translated, translator, expect):
    page = translated()
    field(page).press("Tab")
    for name in ("While typing", "Translate", "More", "History"):
        assert name in page.evaluate(
            "document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent"
        )
        page.keyboard.press("Tab")
    expect(page.locator(SENTENCE).first).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(SENTENCE).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sentence 2 of 3")).to_be_focused()
    (target,) = translator.translate(SENTENCES[1:2])
    (alignment,) = translator.align(SENTENCES[1:2], [target])
    expect(page.locator("#sentence .words")).to_have_count(2)
    page.locator("#sentence .words").nth(1).locator(".word").first.focus()
    page.keyboard.press("ArrowRight")
    word = page.locator("#sentence .words").nth(1).locator(".word").nth(1)
    expect(word).to_be_focused()
    linked = [SENTENCES[1].split()[s] for s, t in alignment.word_pairs() if t == 1]
    assert marks(page)[0] == linked
    assert word.get_attribute("aria-label") == f"{target.split()[1]}: {', '.join(linked)}"
    page.keyboard.press("Escape")
    expect(page.locator("#sentence")).to_be_hidden()
    expect(page.locator(SENTENCE).nth(1)).to_be_focused()
    page.locator(SENTENCE).nth(1).click()
    expect(page.locator("#sentence")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#sentence")).to_be_hidden()


@pytest.mark.slow
def test_a_text_that_grows_keeps_the_chosen_sentence(translated, expect):
    page = translated()
    chosen(page, expect, 2)
    expect(page.get_by_role("button", name="Next sentence")).to_be_disabled()
    field(page).fill(TEXT + "\ntwo")
    expect(page.locator(SENTENCE)).to_have_count(4)
    expect(page.locator("#sentence-title")).to_have_text("Sentence 3 of 4")
    page.get_by_role("button", name="Next sentence").click()
    expect(page.locator("#sentence-title")).to_have_text("Sentence 4 of 4")


@pytest.mark.slow
def test_words_that_were_not_aligned_in_time_are_aligned_later(typed, expect):
    run = FakeRun(turns=1)
    page = typed("a\nb", ["A", "B"], run)
    field(page).fill("a\nb\nc")  # while the pair of b waits for that of a
    expect(page.locator(".column")).to_contain_text("0 of 3")
    run.turns.release(100)
    expect(page.locator(SENTENCE)).to_have_text(["A", "B", "C"])
    chosen(page, expect, 1)


@pytest.mark.slow
def test_the_attention_of_the_chosen_sentence_opens_and_follows(translated, translator, expect):
    page = translated()
    chosen(page, expect)
    show = page.locator("#sentence .show")
    show.click()
    drawn = page.locator("#attention .kt-attention")
    expect(drawn).to_have_count(1)
    expect(show).to_have_attribute("aria-expanded", "true")
    for piece in translator.source_tokenizer.pieces(translator.source_tokenizer.encode(["two"])[0]):
        expect(drawn).to_contain_text(piece.replace("▁", "·"))
    page.get_by_role("button", name="Next sentence").click()
    expect(page.locator("#sentence-title")).to_have_text("Sentence 2 of 3")
    expect(drawn).not_to_contain_text("two")
    assert violations(page) == []
    drawn.locator(".kt-query .kt-token").first.click()
    page.keyboard.press("Escape")
    expect(drawn).to_have_attribute("data-focus", "")
    expect(drawn).to_be_visible()
    show.click()
    expect(drawn).to_have_count(0)
    expect(page.locator("#attention")).to_be_hidden()


def test_two_runs_stand_side_by_side_and_a_parser_draws_trees(
    visit, address, translator, parser, expect
):
    page = visit(address)
    field(page).fill("one two\n\nsix")
    expect(page.locator(SENTENCE)).to_have_count(4)
    left, right = (page.locator(".column").nth(number) for number in range(2))
    assert left.bounding_box()["y"] == right.bounding_box()["y"]
    best = translator.translate(["one two", "six"])
    assert texts(page.locator(SENTENCE)) == best * 2
    chosen_words = page.locator("#sentence .words")
    right.locator(SENTENCE).first.click()
    expect(chosen_words).to_have_count(4)
    expect(page.locator("#sentence h3")).to_have_text(["digits", "digits (2)"])
    expect(page.locator(SENTENCE + "[aria-pressed=true]")).to_have_count(2)

    trees = page.locator(".tree")
    expect(trees.locator("svg")).to_have_count(2)
    expected = parser.parse(["one two", "six"])
    assert texts(trees.locator(".leaf")) == ["one", "two", "six"]
    assert texts(trees.locator(".brackets")) == [str(tree) for tree in expected]
    root = trees.first.get_by_role("treeitem").first
    root.focus()
    marked = trees.first.locator("[role=treeitem].inside")
    expect(marked).to_have_count(trees.first.get_by_role("treeitem").count())
    for _ in range(100):
        page.keyboard.press("ArrowDown")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused == "one"
    expect(marked).to_have_text("one")
    page.keyboard.press("ArrowUp")
    expect(marked).not_to_have_count(1)
    assert violations(page) == []


@pytest.mark.slow
def test_options_of_the_search_are_sent_and_otherwise_each_runs_own(visit, start, expect):
    page = visit(str(start(FakeRun("en_de"), FakeParser("trees")).base_url))
    asked = []
    page.on("request", lambda request: asked.append((request.url, request.post_data)))
    field(page).fill("one")
    expect(page.locator(SENTENCE)).to_have_text(["ONE"])
    page.get_by_text("More", exact=True).click()
    for option in page.locator("#options :is(input, select)").all():
        expect(option).to_have_accessible_description(re.compile(r"\w+.*\.$"))
    page.get_by_label("Beam size").fill("2")
    page.get_by_label("Shorter or longer").fill("1.5")
    page.get_by_label("Strength of alpha").select_option("power: stronger")
    page.get_by_label("End of the search").select_option("transformers")
    page.get_by_label("Longest translation").fill("9")
    page.get_by_label("Best translations").fill("4")
    asked.clear()
    page.get_by_label("Best translations").press("Tab")
    expect(page.locator(".candidates, .tree svg")).to_have_count(1)
    bodies = {
        body["run"]: body
        for url, data in asked
        if url.endswith("/stream")
        for body in [json.loads(data)]
    }
    search = {"beam_size": 2, "alpha": 1.5, "length_penalty": "power", "extra_length": 9}
    text = {"text": "one", "long_sentences": "skip"}
    translation = {**text, "n_best": 2, "search": {**search, "ending": "transformers"}}
    assert bodies == {
        "en_de": {**translation, "run": "en_de"},
        "trees": {**text, "run": "trees", "search": search},
    }


@pytest.mark.slow
def test_sentences_appear_one_by_one_and_the_rest_can_be_stopped(typed, expect):
    run = FakeRun(turns=1)
    page = typed("\n".join("abcdefgh"), ["A", "B"], run)
    expect(page.locator(".sentence.awaited")).to_have_text(["…"] * 6)
    expect(page.locator(".column")).to_contain_text("2 of 8")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Translate")).to_be_visible()
    expect(page.locator(".column .text")).to_have_text(re.compile(r"^A\s*B\s*$"))
    wait_until(lambda: run.queue.waiting() <= 2)  # pairs to align, no sentences
    run.turns.release(100)
    field(page).fill("later")
    expect(page.locator(SENTENCE)).to_have_text(["LATER"])
    translated = [item for work, items in run.batches if work.task == "translate" for item in items]
    assert translated == ["a", "b", "c", "d", "later"]


@pytest.mark.slow
def test_a_closed_tab_frees_the_model(typed):
    run = FakeRun(turns=1)
    page = typed("\n".join("abcdefgh"), ["A", "B"], run)
    assert run.queue.waiting() > 0
    page.close()
    wait_until(lambda: run.queue.waiting() == 0)


@pytest.mark.slow
def test_a_refusal_is_told_where_the_translation_would_be(visit, start, expect):
    client = start(FakeRun(), limits=AppLimits(characters=10, sentences=2))
    page = visit(str(client.base_url), allow=["413", "422"])
    field(page).fill("a\nb\nc")
    alert = page.locator(".column").get_by_role("alert")
    expect(alert).to_have_text("A request may have at most 2 sentences. Received: 3")
    field(page).fill("a house too large")
    expect(page.locator("#limits")).to_have_class(re.compile("over"))
    expect(alert).to_have_text("A request may have at most 10 characters. Received: 17")
    field(page).fill("a" * 200_000)  # which the app would not read to its end
    expect(alert).to_have_text("A request may have at most 10 characters. Received: 200,000")
    field(page).fill("a")
    expect(page.locator(SENTENCE)).to_have_text(["A"])
    expect(alert).to_be_hidden()
    assert violations(page) == []


@pytest.mark.slow
def test_a_language_is_chosen_where_the_model_has_several(typed, expect):
    run = FakeRun(languages=["deu", "fra"])
    page = typed("a", ["A"], run)
    page.get_by_label("into").select_option("French")
    expect(page.locator(".column .text")).to_have_attribute("lang", "fra")
    expect(page.locator(SENTENCE)).to_have_text(["A"])
    page.wait_for_timeout(500)
    translations = [work for work, _ in run.batches if work.task == "translate"]
    assert [work.target_language for work in translations] == ["deu", "fra"]


@pytest.mark.slow
def test_languages_are_told_by_name(visit, start, expect):
    run = FakeRun()
    run.source_language, run.target_language = "en", "pt-BR"
    page = visit(str(start(run).base_url))
    expect(page.locator(".column .panel-head")).to_contain_text("English to Brazilian Portuguese")
    expect(page.locator(".column .text")).to_have_attribute("lang", "pt-BR")
    expect(field(page)).to_have_attribute("lang", "en")
    expect(page.locator("#source-language")).to_have_text("English")
    field(page).fill("a")
    chosen(page, expect)
    languages = "all => all.map((one) => one.lang)"
    assert page.locator("#sentence .words").evaluate_all(languages) == ["en", "pt-BR"]
    assert page.locator(".candidates span[dir]").evaluate_all(languages) == ["pt-BR"] * 3
    assert violations(page) == []


@pytest.mark.slow
def test_a_text_is_never_html(typed, expect):
    text = "<img src=x onerror=alert(1)><b>a</b> &amp; </textarea><script>x</script>"
    page = typed(text, [text.upper()], FakeRun())
    page.locator(SENTENCE).click()
    expect(page.locator(".candidates")).to_contain_text(text.upper())
    assert page.locator("main img, main b, main script").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("looks", [{}, {"dark": True}, {"phone": True}], ids=str)
def test_it_is_usable_light_dark_and_on_a_phone(translated, expect, looks):
    page = translated(**looks)
    page.get_by_text("More", exact=True).click()
    page.get_by_text("History", exact=True).click()
    chosen(page, expect)
    page.locator("#sentence .show").click()
    expect(page.locator(".kt-attention")).to_have_count(1)
    page.locator("#sentence .word").first.focus()
    assert is_as_wide_as_the_window(page)
    if looks.get("phone"):
        page.set_viewport_size({"width": 320, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations(page) == []
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = max(map(int, re.findall(r"\d+", ground)[:3]))
    assert (brightness < 60) == bool(looks.get("dark"))
    if not looks.get("phone"):
        page.get_by_role("button", name="Light" if looks.get("dark") else "Dark").click()
        other = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", other)[:3])) < 60) != bool(looks.get("dark"))
        assert violations(page) == []


@pytest.mark.slow
def test_a_finger_shows_words_that_belong_together(translated, expect):
    page = translated(phone=True)
    page.locator(SENTENCE).first.tap()
    expect(page.locator("#sentence .words")).to_have_count(2)
    page.locator("#sentence .words").nth(1).locator(".word").first.tap()
    expect(page.locator("#backdrop .linked")).not_to_have_count(0)
    assert all(len(found) >= 1 for found in marks(page))


@pytest.mark.slow
def test_a_sentence_that_is_awaited_offers_no_old_translations(typed, expect):
    run = FakeRun(turns=1)
    page = typed("a\nb", ["A", "B"], run)
    page.locator(SENTENCE).first.click()
    expect(page.get_by_role("radio")).to_have_count(3)
    last = page.get_by_role("radio").last.element_handle()
    field(page).fill("c\nb")
    expect(page.locator(".column")).to_contain_text("0 of 2")
    expect(page.locator("#sentence-runs")).to_have_text("Not translated yet.")
    last.evaluate("radio => radio.dispatchEvent(new Event('change'))")  # a click just before
    run.turns.release(100)
    expect(page.locator(SENTENCE)).to_have_text(["C", "B"])
    expect(page.get_by_role("radio").first).to_be_checked()


@pytest.mark.slow
def test_a_wrong_option_is_told_and_gets_the_focus_only_where_it_is_asked_for(typed, expect):
    page = typed("a", ["A"], FakeRun())
    options, beam_size = page.locator("details.options"), page.get_by_label("Beam size")
    alert = page.locator(".column").get_by_role("alert")
    page.get_by_text("More", exact=True).click()
    beam_size.fill("99")
    beam_size.press("Tab")
    expect(beam_size).to_be_focused()
    expect(alert).to_have_text(re.compile("^Beam size: .*32"))

    options.evaluate("details => details.open = false")
    alert.evaluate("alert => alert.replaceChildren()")  # told again when the text is sent
    field(page).fill("a b")
    expect(alert).to_have_text(re.compile("^Beam size: .*32"))
    expect(field(page)).to_be_focused()
    expect(options).not_to_have_attribute("open", "")

    page.get_by_role("button", name="Translate").click()
    expect(options).to_have_attribute("open", "")
    expect(beam_size).to_be_focused()
    beam_size.fill("2")
    beam_size.press("Tab")
    expect(page.locator(SENTENCE)).to_have_text(["A B"])
    expect(alert).to_be_hidden()


def make_run(source, target, name=None):
    run = FakeRun(name or f"{source}_{target}")
    run.source_language, run.target_language = source, target
    return run


def shown(page):
    return page.locator(".column h2").all_text_contents()


@pytest.mark.slow
def test_a_swap_translates_the_translation_back(typed, expect):
    runs = [make_run("en", "de"), make_run("de", "en"), make_run("en", "de", "other")]
    page = typed("a house", ["A HOUSE"] * 2, *runs)
    assert shown(page) == ["en_de", "other"]
    page.get_by_role("button", name="Swap languages").click()
    expect(field(page)).to_have_value("A HOUSE")
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    assert shown(page) == ["de_en"]
    expect(page.locator("#source-language")).to_have_text("German")
    expect(page.locator(".column .panel-head")).to_contain_text("German to English")
    expect(field(page)).to_have_attribute("lang", "de")
    expect(page.get_by_role("button", name="Swap languages")).to_be_focused()
    texts = [items for work, items in runs[1].batches if work.task == "translate"]
    assert texts == [["A HOUSE"]]
    assert violations(page) == []
    page.locator(SENTENCE).click()
    expect(page.locator(".candidates")).to_have_count(1)

    page.reload()  # the text is German
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"])
    assert shown(page) == ["de_en"]
    page.get_by_text("History", exact=True).click()
    expect(page.locator(".entry")).to_have_count(2)
    page.locator(".entry").last.click()  # in English
    expect(page.locator(SENTENCE)).to_have_text(["A HOUSE"] * 2)
    assert shown(page) == ["en_de", "other"]


@pytest.mark.slow
def test_runs_without_an_opposite_stand_side_by_side(visit, start, expect):
    runs = [make_run("en", "de"), make_run("de", "en"), make_run("fr", "en"), make_run(None, None)]
    page = visit(str(start(*runs).base_url))
    expect(page.locator(".column h2")).to_have_text(["en_de", "fr_en", "None_None"])
    page.get_by_role("button", name="Swap languages").click()
    expect(page.locator(".column h2")).to_have_text(["de_en", "fr_en", "None_None"])


@pytest.mark.slow
@pytest.mark.parametrize("others", [[("en", "de")], [("fr", "en")], [(None, None)], []])
def test_there_is_no_swap_without_opposite_runs(visit, start, expect, others):
    runs = [make_run("en", "de"), *(make_run(*one, f"other {one}") for one in others)]
    page = visit(str(start(*runs).base_url))
    expect(page.locator(".column")).to_have_count(len(runs))
    expect(page.get_by_role("button", name="Swap languages")).to_be_hidden()


@pytest.mark.parametrize("width", [320, 360, 375])
def test_it_fits_a_narrow_screen(visit, start, expect, width):
    runs = [make_run("en", "de"), make_run("de", "en")]
    page = visit(str(start(*runs, title="Translations & more").base_url), phone=True)
    page.set_viewport_size({"width": width, "height": 700})
    expect(page.locator("h1")).to_have_text("Translations & more")
    expect(page).to_have_title("Translations & more")
    field(page).fill("a house " + "x" * 60)
    chosen(page, expect)
    page.get_by_text("More", exact=True).click()
    page.get_by_text("History", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_language_of_the_text_ends_where_the_button_ends(visit, start, expect):
    page = visit(str(start(make_run("en", "de")).base_url))
    expect(page.locator("#source-language")).to_have_text("English")
    boxes = [page.locator(name).bounding_box() for name in ("#source-language", "#go")]
    assert len({round(box["x"] + box["width"]) for box in boxes}) == 1
