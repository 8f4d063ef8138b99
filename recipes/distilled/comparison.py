"""Quality, size and speed of a student and its teacher, measured together."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import pathlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

from keras_transformer import RunDirectory, Translator
from keras_transformer.data import ParallelText
from keras_transformer.evaluation import bleu, chrf
from keras_transformer.files import say, scratch_directory, write_json, write_text
from keras_transformer.runs import run_lock
from keras_transformer.search_options import SearchKeywords, search_record, search_text
from recipes.distilled.report import RESULT, TABLE, markdown_table
from recipes.distilled.runtimes import LITERT_INT8, RUNTIMES, Translate, runtimes_of
from recipes.distilled.teacher import SEARCH, Teacher, given_search

MOST_TIMED = 1000  # sentences
ROUNDS = 3  # every system translates all timed sentences in each round


@dataclasses.dataclass(frozen=True)
class System:
    """A model with its search options.

    Args:
        name: name shown in the table.
        translator: translator for the model.
    """

    name: str
    translator: Translator

    @property
    def search(self) -> str:
        """A description of the search."""
        return search_text(search_record(self.translator.search_options))


def compare(
    teacher: Teacher | None,
    students: Sequence[RunDirectory],
    text: ParallelText,
    *,
    exports: bool = True,
) -> dict[str, Any]:
    """Compare a student with its teacher on a test text and print a table.

    Writes `distilled.json` and `distilled.md` to the first student's run, which is locked. The
    teacher's runs, their ensemble and the students are measured with the search options used for
    scoring after training, and with their shortlists. The first run and the students are also
    measured with greedy decoding. The ensemble uses the alpha and the extra length from the
    student's settings. All speeds are for the same sentences. The systems take turns for `ROUNDS`
    rounds. A ratio is the median over the rounds of the first system's time divided by the other
    system's time in the same round, so other load on the machine affects both.

    Args:
        teacher: the teacher, if there is one.
        students: the student's run after training, and the run that continues it, if there is one.
        text: the test text.
        exports: whether to also measure each system as a SavedModel and as LiteRT models.

    Returns:
        The contents of `distilled.json`.
    """
    student = students[0]
    with run_lock(student.path):
        systems = _systems(teacher, students)
        say(f"\nComparing {len(systems)} systems on {text.name}")
        with scratch_directory(student.path) as folder:
            tokenize = str(student.settings().get("bleu_tokenize", "13a"))
            content = _measured(systems, text, tokenize, folder if exports else None)
        write_json(student.path / RESULT, content)
        table = markdown_table(content)
        write_text(student.path / TABLE, table)
    say(f"\n{table}\nThe table is in {student.path / TABLE}, all values are in {RESULT}")
    return content


def _measured(
    systems: Sequence[System], text: ParallelText, tokenize: str, folder: pathlib.Path | None
) -> dict[str, Any]:
    """Return the contents of `distilled.json`. `folder` is for exports, if they are measured."""
    sources, references = map(list, zip(*text, strict=True))
    timed = sources[:: -(-len(sources) // MOST_TIMED)]
    results = [_quality(system, sources, references, tokenize) for system in systems]
    found = _runtimes(systems, folder)
    for name in RUNTIMES:
        translates = [runtimes[name].translate for runtimes in found if name in runtimes]
        if len(translates) < len(systems):
            continue  # the reason was already printed
        speeds = _speeds(translates, timed)
        for result, runtimes, speed in zip(results, found, speeds, strict=True):
            result["runtimes"][name] = {"bytes": runtimes[name].num_bytes, **speed}
            if name == LITERT_INT8:  # the others translate like Translator
                hypotheses = runtimes[name].translate(sources)
                score = bleu(hypotheses, references, tokenize)[0]
                result["runtimes"][name]["bleu"] = score
    return {
        "text": text.name,
        "sentences": len(sources),
        "bleu_signature": bleu(references, references, tokenize)[1],
        "chrf_signature": chrf(references, references)[1],
        "timed_sentences": len(timed),
        "rounds": ROUNDS,
        "date": datetime.date.today().isoformat(),
        "systems": results,
    }


def _systems(teacher: Teacher | None, students: Sequence[RunDirectory]) -> list[System]:
    """Return the systems to compare. The first system is the baseline."""
    systems = [] if teacher is None else _teachers(teacher, students[0])
    baseline = systems[:1]
    names = ("student", "student, trained for int8")
    learned = [System(name, _translator([run])) for name, run in zip(names, students, strict=False)]
    systems += learned
    systems += [
        System(system.name, system.translator.with_search(beam_size=1))
        for system in (*baseline, *learned)
        if system.translator.beam_size > 1
    ]
    return systems


def _teachers(teacher: Teacher, student: RunDirectory) -> list[System]:
    """Return the teacher's runs, and their ensemble if there are several."""
    runs, given = teacher.runs, given_search(student.settings())
    given.pop("beam_size", None)  # used only for the n-best lists
    if len(runs) == 1:
        return [System("teacher", _translator(runs, given))]
    ensemble = System(f"ensemble of {len(runs)}", _translator(runs, given))
    say(
        f"The {ensemble.name} searches with {ensemble.search}: what the student's --teacher-alpha "
        f"and --teacher-extra-length do not set is taken from {runs[0].path}"
    )
    return [*(System(f"teacher {run.path.name}", _translator([run])) for run in runs), ensemble]


def _translator(runs: Sequence[RunDirectory], given: SearchKeywords | None = None) -> Translator:
    """Return a translator with the search that scored the first run, overridden by `given`."""
    recorded = runs[0].settings()
    search: Any = {name: recorded[name] for name in SEARCH if name in recorded}
    search |= runs[0].search_defaults()  # the result of `--tune-alpha`
    search |= given or {}
    search["shortlist"] = runs[0].shortlist_path.is_file()
    paths = [run.path for run in runs]
    return Translator.load(paths, long_sentences="cut", engine="own", **search)


def _quality(
    system: System, sources: list[str], references: list[str], tokenize: str
) -> dict[str, Any]:
    """Return a system's scores and properties."""
    hypotheses = system.translator.translate(sources)
    options, models = system.translator.search_options, system.translator.models
    return {
        "system": system.name,
        "runs": sorted({str(run.path) for run, _ in system.translator.origins}),
        "bleu": bleu(hypotheses, references, tokenize)[0],
        "chrf": chrf(hypotheses, references)[0],
        "search": system.search,
        "beam_size": options.beam_size,
        "alpha": options.alpha,
        "parameters": sum(model.count_params() for model in models),
        "runtimes": {},
    }


def _runtimes(systems: Sequence[System], folder: pathlib.Path | None) -> list[dict[str, Any]]:
    """Return the runtimes of each system. The reason for a missing runtime is printed once."""
    said: set[str] = set()

    def say_once(line: str) -> None:
        if line not in said:
            say(line)
        said.add(line)

    found = []
    for number, system in enumerate(systems):
        path = None if folder is None else folder / str(number)
        if path is not None:
            say(f"Exporting {system.name}, {system.search}")
            path.mkdir()
        found.append(runtimes_of(system.translator, path, say_once))
    return found


def _speeds(translates: Sequence[Translate], sentences: list[str]) -> list[dict[str, Any]]:
    """Time the functions in turns. Return the seconds per round and ratios to the first."""
    for translate in translates:
        translate(sentences)  # compiles the functions and allocates memory
    seconds: list[list[float]] = [[] for _ in translates]
    for _, (number, translate) in itertools.product(range(ROUNDS), enumerate(translates)):
        start = time.perf_counter()
        translate(sentences)
        seconds[number].append(time.perf_counter() - start)
    return [
        {
            "sentences_per_second": len(sentences) / statistics.median(times),
            "ratio": statistics.median(
                first / own for first, own in zip(seconds[0], times, strict=True)
            ),
            "seconds": times,
        }
        for times in seconds
    ]
