"""The cases of one process: drawn, performed one after another, and written down.

Each case is written down before it begins, so that a crash or a hang names it.
"""

import argparse
import contextlib
import faulthandler
import json
import os
import pathlib
import resource
import shutil
import sys
import tempfile
import time
import traceback

import hypothesis
import keras
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from tests.fuzz.command_lines import command_lines, run_command_line
from tests.fuzz.faults import Fault, require
from tests.fuzz.hostile_files import hostile_files, run_hostile_file
from tests.fuzz.hostile_runs import hostile_runs, run_hostile_run
from tests.fuzz.material import BARE, EXPORTS, Material
from tests.fuzz.remembered_answers import RememberedAnswers
from tests.fuzz.sentences import run_sentences, sentences
from tests.fuzz.verb_calls import FileWatch, Outcome, add_stand_in_server
from tests.peak_memory import peak_memory

# Strategy, function that performs a case, share in 20 cases.
FAMILIES = {
    "hostile file": (hostile_files(), run_hostile_file, 10),
    "command line": (command_lines(), run_command_line, 4),
    "hostile run": (hostile_runs(), run_hostile_run, 3),
    "sentences": (sentences(), run_sentences, 3),
}
MOST_MEMORY = 10 << 30  # bytes of data: what takes more ends, and not the machine
MOST_TAKEN = 1 << 30  # bytes that a case takes: models are small, files of a few megabytes
COMPUTING = "sentences"  # the family whose models compute; the others' answer, or end there
CANARY = b"x" * 4096  # what hostile files name as the home of their data
CLEARED_EVERY = 200  # cases; Keras and TensorFlow keep what each model left


class Fuzzer:
    """Performs cases.

    Args:
        material: the `Material`.
        log: a text file that is open for writing, for a line of JSON a case and more.
        seconds: how long a case may take; then the process ends, with a stack on stderr.
    """

    def __init__(self, material, log, seconds):
        self.material = material
        self.log = log
        self.seconds = seconds
        self.performed = 0
        self.directory = material.directory / "case"
        self.canary = self.directory / "canary"
        self.watch = FileWatch()
        self.answers = RememberedAnswers(material.directory, computes=False)

    def perform(self, case):
        """Perform a case: a dictionary with the entries `family` and `case`."""
        self._write({"begins": case})
        self._make_directory()
        self.performed += 1
        if self.performed % CLEARED_EVERY == 0:
            keras.backend.clear_session()
        faulthandler.dump_traceback_later(self.seconds, exit=True)
        began = time.monotonic()
        try:
            with peak_memory() as taken:
                end = self._perform(case)
            require(taken() < MOST_TAKEN, f"it has taken {taken() >> 20} MB of memory")
        except Exception as error:
            end = "fault"
            text = str(error) if isinstance(error, Fault) else traceback.format_exc()
            self._write({"fault": text, "case": case})
        finally:
            faulthandler.cancel_dump_traceback_later()
        self._write({"ends": end, "seconds": round(time.monotonic() - began, 2)})

    def _perform(self, case):
        work = self.directory / "work"
        os.chdir(work)
        computes = case["family"] == COMPUTING
        answers = contextlib.nullcontext() if computes else self.answers.in_place()
        with answers, self.watch.listening():
            found = FAMILIES[case["family"]][1](case["case"], self.material, work)
        self._check_files()
        if isinstance(found, Outcome):
            return {0: "right", 2: "refused"}.get(found.code, "reached the model")
        return found or "right"

    def _make_directory(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        (self.directory / "work").mkdir(parents=True)
        self.canary.write_bytes(CANARY)
        tempfile.tempdir = str(self.directory / "work")

    def _check_files(self):
        """Require that nothing outside of the case's directory has changed."""
        require(self.canary.read_bytes() == CANARY, "a file outside of the run was written")
        inside = (str(self.directory / "work"), "/dev/", "/proc/self/")
        outside = [
            path
            for path in self.watch.changed
            if not path.startswith(inside) and "__pycache__" not in path
        ]
        require(not outside, f"files outside of the case's directory were changed: {outside}")

    def _write(self, line):
        print(json.dumps(line), file=self.log, flush=True)


def cases():
    """The strategy of all cases."""
    names = [name for name, (*_, share) in FAMILIES.items() for _ in range(share)]

    def of_family(name):
        return st.fixed_dictionaries({"family": st.just(name), "case": FAMILIES[name][0]})

    return st.sampled_from(names).flatmap(of_family)


def perform_many(fuzzer, number, seed):
    """Draw so many cases with a seed, and perform each."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(cases())
    def perform(case):
        fuzzer.perform(case)

    perform()


def main():
    """What a process of the fuzzer does."""
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("material", type=pathlib.Path)
    add("--log", type=pathlib.Path, required=True)
    add("--seconds", type=float, required=True)
    add("--cases", type=int)
    add("--seed", type=int)
    add("--repeat", type=json.loads)
    add("--exports", action="store_true", help="write exports, which some cases read")
    values = parser.parse_args()
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    material = Material(values.material)
    for kind in (*EXPORTS, *BARE) if values.exports else ():
        material.export(kind)
    add_stand_in_server(material.directory / "programs")
    with open(values.log, "a", encoding="utf-8") as log:
        fuzzer = Fuzzer(material, log, values.seconds)
        if values.repeat:
            fuzzer.perform(values.repeat)
        else:
            perform_many(fuzzer, values.cases, values.seed)


if __name__ == "__main__":
    sys.exit(main())
