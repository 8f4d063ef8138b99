"""The parsing recipe on the Penn Treebank's sample, in a file that comes first: it takes long.

The other recipes' tests run beside it.
"""

import json

import pytest

from keras_transformer.toolkit.cli.program import run_command
from recipes.wsj_parsing.train import main
from tests.external_data import PTB_SAMPLE
from tests.parsing.sample_trees import needs_sample

pytestmark = pytest.mark.tensorflow


@pytest.mark.slow
@needs_sample
def test_4000_updates_on_the_wall_street_journal_make_a_parser(tmp_path):
    """The real sample, where a flat tree has an F1 of 9.6; 12 minutes on 2 quiet cores."""
    run = tmp_path / "run"
    few = ["--steps", "4000", "--phrase-swaps", "0", "--beam-size", "4"]
    assert run_command(lambda: main(["--data", str(PTB_SAMPLE), "--run", str(run), *few])) == 0
    scores = json.loads((run / "scores.json").read_text())
    assert scores["well_formed"] == 1
    assert scores["evalb"]["all"]["valid"] == scores["sentences"] == 273
    assert scores["evalb"]["all"]["f1"] >= 45
    assert scores["evalb"]["all"]["f1"] >= scores["repair"]["evalb"]["all"]["f1"]
