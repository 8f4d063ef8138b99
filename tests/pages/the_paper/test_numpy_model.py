"""The NumPy program of docs/the_paper.md prints what the page shows and agrees with the package."""

import json
import re

import numpy as np
import pytest

import keras_transformer as kt
from docs.tools import paper_program, toy_transformer
from docs.tools.toy_transformer import SENTENCE, english, german, held_out, ids_of, vocabulary

NUMBERS = [1, 17, 40, 99, 100, 101, 121, 345, 909, 999]


@pytest.fixture(scope="module")
def weights():
    return json.loads(toy_transformer.ASSET.read_text("utf-8"))["weights"]


@pytest.fixture(scope="module")
def model(weights):
    return toy_transformer.load(weights)


@pytest.fixture(scope="module")
def generator(model):
    return kt.SequenceGenerator(model, vocabulary_size=len(vocabulary()))


def source_of(number):
    (source,) = ids_of([english(number)], vocabulary())
    return source


def test_it_prints_what_the_page_shows():
    blocks = paper_program.blocks()
    _, outputs = paper_program.run([block.code for block in blocks])
    for block, output in zip(blocks, outputs, strict=True):
        assert output == block.output, block.code.splitlines()[0]


def test_every_part_and_answer_is_there():
    firsts = [block.code.splitlines()[0] for block in paper_program.blocks()]
    numbers = [re.match(r"# (Part|Answer) (\d+)", first).groups() for first in firsts]
    parts = [("Part", str(number)) for number in range(1, 14)]
    assert numbers == parts + [("Answer", str(number)) for number in range(1, 9)]


def test_it_is_about_150_lines():
    lines = [line for line in paper_program.program().splitlines() if line.strip()]
    assert 130 <= len(lines) <= 160
    assert max(map(len, lines)) <= 100


def test_the_printed_program_is_complete(monkeypatch, capsys):
    monkeypatch.chdir(toy_transformer.ASSET.parent)
    exec(compile(paper_program.program(), "toy.py", "exec"), {})
    expected = "".join(block.output for block in paper_program.blocks() if block.is_part)
    assert capsys.readouterr().out == expected


def test_an_update_changes_outputs_only():
    text = paper_program.PAGE.read_text("utf-8")
    spoiled = text.replace("62 words, source:", "63 words, source:")
    assert spoiled != text
    assert paper_program.updated(spoiled) == text


@pytest.mark.parametrize("number", NUMBERS)
def test_its_logits_are_the_packages(number, toy, model):
    source = source_of(number)
    target = np.array([1, *ids_of([german(number)], vocabulary())[0, :-1]])
    memory, _ = toy["encode"](source)
    logits, _, _ = toy["decode"](target, memory)
    expected = model({"source_ids": source[None], "target_ids": target[None]})
    np.testing.assert_allclose(logits, np.array(expected)[0], atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("beams", "extra"), [(1, 50), (2, 5), (4, 50)])
def test_its_beam_search_is_the_packages(alpha, beams, extra, toy, generator):
    options = kt.SearchOptions(beam_size=beams, alpha=alpha, extra_length=extra)
    for number in (40, 121, 345):
        source = source_of(number)
        ids, scores = generator.search(source[None], options=options)
        found = toy["beam_search"](source, beams=beams, alpha=alpha, extra=extra)
        rows = [list(row[row != 0]) for row in np.array(ids)[0]]
        assert [ids[1:] for _, ids in found] == rows
        np.testing.assert_allclose([score for score, _ in found], np.array(scores)[0], atol=1e-5)


def test_a_limit_ends_its_search(toy, generator):
    source = source_of(345)
    options = kt.SearchOptions(beam_size=4, alpha=0.6, extra_length=1)
    ids, scores = generator.search(source[None], options=options)
    found = toy["beam_search"](source, extra=1)
    assert [ids[1:] for _, ids in found] == [list(row[row != 0]) for row in np.array(ids)[0]]
    np.testing.assert_allclose([score for score, _ in found], np.array(scores)[0], atol=1e-5)


def test_its_loss_is_the_packages(toy):
    labels = toy["labels"]
    for smoothing in (0.0, 0.1):
        loss = kt.LabelSmoothingCrossEntropy(smoothing, reduction="none")
        expected = np.array(loss(labels[None], toy["logits"][None].astype("float32")))[0]
        losses = toy["smoothed_loss"](toy["logits"], labels, smoothing)
        np.testing.assert_allclose(losses, expected, atol=1e-5)


def test_its_learning_rate_is_the_packages(toy):
    schedule = kt.TransformerSchedule(512)
    for step in (1, 100, 4000, 50_000):
        assert toy["learning_rate"](step) == pytest.approx(float(schedule(step - 1)), rel=1e-5)


def test_its_positions_are_the_packages(toy):
    from keras_transformer.layers.positions import sinusoidal_positions

    expected = np.array(sinusoidal_positions(np.arange(9), 16))
    np.testing.assert_allclose(toy["positions"](9), expected, atol=1e-6)


def test_answer_2_is_the_packages():
    (answer,) = [one for one in paper_program.blocks() if one.code.startswith("# Answer 2\n")]
    options = kt.models.ModelOptions.of("base", vocabulary_size=37_000)
    assert answer.output == f"{options.count_weights():,}\n"


def test_the_model_has_not_seen_the_sentence():
    (number,) = [number for number in toy_transformer.NUMBERS if english(number) == SENTENCE]
    assert number in held_out()
    sources, _ = toy_transformer.training_batches(vocabulary(), updates=100)
    seen = {tuple(row[row != 0]) for row in sources}
    assert len(seen) > 800
    assert tuple(source_of(number)) not in seen


def test_it_translates_as_many_numbers_as_the_page_says(model):
    unseen = sorted(held_out())
    right = round(toy_transformer.accuracy(model, unseen, beam_size=1) * len(unseen))
    assert f"{right} of these {len(unseen)} correctly" in paper_program.PAGE.read_text("utf-8")
    assert right / len(unseen) > 0.95


@pytest.mark.parametrize(
    ("number", "source", "target", "short"),
    [
        (1, "one", "eins", "eins"),
        (12, "twelve", "zwölf", "zwölf"),
        (20, "twenty", "zwanzig", "zwanzig"),
        (21, "twenty one", "ein und zwanzig", "ein und zwanzig"),
        (100, "one hundred", "ein hundert", "hundert"),
        (101, "one hundred one", "ein hundert eins", "hundert eins"),
        (119, "one hundred nineteen", "ein hundert neunzehn", "hundert neunzehn"),
        (302, "three hundred two", "drei hundert zwei", "drei hundert zwei"),
    ],
)
def test_its_training_text_is_english_and_german(number, source, target, short):
    assert english(number) == source
    assert german(number) == target
    assert german(number, long_form=False) == short


def test_the_weights_are_kept_when_the_model_is_written(model, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(toy_transformer, "ASSET", tmp_path / "toy.json")
    toy_transformer.write(vocabulary(), toy_transformer.weights_of(model))
    written = json.loads((tmp_path / "toy.json").read_text("utf-8"))
    assert written == {"words": vocabulary(), "weights": weights}


@pytest.mark.slow
def test_a_few_updates_lower_the_loss():
    _, losses = toy_transformer.train(updates=200)
    assert losses[-1] < 0.7 * losses[0]
