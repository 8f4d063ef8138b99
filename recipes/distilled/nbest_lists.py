"""The teacher's n-best translations of each source, and ways to choose one."""

import itertools
import json
import pathlib
import sys
from collections.abc import Callable

from keras_transformer.data import ParallelText, one_line, text_lines
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import bleu
from keras_transformer.toolkit.cli import ResumableOutput
from recipes.distilled.settings import BEST, BY_BLEU
from recipes.distilled.teacher import Teacher

NBEST = "nbest.jsonl"
LINES_A_PIECE = 2048  # number of lines translated together, sorted by length
LINES_OF_PROGRESS = 20  # number of progress lines if stderr is not a terminal

Candidates = list[tuple[str, float]]  # texts and scores, best first
Choose = Callable[[Candidates, str], str]  # maps candidates and their reference to one text


def write_nbest(
    text: ParallelText,
    teacher: Teacher,
    path: pathlib.Path,
    made_by: dict[str, object],
    say: Callable[[str], None],
) -> None:
    """Translate the sources of a text, resuming an interrupted call if there was one.

    Args:
        text: the text.
        teacher: the teacher; all hypotheses in its beam are kept.
        path: output file, one line per source: `[[text, score], ...]`, best first.
        made_by: values that determine the translations; must match to resume a call.
        say: function that prints a line.
    """
    total = text.num_pairs or 0
    with ResumableOutput(path, made_by, total) as output:
        translator = teacher.load()
        sources = itertools.islice((source for source, _ in text), output.lines_read, None)
        shown = output.lines_read
        while piece := list(itertools.islice(sources, LINES_A_PIECE)):
            found = translator.translate_nbest(piece, translator.beam_size)
            output.append((json.dumps(one, ensure_ascii=False) for one in found), len(piece))
            if not sys.stderr.isatty() and output.lines_read >= shown + total / LINES_OF_PROGRESS:
                shown = output.lines_read
                say(f"{shown:,} of {total:,} sentences are translated")


def write_chosen(
    text: ParallelText,
    nbest: pathlib.Path,
    path: pathlib.Path,
    choose: Choose,
    made_by: dict[str, object],
) -> None:
    """Choose one of the n-best translations of each source, and write one per line.

    Args:
        text: the text.
        nbest: file from `write_nbest`.
        path: output file.
        choose: function that chooses one of the translations.
        made_by: see `write_nbest`.

    Raises:
        UserInputError: `nbest` is damaged.
    """
    check_lines(text, nbest)
    with ResumableOutput(path, made_by, text.num_pairs or 0) as output:
        pairs = zip(text, text_lines(nbest), strict=True)
        rest = itertools.islice(enumerate(pairs, start=1), output.lines_read, None)
        while piece := list(itertools.islice(rest, LINES_A_PIECE)):
            lines = [
                one_line(choose(_candidates(nbest, number, line), reference))
                for number, ((_, reference), line) in piece
            ]
            output.append(lines, len(piece))


def best_by_search(candidates: Candidates, reference: str) -> str:
    """Choose the candidate with the best score in the teacher's search."""
    return candidates[0][0]


def nearest_by_sentence_bleu(tokenize: str) -> Choose:
    """Return a function that chooses the candidate with the best sentence BLEU (the first if tied).

    Args:
        tokenize: sacrebleu tokenizer.

    Raises:
        UserInputError: the tokenizer is unknown.

    Reference:
        Kim and Rush, "Sequence-Level Knowledge Distillation", 2016, section 3.3.
    """
    from sacrebleu.metrics import BLEU

    bleu(["text"], ["text"], tokenize)  # refuses an unknown tokenizer
    metric = BLEU(tokenize=tokenize, effective_order=True)  # also for sentences with few words

    def choose(candidates: Candidates, reference: str) -> str:
        scores = [metric.sentence_score(text, [reference]).score for text, _ in candidates]
        return candidates[scores.index(max(scores))][0]

    return choose


def check_lines(text: ParallelText, path: pathlib.Path) -> None:
    """Require a file to have one line for each pair of a text."""
    lines = sum(1 for _ in text_lines(path))
    if lines != text.num_pairs:
        raise UserInputError(
            f"{path} is damaged: it has {lines:,} lines for {text.num_pairs:,} pairs. "
            f"{_advice(path)}"
        )


def _candidates(path: pathlib.Path, number: int, line: str) -> Candidates:
    """Return the candidates in a line of a `write_nbest` file."""
    try:
        candidates = [(str(text), float(score)) for text, score in json.loads(line)]
    except (ValueError, TypeError):
        candidates = []
    if not candidates:
        raise UserInputError(f"{path}, line {number} is damaged. {_advice(path)}")
    return candidates


def _advice(path: pathlib.Path) -> str:
    """Return advice on which files to remove if a file is damaged."""
    if path.name != NBEST:
        return "Remove only this file to choose its translations again."
    chosen = [*path.parent.glob(f"{BEST}.txt"), *sorted(path.parent.glob(f"{BY_BLEU}-*.txt"))]
    names = " and ".join([NBEST, *(file.name for file in chosen)])
    return f"Remove {names} to translate again."
