"""Fuzz the commands and readers of strangers' files: `make fuzz`.

Cases run in processes of a thousand, so that a crash or a hang ends no more than one of them, and
is known by its case.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

A_PROCESS = 1000  # cases
FEW = 500  # cases, which do without exports: these take half a minute
ROOT = pathlib.Path(__file__).parents[2]


def main(arguments=None):
    """Run the cases and print what came of them; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--cases", type=int, default=10_000, help="how many (default: 10000)")
    add("--seed", type=int, default=1, help="another one draws other cases (default: 1)")
    add("--seconds", type=float, default=20, help="most seconds of a case (default: 20)")
    add("--repeat", metavar="CASE", help="a case alone, JSON as a failure printed it")
    add("--material", type=pathlib.Path, help="directory with runs of an earlier call, or for them")
    values = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        directory = pathlib.Path(directory)
        found = fuzz(
            values.material or directory / "material",
            directory / "log",
            cases=values.cases,
            seed=values.seed,
            seconds=values.seconds,
            repeat=values.repeat,
        )
    print(found.text())
    return 1 if found.faults else 0


class Found:
    """What came of cases: `counts`, a `Counter`, and `faults`, a list of dictionaries."""

    def __init__(self):
        self.counts, self.faults = collections.Counter(), []
        self.slowest, self.seconds = 0.0, 0.0

    def add(self, lines):
        """Add the lines of a process's log; returns the case that it did not end, or None."""
        waiting = None
        for line in map(json.loads, lines):
            if "begins" in line:
                waiting = line["begins"]
            elif "fault" in line:
                self.add_fault(line)
            else:
                self.counts[line["ends"]] += 1
                self.counts["cases"] += 1
                self.slowest = max(self.slowest, line["seconds"])
                self.seconds += line["seconds"]
                waiting = None
        return waiting

    def add_fault(self, fault):
        """Add a fault, and print it: the other cases may take long."""
        self.faults.append(fault)
        print(f"{fault['fault']}\nof {json.dumps(fault['case'])}", flush=True)

    def text(self):
        """A report: each fault once, with the shortest case that showed it, then the counts."""
        kinds = {}
        for each in self.faults:
            kind = each["fault"].strip().splitlines()[-1][:80]
            kinds.setdefault(kind, []).append(json.dumps(each["case"]))
        texts = {json.dumps(each["case"]): each["fault"] for each in self.faults}
        lines = []
        for same in kinds.values():
            case = min(same, key=len)
            lines += [f"FAULT, in {len(same)} cases. {texts[case].strip()}"]
            lines += [f"Again: python -m tests.fuzz --repeat '{case}'", ""]
        rate = self.counts["cases"] / self.seconds if self.seconds else 0.0
        counts = ", ".join(f"{number:,} {name}" for name, number in sorted(self.counts.items()))
        return "\n".join(
            [*lines, f"{counts}; {rate:.1f} cases a second, the slowest {self.slowest:.1f} s"]
        )


def fuzz(material, log, *, cases, seed, seconds, repeat=None):
    """Run cases in processes of their own; returns a `Found`."""
    found, number = Found(), 0
    exports = ["--exports"] if cases > FEW else []
    while found.counts["cases"] < (1 if repeat else cases):
        what = ["--cases", min(A_PROCESS, cases - found.counts["cases"]), "--seed", seed + number]
        if repeat:
            what = ["--repeat", repeat]
        log.unlink(missing_ok=True)
        began = time.monotonic()
        command = [sys.executable, "-m", "tests.fuzz.fuzzing", material, "--log", log]
        command += ["--seconds", seconds, *exports, *what]
        ended = subprocess.run(
            [str(word) for word in command],
            cwd=ROOT,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        waiting = found.add(log.read_text("utf-8").splitlines() if log.is_file() else [])
        number += 1
        told = f"seed {seed}, process {number}: {dict(found.counts)}, {len(found.faults)} faults"
        print(f"{told}, {time.monotonic() - began:.0f} s", flush=True)
        if ended.returncode:
            what = "hang" if "Timeout" in ended.stderr else "crash"
            found.counts[what] += 1
            found.counts["cases"] += 1
            fault = f"{ended.stderr[-6000:]}\n{what} with exit code {ended.returncode}"
            found.add_fault({"fault": fault, "case": waiting})
            if waiting is None:  # the fuzzer itself
                break
    return found


if __name__ == "__main__":
    sys.exit(main())
