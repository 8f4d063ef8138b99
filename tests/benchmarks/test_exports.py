"""The benchmark of exports: every one of them beside the model's own translations."""

import pathlib
import re

import pytest

from benchmarks.exported_systems import Measurement, System
from benchmarks.exports import main
from keras_transformer.inference.translator import Translator
from tests.translation_training.number_text import write_pairs

pytestmark = pytest.mark.tensorflow


@pytest.mark.slow
def test_every_export_of_a_run_is_measured(trained_run, tmp_path, capsys):
    source, reference = write_pairs(tmp_path, "test", length=3, stop=20)
    assert main([str(trained_run), "--source", source, "--reference", reference]) is None
    table = capsys.readouterr().out
    rows = [re.split(r"  +", line) for line in table.splitlines()[1:-2]]
    assert [row[0] for row in rows].count("Keras") == 3
    assert {row[0] for row in rows} == {"Keras", "SavedModel", "LiteRT", "CTranslate2"}
    assert len(rows) == 3 + 2 + 3 + 4
    exact = [row for row in rows if row[0] in ("SavedModel", "LiteRT") and row[1] == "float32"]
    assert [row[6:8] for row in exact] == [["20 / 20", "0"]] * 2
    assert "tok:13a" in table


def test_equal_translations_ties_and_others_are_told_apart(trained_run):
    class Scored:
        """Scores by a table; alpha 0 makes the score the log-probability."""

        alpha = 0.0
        tokenizer = Translator.load(trained_run).tokenizer

        def score(self, sources, targets):
            return [{"eins": -1.0, "uno": -1.00005, "un": -1.5}[text] for text in targets]

    def system(texts, reference):
        return System("x", "float32", "beam", pathlib.Path(__file__), lambda _: texts, reference)

    measurement = Measurement(["one"] * 3, ["eins"] * 3, "13a")
    first = measurement.of(system(["eins"] * 3, None))
    assert (first.equal, first.beyond_ties, first.ratio) == (3, 0, 1.0)
    other = measurement.of(system(["eins", "uno", "un"], Scored()))
    assert (other.equal, other.beyond_ties) == (1, 1)
    assert other.megabytes == pathlib.Path(__file__).stat().st_size / 1e6
