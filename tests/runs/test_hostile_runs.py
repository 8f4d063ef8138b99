"""Damaged and hostile runs, through the verbs: the right result, or one line and exit code 2."""

import contextlib
import io
import json
import math
import os
import pathlib
import shutil
import sys

import h5py
import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.model_weights import save_safetensors, save_weights
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli

pytestmark = pytest.mark.usefixtures("no_garbage_collection")  # brackets are nested deep


@pytest.fixture
def run(trained_run, tmp_path):
    return RunDirectory.open(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.fixture
def call(run, tmp_path, monkeypatch):
    """Function of a verb's name: its exit code, stdout and stderr on the run."""
    (tmp_path / "one.en").write_text("one two\n" * 20)
    (tmp_path / "one.de").write_text("eins zwei\n" * 20)
    pair = ["--source", tmp_path / "one.en"]
    words = {
        "translate": ["translate", run.path],
        "evaluate": ["evaluate", run.path, *pair, "--reference", tmp_path / "one.de"],
        "tune": ["tune", run.path, *pair, "--reference", tmp_path / "one.de"],
        "score": ["score", run.path, *pair, "--target", tmp_path / "one.de"],
        "align": ["align", run.path, *pair, "--target", tmp_path / "one.de"],
        "export": ["export", "saved-model", run.path, tmp_path / "saved_model"],
        "average": ["average", run.path, "--last", "1"],
        "check": ["check", run.path],
        "train": ["train", *pair, "--target", tmp_path / "one.de", "--from", run.path,
                  "--run", tmp_path / "new", "--steps", "1"],
        "resume": ["train", *pair, "--target", tmp_path / "one.de", "--run", run.path, "--resume"],
    }  # fmt: skip

    def call(verb):
        stdin = io.TextIOWrapper(io.BytesIO(b"one two\n"))
        out, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        monkeypatch.setattr("sys.stdin", stdin)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            code = cli.main(list(map(str, words[verb])))
            out.flush()
        return code, out.buffer.getvalue().decode(), errors.getvalue()

    return call


def assert_refused(answer, reason):
    code, out, errors = answer
    line = errors.splitlines()[-1]
    assert (code, out) == (2, "")
    assert line.startswith("error: ")
    assert reason in line


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


USING_WEIGHTS = ["translate", "evaluate", "tune", "score", "align", "export", "train", "check"]


@pytest.mark.parametrize("verb", USING_WEIGHTS)
def test_a_flipped_bit_of_the_final_weights_is_told(run, call, verb):
    flip(run.weights_path)
    assert_refused(call(verb), "model.weights.h5")


EMBEDDING = "layers/positional_embedding/token_embedding/vars/0"


def spoil(run, *paths, value):
    for path in paths:
        with h5py.File(path, "r+") as file:
            file[EMBEDDING][7, 0] = value
        run.checksums.keep(path)


@pytest.mark.parametrize("verb", USING_WEIGHTS)
def test_weights_that_are_not_finite_are_refused(run, call, verb):
    spoil(run, run.weights_path, run.checkpoints.best_path, value=math.nan)
    assert_refused(call(verb), "are not finite numbers")


def test_the_mean_of_weights_that_are_not_finite_is_refused(run, call):
    spoil(run, run.checkpoints.paths()[-1], value=math.inf)
    assert_refused(call("average"), "are not finite numbers")


def test_complex_weights_are_refused(run, call):
    with h5py.File(run.weights_path, "r+") as file:
        value = np.array(file[EMBEDDING]).astype("complex64")
        del file[EMBEDDING]
        file[EMBEDDING] = value
    run.checksums.keep(run.weights_path)
    assert_refused(call("score"), "is of type complex64")


@pytest.mark.parametrize("name", ["run.json", "settings.json", "model.json", "tokenizer.model"])
@pytest.mark.parametrize("verb", ["check", "train"])
def test_a_flipped_bit_of_metadata_is_told(run, call, name, verb):
    flip(run.path / name)
    assert_refused(call(verb), f"{name}")


def test_another_checkpoint_translates_where_the_final_weights_are_damaged(run, call, capsys):
    flip(run.weights_path)
    assert "--checkpoint" in call("translate")[2]
    assert RunDirectory.open(run.path).load_model("best")


NESTED = "[" * 200_000
ALL = ["translate", "average", "resume"]
INITIALIZER = {"module": "keras.initializers", "class_name": "Constant", "registered_name": None}
LOOKUP = {"module": "keras.layers", "class_name": "StringLookup", "registered_name": None}
LOOKUP["config"] = {"vocabulary": "/etc/hostname"}
WRAPPER = {"module": "keras.layers", "class_name": "TorchModuleWrapper"}
WRAPPER["config"] = {"module": "gASVAAAA", "layers": []}
SAME = "`kernel_initializer` must be the same for all sizes"
# File, its content or other values of its fields, verbs, and what their refusal says.
DAMAGE = [
    *(("run.json", damage, ALL, "run")
      for damage in ("[]", "null", "", "{", NESTED, '"text"', "\x00")),
    *(("run.json", {field: value}, ALL, "run")
      for field, values in {
          "format_version": ("1", None, [], math.nan, 0, 1.5, True),
          "tokenizer_fingerprint": (None, 5, "short", "x" * 64),
          "vocabulary_size": ("40", None, -1, 1e999, {}),
          "output": (None, "pictures", 3),
          "versions": (None, [], {"keras": 3}),
          "from": (3, []),
          "source_tokenizer_fingerprint": (3, "short"),
      }.items()
      for value in values),
    ("run.json", {"examples": ["x" * 1000] * 1100}, ["translate", "check", "train"],
     "must have at most 1 MB"),
    *(("checkpoints/best.json", damage, ["average"], "best.json is damaged")
      for damage in (
          "", "[]", "null", '"../../x"', NESTED, '{"kept": 5}', '{"keep_last": "x"}',
          '{"kept": [{"step": "../../x", "value": 1}]}', '{"kept": [{"step": -1, "value": 1}]}',
          '{"kept": [[]]}', '{"keep_last": 0}', '{"keep_last": 1e999}',
      )),
    *((name, damage, [*ALL, "check"], f"{name} is damaged")
      for name, damage in (
          ("SHA256SUMS", "{}"),
          ("SHA256SUMS", "x  model.weights.h5\n"),
          ("checksums.json", NESTED),  # of an older version
          ("checksums.json", '{"model.weights.h5": null}'),
      )),
    *(("settings.json", damage, ["resume", "train"], "settings.json is damaged")
      for damage in ("[]", "null", NESTED, "")),
    ("settings.json", "[]", ["export"], "settings.json is damaged"),  # for the model card
    # Another training starts with steps of its own.
    *(("settings.json", damage, ["resume"], "`steps` must be an integer")
      for damage in ('{"steps": []}', '{"steps": {}}')),
    *(("model.json", damage, ["translate"], "model.json")
      for damage in (NESTED, "[]", '{"config": {}}', json.dumps(WRAPPER))),
    *(("model.json", damage, ["translate"], says)
      for damage, says in (
          ({"vocabulary_size": 10**9}, " the file contains "),
          ({"hidden_dim": 10**7}, " the file contains "),
          ({"hidden_dim": "8"}, "Expected `int`, got `str` - at `$.hidden_dim`"),
          ({"color": "red"}, "Object contains unknown field `color`"),
          ({"hidden_dim": -8}, "`hidden_dim` must be a positive integer. Received: hidden_dim=-8"),
          ({"activation": {"class_name": "Lambda"}}, "got `object` - at `$.activation`"),
          ({"activation": "os.system"}, "activation"),
          ({"dtype": "red"}, "red"),
          ({"kernel_initializer": {"class_name": "Lambda", "config": {}}},
           "names the class 'Lambda'"),
          ({"kernel_initializer": {**INITIALIZER, "config": {"value": LOOKUP}}},
           f"{SAME}, without lists or objects"),
          ({"dtype": "int8_from_float32"}, "`dtype` must name a plain dtype policy"),
          ({"dtype": "float8_from_mixed_bfloat16"}, "model.json"),
          ({"kernel_initializer": {"config": {}}}, "`kernel_initializer` does not name a class"),
          ({"kernel_initializer": {**INITIALIZER, "config": {"value": [0.5] * 100_000}}}, SAME),
          ({"num_decoder_layers": 10**30}, "model.json"),
          ({"num_decoder_layers": 2000}, "model.json"),
      )),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "damage", "verbs", "says"), DAMAGE, ids=lambda value: str(value)[:40]
)
def test_a_damaged_file_is_one_line(run, call, name, damage, verbs, says):
    path = run.path / name
    if isinstance(damage, dict):
        damage = json.dumps(json.loads(path.read_text()) | damage)
    run.checksums.path.unlink()
    path.write_text(damage)
    for verb in verbs:
        answer = call(verb)
        assert_refused(answer, says)
        if name == "model.json":
            assert_refused(answer, name)


def test_a_damaged_record_is_told_by_its_checksum(run, call):
    run.checkpoints.best_record_path.write_text("{}")
    assert_refused(call("average"), "best.json is damaged")


def test_missing_fields_of_run_json(run, call):
    run.checksums.path.unlink()
    record = json.loads(run.record_path.read_text())
    for field in record.keys() - {"output", "examples", "search"}:  # not every run has them
        rest = {name: value for name, value in record.items() if name != field}
        run.record_path.write_text(json.dumps(rest))
        assert_refused(call("translate"), "run")


@pytest.mark.slow
def test_damaged_scores_are_left_out_of_a_model_card(run, call):
    run.scores_path.write_text(NESTED)
    run.checksums.path.unlink()
    code, out, _ = call("export")
    assert code == 0
    card = json.loads((run.path.parent / "saved_model" / "1" / "model_card.json").read_text())
    assert card["models"][0]["scores"] is None
    assert out.endswith("saved_model/1\n")


def test_a_run_without_checksums_translates_with_a_warning_and_is_not_whole(run, call):
    run.checksums.path.unlink()
    code, _, errors = call("translate")
    assert code == 0
    assert errors.count(f"warning: {run.path} has no SHA256SUMS: nothing was compared.\n") == 1
    assert_refused(call("check"), f"{run.path} has no SHA256SUMS: nothing was compared.")


def test_check_names_each_file_that_is_missing(run, call):
    lines = run.checksums.path.read_text().splitlines()
    names = list(dict.fromkeys(line.split("  ")[1] for line in lines))
    assert {"settings.json", "model.json", "model.weights.h5", "checkpoints/best.json"} < {*names}
    for name in (*names, "tokenizer.model"):
        if name == "run.json":  # it makes the directory a run
            continue
        content = (run.path / name).read_bytes()
        (run.path / name).unlink()
        code, out, errors = call("check")
        assert (code, out, errors.count("\n"), name in errors) == (2, "", 1, True)
        (run.path / name).write_bytes(content)
    shutil.rmtree(run.checkpoints.directory)
    gone = ", ".join(name for name in names if name.startswith("checkpoints/"))
    assert_refused(call("check"), f"Missing in {run.path}: {gone}. Copy the run again.")
    run.tokenizer_path.unlink()
    *_, errors = call("check")
    assert errors.count("\n") == 1
    assert gone in errors
    assert "tokenizer.model" in errors


@pytest.mark.parametrize("name", ["model.weights.h5", "checkpoints/step-00000400.state.npz"])
def test_check_names_what_its_list_lacks(run, call, name):
    lines = run.checksums.path.read_text().splitlines(keepends=True)
    run.checksums.path.write_text("".join(line for line in lines if f"  {name}\n" not in line))
    assert_refused(call("check"), f"{run.checksums.path} does not name {name}. Copy the run again.")


def test_check_names_a_run_without_any_weights(run, call):
    for path in (run.weights_path, *run.checkpoints.directory.iterdir()):
        run.checksums.remove(path)
    assert_refused(call("check"), f"The run {run.path} contains no weights yet.")


def test_a_write_that_was_killed_before_its_renaming_leaves_a_whole_run(run, call, monkeypatch):
    count = call("check")[1]

    def killed_at(call):
        def killed(path, *others, **options):
            if str(run.path / "new.json") in map(str, (path, *others)) or path in left:
                left.add(path)
                raise KeyboardInterrupt
            return call(path, *others, **options)

        return killed

    left = set()  # nothing cleans up after a kill
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed_at(os.replace))
        patch.setattr("pathlib.Path.unlink", killed_at(pathlib.Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            run.checksums.write_json(run.path / "new.json", {"bleu": 1})
    assert len(left) == 1
    assert "new.json" in run.checksums.path.read_text()
    assert call("check") == (0, count, "")


def test_check_counts_what_it_compared(run, call):
    assert call("check") == (0, f"{run.path}: 14 files are intact\n", "")


@pytest.mark.parametrize("suffix", [".weights.h5", ".safetensors"])
def test_weights_that_are_replaced_while_they_are_read(run, suffix, tmp_path, monkeypatch):
    """The right weights or one line, whenever another program renames others over them."""
    model = run.load_model()
    if suffix == ".safetensors":
        save_safetensors(model, run.safetensors_path)
        run.weights_path.unlink()
    path = run.find_weights()
    assert path.name.endswith(suffix)
    expected, content = model.get_weights(), path.read_bytes()
    model.set_weights([weight + 1 for weight in expected])
    others = tmp_path / f"others{suffix}"
    (save_safetensors if suffix == ".safetensors" else save_weights)(model, others)
    opened, ends = [], set()

    def replace(event, arguments):
        if event == "open" and str(arguments[0]) == str(path):
            opened.append(path)
            if len(opened) == place:
                shutil.copy(others, tmp_path / "copy")
                os.replace(tmp_path / "copy", path)

    place = 0
    sys.addaudithook(replace)  # it stays to the end of the process
    while place <= len(opened):
        place += 1
        opened.clear()
        try:
            found = run.load_model().get_weights()
        except UserInputError as error:
            ends.add("refused")
            assert "its checksum is wrong" in str(error)  # noqa: PT017
        else:
            ends.add("right")
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
        path.write_bytes(content)
    assert place > 1
    assert ends == {"right", "refused"}
