"""The student's training text: the original text, translated by the teacher."""

import argparse
import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Iterator
from typing import Self

from keras_transformer import SentencePieceTokenizer, training
from keras_transformer.data import ParallelFiles, ParallelText, text_lines
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.files import write_json
from keras_transformer.translation_training import TranslationData
from recipes.distilled.nbest_lists import (
    NBEST,
    best_by_search,
    check_lines,
    nearest_by_sentence_bleu,
    write_chosen,
    write_nbest,
)
from recipes.distilled.settings import BEST, BY_BLEU, DistilledSettings
from recipes.distilled.teacher import Teacher, given_search

SHARED = "distilled"  # the folder for all translations and for the recipe's default run directories
RECORD = "made_by.json"


class DistilledText(ParallelText):
    """The sources of a text, paired with translations from a file.

    Args:
        original: the text.
        path: file with translations, one per line.
        way: how the translations were chosen; part of the text's name.
    """

    def __init__(self, original: ParallelText, path: pathlib.Path, way: str) -> None:
        super().__init__(f"{original.name}, translated ({way})")
        self.original = original
        self.path = path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for (source, _), target in zip(self.original, text_lines(self.path), strict=True):
            yield source, target

    def fingerprint(self) -> str:
        """Return the original's fingerprint with the SHA-256 hash of the translations."""
        with self.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return f"{self.original.fingerprint()} translated {digest}"

    @property
    def num_pairs(self) -> int | None:
        """The number of pairs in the original."""
        return self.original.num_pairs


class ReversedText(ParallelText):
    """The pairs of a text with their sides exchanged."""

    def __init__(self, text: ParallelText) -> None:
        super().__init__(f"{text.name}, reversed")
        self.text = text

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((target, source) for source, target in self.text)

    def fingerprint(self) -> str:
        """Return the text's fingerprint, marked as reversed."""
        return f"{self.text.fingerprint()} reversed"

    @property
    def num_pairs(self) -> int | None:
        """The number of pairs in the text."""
        return self.text.num_pairs


@dataclasses.dataclass(frozen=True)
class Translations:
    """What translates which text for the student.

    Args:
        teacher: the teacher, or None if `file` replaces it.
        file: translations of the first training text by any system, one per line.
        more: text whose sources the teacher also translates.
        backward: teacher of the opposite direction.
        folder: folder for the translations, which are created if missing. None means a separate
            folder for each teacher, text and search. It is in `distilled/` next to the run, or
            next to the run if the run itself is in `distilled/`, as by default.
    """

    teacher: Teacher | None
    file: pathlib.Path | None = None
    more: ParallelText | None = None
    backward: Teacher | None = None
    folder: pathlib.Path | None = None

    @classmethod
    def of(cls, values: argparse.Namespace, settings: DistilledSettings) -> Self:
        """Return what the recipe's flags name."""
        more = values.more_source
        return cls(
            Teacher.open(values.teacher, given_search(settings.to_dict()))
            if values.teacher
            else None,
            values.translations,
            ParallelFiles(more, more) if more else None,
            Teacher.open(values.backward) if values.backward else None,
            values.distilled,
        )

    def check_tokenizers(self, *tokenizers: SentencePieceTokenizer) -> None:
        """Raise a `UserInputError` if a student's tokenizers differ from the teacher's."""
        if self.teacher is not None:
            self.teacher.check_tokenizers(*tokenizers)

    def texts(
        self, text: ParallelText, settings: DistilledSettings, run: training.TrainingRun
    ) -> list[ParallelText]:
        """Return the texts that the student reads instead of a text; see `distilled_data`."""
        found: list[ParallelText] = []
        if self.file is not None:
            text.fingerprint()  # counts the pairs
            if (lines := sum(1 for _ in text_lines(self.file))) != text.num_pairs:
                raise UserInputError(
                    f"{self.file} must have a line for each source sentence. Received: {lines:,} "
                    f"lines for {text.num_pairs:,} sentences"
                )
            found.append(DistilledText(text, self.file, self.file.name))
        elif self.teacher is not None:
            found += _translated(text, self.teacher, settings.ways, settings, run, self.folder)
        if self.more is not None and self.teacher is not None:
            folder = _beside(self.folder, "more")
            found += _translated(self.more, self.teacher, (BEST,), settings, run, folder)
        if self.backward is not None:
            folder = _beside(self.folder, "backward")
            reversed_text = ReversedText(text)
            pairs = _translated(reversed_text, self.backward, (BEST,), settings, run, folder)
            found += map(ReversedText, pairs)
        return found


def _beside(folder: pathlib.Path | None, name: str) -> pathlib.Path | None:
    return folder and folder.with_name(f"{folder.name}-{name}")


def distilled_data(
    original: TranslationData,
    translations: Translations,
    settings: DistilledSettings,
    run: training.TrainingRun,
) -> TranslationData:
    """Return the student's texts. Only the first training text is translated.

    Args:
        original: the original texts.
        translations: what translates.
        settings: settings that determine which translations and original pairs the student reads.
        run: the student's training run.

    Raises:
        UserInputError: the folder contains damaged translations, or translations from a different
            teacher, text or search; it lacks the translations with which training started; several
            machines would translate; or a greedy teacher has nothing to choose from.
    """
    text, *others = original.train
    distilled = translations.texts(text, settings, run)
    mixed = [(text, settings.mix_original)] if settings.mix_original else []
    mixed += zip(others, (original.weights or [])[1:], strict=True)
    return dataclasses.replace(
        original,
        train=[*distilled, *(text for text, _ in mixed)],
        weights=[*([1.0] * len(distilled)), *(weight for _, weight in mixed)],
    )


def _translated(
    text: ParallelText,
    teacher: Teacher,
    ways: tuple[str, ...],
    settings: DistilledSettings,
    run: training.TrainingRun,
    folder: pathlib.Path | None,
) -> list[DistilledText]:
    """Return a text as translated by a teacher, once for each way to choose translations."""
    if not run.state and BY_BLEU in ways and teacher.search["beam_size"] == 1:
        rule = "be best if the teacher uses greedy decoding, which finds only one translation"
        refuse("from_nbest", f"{rule}: `--teacher-beam-size` finds more", settings.from_nbest)
    made_by = {**teacher.record(), "text": text.fingerprint()}
    if folder is None:
        digest = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()
        beside = run.directory.path.parent
        folder = (beside if beside.name == SHARED else beside / SHARED) / digest[:16]
    _check_folder(folder, made_by)
    paths = {way: folder / _file_name(way, settings.bleu_tokenize) for way in ways}
    missing = [way for way, path in paths.items() if not path.is_file()]
    if missing and run.state and not (folder / NBEST).is_file():
        raise _lost_translations(run.directory.path, folder, made_by)
    if missing and run.devices.processes > 1:
        raise UserInputError(
            f"{folder} lacks the teacher's translations, which one machine must create: start on "
            "one machine, and continue with --resume on all machines."
        )
    if missing:
        _make(missing, text, teacher, settings, run, folder, made_by)
    else:
        run.say(f"The translations of {text.name} ({teacher.told_search}) are in {folder}")
    for path in paths.values():
        check_lines(text, path)
    return [DistilledText(text, paths[way], way) for way in paths]


def _differences(path: pathlib.Path, made_by: dict[str, object]) -> list[str]:
    """Return the names of the values that differ from a folder's record."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return [name for name, value in made_by.items() if found.get(name) != value]
    except (ValueError, AttributeError) as error:
        raise UserInputError(
            f"{path} is damaged: it names the teacher of the translations next to it. Choose "
            "another --distilled."
        ) from error


def _others(
    folder: pathlib.Path, made_by: dict[str, object]
) -> list[tuple[list[str], pathlib.Path]]:
    """Return sibling folders with translations, and the values that differ in each record."""
    others = []
    for path in sorted(folder.parent.glob(f"*/{RECORD}")):
        with contextlib.suppress(UserInputError):  # a damaged record, possibly for a different text
            if names := _differences(path, made_by):
                others.append((names, path.parent))
    return others


def _lost_translations(
    student: pathlib.Path, folder: pathlib.Path, made_by: dict[str, object]
) -> UserInputError:
    """Return the error for a student whose text would be translated again after it has started.

    The student cannot resume with different translations. The error message names the differences
    from the most similar translations.
    """
    found = undo = ""
    if others := _others(folder, made_by):
        names, path = min(others, key=lambda other: len(other[0]))
        found = f"; those in {path} differ in {' and '.join(names)}"
        if "search" in names:
            undo = " (`keras-transformer tune TEACHER --reset` undoes the changes made by `tune`)"
    return UserInputError(
        f"{folder} lacks the translations with which {student} started{found}. Put them back, or "
        f"the teacher as it was{undo}; or name their folder with --distilled; or start over with "
        "--overwrite."
    )


def _make(
    ways: list[str],
    text: ParallelText,
    teacher: Teacher,
    settings: DistilledSettings,
    run: training.TrainingRun,
    folder: pathlib.Path,
    made_by: dict[str, object],
) -> None:
    """Translate the sources, if not yet done, and choose among the translations."""
    nbest = folder / NBEST
    if not nbest.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / RECORD, made_by)
        for names, path in _others(folder, made_by):
            if names == ["search"]:
                unfinished = "" if (path / NBEST).is_file() else "unfinished "
                run.say(f"Keeping {unfinished}translations from a different search in {path}")
        run.say(
            f"Translating {text.num_pairs:,} sentences of {text.name} into {folder}: "
            f"{teacher.told_search}"
        )
        write_nbest(text, teacher, nbest, made_by, run.say)
        # The teacher consumed random numbers, unlike a run that reuses existing translations.
        training.make_reproducible(settings.seed, settings.deterministic)
    for way in ways:
        name = _file_name(way, settings.bleu_tokenize)
        choose = best_by_search if way == BEST else nearest_by_sentence_bleu(settings.bleu_tokenize)
        write_chosen(text, nbest, folder / name, choose, {**made_by, "file": name})


def _file_name(way: str, tokenize: str) -> str:
    """Return the file name for a choice of translations. It includes sentence BLEU's tokenizer."""
    return f"{way}.txt" if way == BEST else f"{way}-{tokenize}.txt"


def _check_folder(folder: pathlib.Path, made_by: dict[str, object]) -> None:
    """Refuse a folder with translations from a different teacher, text or search."""
    path = folder / RECORD
    if not path.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.glob("[!.]*"))):
            raise UserInputError(
                f"{folder} holds no translations of a teacher. Choose another --distilled."
            )
        return
    if other := _differences(path, made_by):
        raise UserInputError(
            f"The translations in {folder} were made with different {' and '.join(other)}. Choose "
            "another --distilled."
        )
