"""`keras-transformer cost`: its output, its files, and what it refuses."""

import json

import pytest

from tests.cli.refusals import refusal
from tests.evaluation.cost.recorded_runs import OF_CPU, SCORES, write_run


def test_it_prints_the_runs_beside_the_paper(call, tmp_path):
    runs = [write_run(tmp_path / name, scores) for name, scores in (("a", SCORES), ("b", OF_CPU))]
    runs.append(write_run(tmp_path / "opus", origin="hf://name", metrics=False))
    code, out, err = call("cost", *runs)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Training cost, next to Table 2 of Vaswani et al. (2017), newstest2014"
    assert [line.split()[0] for line in lines[13:15]] == runs[:2]
    assert lines[15] == (
        f"{runs[2]}: no cost: trained elsewhere (an imported run or a preset, from hf://name)"
    )


def test_json_is_for_programs(call, tmp_path):
    run = write_run(tmp_path / "run", OF_CPU)
    code, out, _ = call("cost", run, "--json", "--device-tflops", "0.25")
    assert code == 0
    record = json.loads(out)
    assert len(record["paper"]) == 10
    assert record["runs"][0]["paper_flops"] == 90 * 2 * 0.25e12
    # JSON has no infinity.
    assert call("cost", run, "--json", "--device-tflops", "1e300")[0] == 2


def test_table_and_figure_are_written(call, tmp_path):
    run = write_run(tmp_path / "run", SCORES)
    assert call("cost", run, "--csv", tmp_path / "cost.csv")[0] == 0
    header, *rows = (tmp_path / "cost.csv").read_text().splitlines()
    assert header.startswith("model,bleu,signature,scored_on,seconds,devices,device,paper_flops,")
    assert rows[0] == 'ByteNet,23.75,,newstest2014 en-de,,,,,,,,"Vaswani et al. (2017), Table 2"'
    assert rows[-1].startswith(f"{run},27.3,")
    pytest.importorskip("matplotlib")
    assert call("cost", run, "--plot", tmp_path / "cost.svg")[0] == 0
    assert b"<svg" in (tmp_path / "cost.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--plot", "cost.gif"], "`--plot` must end in one of .png, .pdf, .svg. Received: --plot"),
        (["--plot", "nowhere/cost.png"], "`--plot` must be in an existing folder."),
        (["--csv", "nowhere/cost.csv"], "`--csv` must be in an existing folder."),
        (["nowhere"], "There is no run directory nowhere."),
    ],
)
def test_a_mistake_is_one_line(call, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / "run", SCORES)
    assert refusal(call("cost", run, *arguments)).startswith(f"error: {says}")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.tensorflow
def test_a_trained_run_has_its_own_scores(call, trained_run):
    scores = json.loads((trained_run / "scores.json").read_text())
    code, out, _ = call("cost", trained_run, "--json")
    assert code == 0
    (run,) = json.loads(out)["runs"]
    assert run["bleu"] == scores["bleu"]
    assert run["counted_flops"] == scores["training_cost"]["counted_flops"] > 1e9
    assert run["scored_on"].startswith("dev ")
