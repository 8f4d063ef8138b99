"""`report.html`: what the end of a training writes of it, and that nothing depends on it."""

import html.parser
import itertools
import json
import re
import shutil

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.data import Overlap
from keras_transformer.errors import UserInputError
from keras_transformer.figures import Curve
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.translation import run_report
from keras_transformer.training.translation.run_report import Example, curve_svg, write_run_report
from keras_transformer.training.translation.training import next_commands
from tests.training.equal_runs import rows
from tests.translation_training.number_text import SMALL, train_pairs

EMPTY = {"meta", "link", "br", "img", "input"}  # elements without an end


class Reader(html.parser.HTMLParser):
    """Collects the texts of a page, and checks that its elements are nested."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts, self.addresses = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Elements of SVG end themselves."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip() and self.open[-1] not in ("script", "style"):
            self.texts.append(data.strip())


@pytest.mark.tensorflow
def test_it_tells_of_the_training_and_loads_nothing(trained_run):
    steps = range(80, 401, 80)
    page = Reader((trained_run / "report.html").read_text("utf-8"))
    assert page.addresses == ["data:,"]
    scores = json.loads((trained_run / "scores.json").read_text())
    for text in (f"{scores['bleu']:.2f}", scores["signature"], scores["chrf_signature"]):
        assert text in page.texts
    counts = scores["in_training_text"]["dev"]
    assert f"{Overlap(**counts).report('dev')}." in page.texts
    tiles = dict(itertools.pairwise(page.texts))
    for tile in ("final dev perplexity", "target tokens/s", "parameters"):
        digits = re.sub(r"\D", "", tiles[tile]).strip("0")
        assert 1 <= len(digits) <= 3, tiles[tile]
    assert [page.texts.count(f"update {step}") for step in steps] == [4] * len(steps)
    samples = rows(trained_run / "dev_samples.csv")
    assert [int(row["step"]) for row in samples] == [step for step in steps for _ in range(4)]
    for row in samples:
        assert {row["source"], row["translation"], row["reference"]} <= {*page.texts}
    commands = [text for text in page.texts if re.search(r"keras-transformer \w+ ", text)]
    verbs = [re.findall(r"keras-transformer (\w+)", text)[-1] for text in commands]
    assert verbs == ["train", "translate", "app", "attention", "export", "cost", "plot"]


@pytest.mark.tensorflow
def test_a_resumed_training_goes_on_with_its_samples_and_writes_it_anew(tmp_path, capsys):
    few = {**SMALL, "save_every": 1, "bleu_every": 1, "choose_average": False, "probe": False}
    pages = []
    for steps in (1, 2):
        few["steps"] = steps
        code, run = train_pairs(tmp_path, tmp_path / "run", "--resume", **few)
        assert code == 0
        out = capsys.readouterr().out
        assert out.count("Report:") == 1
        assert f"\nReport: {run.report_path}\n" in out
        pages.append(run.report_path.read_text("utf-8"))
    assert [int(row["step"]) for row in rows(run.dev_samples_path)] == 4 * [1] + 4 * [2]
    assert ["update 2" in page for page in pages] == [False, True]


@pytest.fixture
def copied(trained_run, tmp_path):
    """A run of one's own, without its report."""
    shutil.copytree(trained_run, tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    run.report_path.unlink()
    return run


EXAMPLES = [Example("<b>one & two", "eins", "eins zwei")]


def write(run, source="one two"):
    write_run_report(
        run, Translator.load(run.path), EXAMPLES, source, next_commands(run.path, source)
    )


@pytest.mark.tensorflow
def test_texts_stay_texts(copied, capsys):
    write(copied)
    page = Reader(copied.report_path.read_text("utf-8"))
    assert "<b>one & two" in page.texts
    assert capsys.readouterr().out == f"Report: {copied.report_path}\n"


@pytest.mark.tensorflow
def test_a_sentence_without_attention_leaves_the_rest(copied, monkeypatch):
    def refuse(*arguments):
        raise UserInputError("`sources[0]` has more than 5 tokens")

    monkeypatch.setattr(run_report, "attention_maps", refuse)
    write(copied)
    page = copied.report_path.read_text("utf-8")
    assert "`sources[0]` has more than 5 tokens" in page
    assert 'id="attention"' not in page


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda run: run.scores_path.unlink(), r"Cannot read .*scores.json: No such file"),
        (lambda run: run.report_path.mkdir(), r".*report.html"),
        (lambda run: run.metrics_path.write_text("step\nx\n"), r".*metrics.csv is damaged"),
    ],
)
def test_a_report_that_fails_is_one_line_and_ends_nothing(copied, capsys, damage, says):
    damage(copied)
    write(copied)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert re.match(f"No report.html: {says}", err)


def curve(values, step=None):
    values = np.array(values, "float64")
    step = np.arange(1, len(values) + 1) if step is None else np.array(step)
    return Curve(step.astype("float64"), step, step, values)


def test_a_curve_is_drawn_to_scale():
    drawn = curve_svg(curve([0, 10, 20], [0, 50, 200]), "Dev BLEU", steps=200, from_zero=True)
    (line,) = re.findall(r'class="line" d="M([^"]+)"', drawn)
    points = np.array(line.split(), "float64").reshape(-1, 2)
    np.testing.assert_allclose(points[1, 1], points[[0, 2], 1].mean(), atol=0.1)
    np.testing.assert_allclose(points[1, 0], points[0, 0] + np.ptp(points[:, 0]) / 4, atol=0.1)
    ticks = dict(re.findall(r'class="y" x="46" y="([\d.]+)">(\w+)<', drawn))
    assert float({label: at for at, label in ticks.items()}["10"]) == pytest.approx(points[1, 1])
    assert 'aria-label="Dev BLEU over updates: 0 at 0, 20 at 200; lowest 0, highest 20"' in drawn


def test_values_that_differ_much_have_a_logarithmic_axis():
    drawn = curve_svg(curve([1000, 100, 10]), "Dev perplexity", steps=3, from_zero=False)
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', drawn)]
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)


@pytest.mark.parametrize("values", [[0.0], [5.0], [3.0, 3.0], [-2.0, 1.0]])
@pytest.mark.parametrize("from_zero", [False, True])
def test_any_values_can_be_drawn(values, from_zero):
    drawn = curve_svg(curve(values), "Loss", steps=9, from_zero=from_zero, smooth=True)
    assert "nan" not in drawn
    assert re.search(r'class="y"', drawn)
