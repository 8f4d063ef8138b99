"""A flipped bit in any file of a run or an export: the right result, or one line and exit code 2.

Files that have no checksums are cut too, and may give another result.

Each verb is run on undamaged files first, which tells its right result and which files it opens. A
file that it never opens cannot matter to it. Every other one is flipped `--flips` times.
"""

import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import os
import random
import shutil
import time

import pytest

from keras_transformer.errors import UserInputError
from tests.fuzz.material import BARE, EXPORTS, Material
from tests.fuzz.remembered_answers import RememberedAnswers
from tests.fuzz.verb_calls import VERBS, FileWatch, Outcome, add_stand_in_server, call, placed

pytestmark = [pytest.mark.core, pytest.mark.commands]
FEW = 1
ENGLISH = b"one two three\n\nfour\n"
TENSORFLOW = dict.fromkeys(("saved_model", "litert"), pytest.mark.tensorflow)
UNCHECKED = {*BARE, "hugging_face", "codes"}
LESS = 4  # times fewer flips, and as many cuts, of what has no checksums: each is a whole import
QUICK = {
    "translator": ["score", "average", "check", "train --from", "train --resume"],
    "parser": ["check", "parse"],
}


@pytest.fixture(scope="module")
def watch():
    return FileWatch()


@dataclasses.dataclass
class Result:
    """What a verb gave: its `Outcome`, the models that it used and the files that it made."""

    outcome: Outcome
    models: frozenset
    made: dict


class Bench:
    """Calls a verb on a copy of a directory, damaged or not."""

    def __init__(self, material, watch, answers, work):
        self.material, self.watch, self.answers = material, watch, answers
        self.work = work
        self.damaged = work.with_name("damaged")
        self._copied = None

    def call(self, kind, verb, damage=None):
        """Run a verb on a copy, which `damage(directory)` changes; returns a `Result`."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        self._copy(kind)
        damaged = damage(self.damaged) if damage else None
        before = _states(self.damaged)
        self.answers.used = set()
        with self.watch.listening():
            outcome = self._run(VERBS[kind][verb])
        self.opened = {path for path in self.watch.opened if path.startswith(str(self.damaged))}
        after = _states(self.damaged)
        changed = [path for path in after if after[path] != before.get(path)]
        made = _contents(self.damaged, changed) | _contents(self.work, self.work.rglob("*"))
        if damaged is not None and after == before:
            shutil.copy2(self.material.directory / kind / damaged, self.damaged / damaged)
        elif damage or after != before:
            self._copied = None
        return Result(outcome, frozenset(self.answers.used), made)

    def _copy(self, kind):
        """Copy the undamaged directory, unless there is a whole copy."""
        if self._copied != kind:
            shutil.rmtree(self.damaged, ignore_errors=True)
            shutil.copytree(self.material.directory / kind, self.damaged)
            self._copied = kind

    def _run(self, words):
        if words is None:
            return _translate_by_litert(self.damaged)
        places = {"RUN": self.damaged, "WORK": self.work, "TEXTS": self.material.texts}
        return call(placed(words, places), ENGLISH)


@pytest.fixture(scope="module")
def bench(trained_run, tmp_path_factory, watch):
    directory = tmp_path_factory.mktemp("flips")
    material = Material(directory / "material", trained_run)
    answers = RememberedAnswers(directory)
    path, place = os.environ["PATH"], os.getcwd()
    add_stand_in_server(directory / "programs")
    os.chdir(directory)
    with answers.in_place():
        yield Bench(material, watch, answers, directory / "work")
    os.chdir(place)
    os.environ["PATH"] = path


@pytest.mark.parametrize("kind", QUICK)
def test_a_few_flips(bench, kind, random_seed):
    assert flip_all(bench, kind, QUICK[kind], FEW, random_seed) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=TENSORFLOW.get(kind, [])) for kind in VERBS]
)
def test_flips_for_every_verb(bench, kind, random_seed, pytestconfig):
    if kind in (*EXPORTS, *BARE):
        bench.material.export(kind)
    flips = pytestconfig.getoption("--flips")
    if kind in UNCHECKED:
        flips = -(-flips // LESS)
    assert flip_all(bench, kind, VERBS[kind], flips, random_seed) == []


def flip_all(bench, kind, verbs, number, seed):
    """Flip bits in each file for each verb; prints counts, and returns what went wrong."""
    origin = bench.material.directory / kind
    names = sorted(str(path.relative_to(origin)) for path in origin.rglob("*") if path.is_file())
    faults = []
    for verb in verbs:
        began, counts = time.monotonic(), collections.Counter()
        right = [bench.call(kind, verb)]
        opened = bench.opened
        right += _other_right_results(bench, kind, verb)
        assert right[0].outcome.fault() == "", verb
        for name in names:
            if str(bench.damaged / name) not in opened:
                counts["files never opened"] += 1
                continue
            counts["files opened"] += 1
            generator = random.Random(f"{seed} {kind} {verb} {name}")
            places = _places(origin / name, number, generator)
            for place, change in itertools.product(places, CHANGES[kind in UNCHECKED]):
                found = bench.call(kind, verb, lambda damaged: change(damaged, name, place))  # noqa: B023
                end = _judge(found, right, kind, verb, name)
                counts[end] += 1
                counts["flips"] += 1
                if end not in ("right", "refused"):
                    told = (kind, verb, change.__name__, name, place, end)
                    faults.append((*told, found.outcome.fault()[-1500:]))
                    print(faults[-1], found.outcome.err[-300:], flush=True)
        counts["seconds"] = round(time.monotonic() - began)
        print(kind, verb, dict(counts), flush=True)
    return faults


def _other_right_results(bench, kind, verb):
    """Right results besides that on undamaged files: what is damaged may be done without."""
    if verb == "train --resume":  # the state before
        return [bench.call(kind, verb, lambda run: max(run.glob("checkpoints/*.npz")).unlink())]
    if verb == "average" and kind == "translator":  # the average of the other checkpoints
        names = [f"checkpoints/step-{step:08}.weights.h5" for step in (400, 320)]
        return [
            bench.call(kind, verb, lambda run: (run / name).write_bytes(b""))  # noqa: B023
            for name in names
        ]
    if verb.startswith("export"):  # the model card without scores
        return [bench.call(kind, verb, lambda run: (run / "scores.json").unlink(missing_ok=True))]
    return []


def _judge(found, right, kind, verb, name):
    """How a call on a damaged file ended, in a word or two."""
    outcome = found.outcome
    if outcome.fault():
        return "traceback"
    if outcome.code == 2:
        return "refused"
    if kind in UNCHECKED:
        return "right"
    if found.models - frozenset().union(*(each.models for each in right)):
        return "silent change of weights"
    if any(_same(found, each) for each in right):
        return "right"
    if verb == "check" and name.endswith("SHA256SUMS") and b"files are intact" in outcome.out:
        return "right"  # it tells how many files it compared
    return "another result"


def _same(found, right):
    one, other = found.outcome, right.outcome
    ends = (one.code, one.out, one.computes) == (other.code, other.out, other.computes)
    return ends and (one.computes is not None or found.made == right.made)


def _translate_by_litert(directory):
    from keras_transformer.serving import LiteRTTranslator

    try:
        texts = LiteRTTranslator(directory).translate(ENGLISH.decode().splitlines())
    except UserInputError as error:
        return Outcome(2, b"", f"error: {error}")
    return Outcome(0, "\n".join(texts).encode(), "")


def _states(directory):
    """What tells whether a file was written, of each file in a directory, by path."""
    states = {path: path.stat() for path in directory.rglob("*") if path.is_file()}
    return {path: (each.st_ino, each.st_size, each.st_mtime_ns) for path, each in states.items()}


def _contents(directory, paths):
    """The digests of files by name, without what tells of others."""
    return {
        str(path.relative_to(directory)): _digest(path)
        for path in paths
        if path.is_file() and path.name not in ("SHA256SUMS", "model_card.md")
    }


def _digest(path):
    content = path.read_bytes()
    if path.name == "model_card.json":
        with contextlib.suppress(ValueError, AttributeError):
            card = json.loads(content)
            card.pop("exported")
            content = json.dumps(card).encode()
    return hashlib.sha256(content).hexdigest()


def _places(path, number, generator):
    bits = 8 * path.stat().st_size
    return sorted(generator.sample(range(bits), min(number, bits)))


def _flip(directory, name, place):
    """Flip a bit of a file in a directory; returns the file's name."""
    path = directory / name
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)
    return name


def _cut(directory, name, place):
    """Cut a file behind a bit; returns the file's name."""
    path = directory / name
    path.write_bytes(path.read_bytes()[: place // 8])
    return name


CHANGES = {False: [_flip], True: [_flip, _cut]}  # of kinds with and without checksums
