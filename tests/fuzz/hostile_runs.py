"""Cases of damaged runs and exports: a broken disk's, or a stranger's, who adjusts checksums."""

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

from hypothesis import strategies as st

from keras_transformer.runs.checksums import write_checksums
from keras_transformer.runs.run_directory import RunDirectory
from tests.fuzz.damage import damage, damages
from tests.fuzz.faults import require, require_good_end
from tests.fuzz.material import BARE, PACKAGE
from tests.fuzz.verb_calls import TRAINING, VERBS, call, placed

RECORDS = ["run.json", "settings.json", "model.json", "SHA256SUMS", "checkpoints/best.json"]
FILES = {
    "translator": [
        *RECORDS, "scores.json", "tokenizer.model", "model.weights.h5", "metrics.csv",
        "validation.csv", "checkpoints/step-00000400.weights.h5", "checkpoints/best.weights.h5",
        "checkpoints/step-00000400.state.npz", "checkpoints/step-00000320.state.npz",
    ],
    "parser": [
        "run.json", "model.json", "SHA256SUMS", "tokenizer.model", "source_tokenizer.model",
        "model.weights.h5", "checkpoints/step-00000002.weights.h5",
    ],
    "stand_in": ["1/SHA256SUMS", "1/saved_model.pb", "1/variables/variables.index"],
    "adapted": [
        "run.json", "model.json", "SHA256SUMS", "checkpoints/base.weights.h5",
        "checkpoints/step-00000001.weights.h5", "checkpoints/step-00000002.weights.h5",
    ],
    # Folders to import, none of which has checksums.
    "hugging_face": [
        "config.json", "vocab.json", "source.spm", "target.spm", "model.safetensors",
    ],
    "codes": ["vocab.yml", "decoder.yml", "source.bpe", "target.bpe", "model.npz"],
    "bare_marian": ["model.npz", "decoder.yml", "vocab.spm"],
    "bare_bergamot": ["model.bergamot.bin", "vocab.bergamot.spm", "config.yml"],
    "bare_ctranslate2": ["model.bin", "config.json", "shared_vocabulary.json", "tokenizer.model"],
    "argos": [PACKAGE],
}  # fmt: skip
IMPORTS = ["hugging_face", "codes", *BARE]
ARGUMENTS = {
    "translator": [
        *VERBS["translator"].values(),
        ["average", "RUN", "--best", "1"], ["translate", "RUN", "--checkpoint", "best"],
        ["train", *TRAINING, "--run", "RUN", "--overwrite", "--steps", "1", "--settings",
         "RUN/settings.json"],
    ],
    "parser": [*VERBS["parser"].values()],
    "stand_in": [*VERBS["saved_model"].values()],
    **{kind: [*VERBS[kind].values()] for kind in ("adapted", *IMPORTS)},
}  # fmt: skip
# Lines of standard output of those that compute.
STDIN = "one two three\n\nfour\n"


@st.composite
def hostile_runs(draw):
    """The strategy of these cases."""
    kinds = [*["translator", "parser", "stand_in", "adapted"] * 3, "translator", *IMPORTS]
    kind = draw(st.sampled_from(kinds))
    names = draw(st.lists(st.sampled_from(FILES[kind]), min_size=1, max_size=2, unique=True))
    return {
        "kind": kind,
        "arguments": draw(st.sampled_from(ARGUMENTS[kind])),
        "damages": [[name, draw(damages(name))] for name in names],
        "checksums": draw(st.sampled_from(["kept", "adjusted", "adjusted", "removed"])),
    }


def run_hostile_run(case, material, directory):
    """Call the case's verb on its run; raises `Fault`."""
    run = directory / "run"
    if case["kind"] == "stand_in":
        material.stand_in_export(run)
    elif not (material.directory / case["kind"]).is_dir():  # an export, which takes half a minute
        return None
    else:
        shutil.copytree(material.directory / case["kind"], run)
    before = RunDirectory(run)
    for name, how in case["damages"]:
        _damage(run / name, how)
    adjust = {"adjusted": _adjust, "removed": _remove}.get(case["checksums"])
    if adjust is not None:
        adjust(before, [name for name, _ in case["damages"]])
    places = {"RUN": run, "TEXTS": material.texts, "WORK": directory}
    outcome = call(placed(case["arguments"], places), STDIN.encode())
    require_good_end(outcome)
    if case["checksums"] == "kept":
        _require_found(case, outcome, material, run)
    return outcome


def _damage(path, how):
    """Damage a file, where that can be done."""
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError, TypeError, RuntimeError):
        damage(path, how)


def _adjust(run, names):
    """Make the checksums those of the damaged files, as far as these allow it."""
    is_damaged = "1/SHA256SUMS" in names
    names = [name for name in names if (run.path / name).is_file()]  # no device without an end
    if (run.path / "1").is_dir():
        if not is_damaged:
            write_checksums(run.path / "1")
        return
    try:
        _adjust_fingerprints(run, names)
        for name in dict.fromkeys([*names, "run.json"]):
            if Path(name).name != "SHA256SUMS" and (run.path / name).is_file():
                run.checksums.keep(run.path / name)
    except Exception:
        _remove(run, names)


def _adjust_fingerprints(run, names):
    if not run.record_path.is_file():
        return
    record = json.loads(run.record_path.read_bytes())
    for name, field in (
        ("tokenizer.model", "tokenizer_fingerprint"),
        ("source_tokenizer.model", "source_tokenizer_fingerprint"),
    ):
        if name in names:
            record[field] = hashlib.sha256((run.path / name).read_bytes()).hexdigest()
            run.record_path.write_text(json.dumps(record))


def _remove(run, _):
    for path in (run.checksums.path, run.path / "1" / "SHA256SUMS"):
        if path.is_file():
            path.unlink()


def _require_found(case, outcome, material, run):
    """A broken disk's damage is found by `check`, which compares everything."""
    is_check = case["arguments"][0] == "check"
    origin = material.directory / case["kind"]
    if not is_check or not origin.is_dir():
        return
    sums = (origin / "SHA256SUMS").read_text()
    for name, _ in case["damages"]:
        path = run / name
        is_listed = f"  {name}\n" in sums and "SHA256SUMS" not in str(case["damages"])
        if is_listed and path.is_file() and path.read_bytes() != (origin / name).read_bytes():
            require(outcome.code == 2, f"check has not found the damage of {name}")
