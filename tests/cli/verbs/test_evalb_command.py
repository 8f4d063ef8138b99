import gzip
import json
import subprocess
import sys

import pytest

from keras_transformer.toolkit.cli.verbs import evalb_command
from tests.cli.refusals import refusal

TREES = "(S (NP (PRP it)) (VP (VBZ is)))\n(S (NP (PRP I)) (VP (VBP am)) (. .))\n"
OURS = "(S (NP (PRP it)) (VBZ is))\n\n"


@pytest.fixture
def files(tmp_path):
    """Two gold trees, and a parser's: of the first with a bracket less, of the second none."""
    gold, test = tmp_path / "gold.mrg", tmp_path / "test.mrg"
    gold.write_text(TREES, "utf-8")
    test.write_text(OURS, "utf-8")
    return gold, test


def test_json_has_both_summaries_and_their_keys(files, call):
    code, out, err = call("evalb", *files, "--json")
    expected = {
        "sentences": 2, "error": 0, "skipped": 1, "valid": 1,
        "recall": 66.67, "precision": 100.0, "f1": 80.0,
        "complete_match": 0.0, "average_crossing": 0.0,
        "no_crossing": 100.0, "two_or_less_crossing": 100.0, "tagging_accuracy": 100.0,
    }  # fmt: skip
    assert (code, err) == (0, "")
    assert json.loads(out) == {"all": expected, "len<=40": expected}


def test_the_text_is_in_the_columns_of_evalb(files, call):
    code, out, err = call("evalb", *files)
    assert (code, err) == (0, "")
    assert out.splitlines()[:8] == [
        "  Sent.                        Matched  Bracket   Cross        Correct Tag",
        " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
        "=" * 76,
        "   1    2    0   66.67 100.00     2      3    2      0      2     2   100.00",
        "   2    3    2    0.00   0.00     0      0    0      0      0     0     0.00",
        "=" * 76,
        "                 66.67 100.00      2     3     2      0      2     2   100.00",
        "=== Summary ===",
    ]
    assert "Bracketing FMeasure       =  80.00\n" in out
    assert "\n-- len<=40 --\n" in out


def test_a_parameter_file_whose_debug_level_is_ignored(files, tmp_path, call):
    rules = tmp_path / "own.prm"
    rules.write_text("DEBUG 2\nCUTOFF_LEN 2\nDELETE_LABEL S\nDELETE_LABEL NP\n", "utf-8")
    code, out, _ = call("evalb", *files, "--params", rules)
    assert code == 0
    assert "   1    2    0    0.00   0.00     0      1    0      0      2     2   100.00\n" in out
    assert "wn1" not in out
    assert "\n-- len<=2 --\nNumber of sentence        =      1\n" in out


def test_errors_are_told_up_to_max_error_and_counted_on(tmp_path, call):
    gold, test, rules = (tmp_path / name for name in ("gold", "test", "rules"))
    gold.write_text("(S (P a))\n" * 5, "utf-8")
    test.write_text("(S (P b))\n" * 5, "utf-8")
    rules.write_text("MAX_ERROR 2\n", "utf-8")
    code, out, err = call("evalb", gold, test, "--params", rules, "--json")
    assert code == 0
    assert json.loads(out)["all"]["error"] == 5
    assert err == (
        "1 : the word `a` of the gold tree is `b` in the other\n"
        "2 : the word `a` of the gold tree is `b` in the other\n"
        "3 : error 3: MAX_ERROR is 2, further errors are counted but not printed\n"
    )


def test_pretty_printed_gold_trees_are_told(files, tmp_path, call):
    pretty = tmp_path / "pretty.mrg"
    pretty.write_text("(S (NP (PRP it))\n  (VP (VBZ is)))\n", "utf-8")
    code, _, err = call("evalb", pretty, pretty, "--json")
    assert code == 0
    assert err.splitlines()[-1] == (
        "2 lines of GOLD do not contain a complete tree and are not counted: write each tree on "
        "one line, without pretty-printing."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold.mrg", "none.mrg"], "Cannot read {0}/none.mrg: No such file"),
        (["none.mrg", "test.mrg"], "Cannot read {0}/none.mrg: No such file"),
        (["gold.mrg", "short.mrg"], "gold.mrg has 2, {0}/short.mrg has 1"),
        (["gold.mrg", "test.mrg", "--params", "none.prm"], "Cannot read {0}/none.prm"),
        (["gold.mrg", "test.mrg", "--params", "gold.mrg"], "line 1: not a rule of EVALB: (S"),
    ],
)
def test_what_cannot_be_is_one_line(files, tmp_path, call, arguments, message):
    (tmp_path / "short.mrg").write_text("(S (P a))\n", "utf-8")
    paths = [name if name.startswith("--") else tmp_path / name for name in arguments]
    assert message.format(tmp_path) in refusal(call("evalb", *paths))


def test_it_starts_without_keras(files):
    script = (
        "import sys\nfrom keras_transformer.toolkit import cli\n"
        f"code = cli.main(['evalb', {str(files[0])!r}, {str(files[1])!r}, '--json'])\n"
        "sys.exit(code or 'keras' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


@pytest.mark.slow
def test_more_trees_than_fit_into_memory(tmp_path, call, monkeypatch):
    """A packed file of a megabyte may hold a thousand million empty lines."""
    monkeypatch.setattr(evalb_command, "MOST_TREES", 1_000)
    bomb = tmp_path / "bomb.gz"
    with gzip.open(bomb, "wb") as file:
        file.write(b"\n" * 1_001)
    assert refusal(call("evalb", bomb, bomb)) == f"error: {bomb} must have at most 1,000 trees\n"
