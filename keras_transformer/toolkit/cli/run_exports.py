"""Exports inside a run for `translate --engine`, created once and reused."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import CannotOpenExport, SentenceTooLong, UserInputError
from keras_transformer.files import checksum, file_lock, note, set_aside
from keras_transformer.formats.format import Format, Reading
from keras_transformer.formats.registry import FORMATS, check_export
from keras_transformer.input_files import read_record
from keras_transformer.runs.checksums import has_checksums
from keras_transformer.search_options import TRANSLATION, SearchKeywords, SearchOptions
from keras_transformer.text.sentence_encoding import LONG_SENTENCES, LongSentences
from keras_transformer.text.text_lines import one_line
from keras_transformer.toolkit.cli.named_models import (
    EXPORTED_SEARCH,
    NamedModels,
    search_of,
    settled_search,
)
from keras_transformer.toolkit.cli.program import flag
from keras_transformer.types import MARKUP, NONE, MarkupKind

if TYPE_CHECKING:
    from keras_transformer.inference.litert_graph import Precision
    from keras_transformer.inference.translator import Translator
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.text import Glossary


class _Weights(msgspec.Struct):
    weights_sha256: str


class _Card(msgspec.Struct):
    """The fields of an export's `model_card.json` that record its origin."""

    precision: str
    models: list[_Weights]
    options: dict[str, Any]
    max_length: int | None = None


class _Unusable(Exception):
    """An export cannot be used. The message explains the reason."""


@dataclasses.dataclass(frozen=True)
class RunExport:
    """An export of a run in one format.

    Args:
        format: export format, whose name is also the name of the engine.
        models: run to export.
        reading: options for translating with the export.
        precision: number format of the weights.
        shortlist: whether to restrict the search to the candidates in the run's shortlist.
        terms: whether the export must be able to translate with terms.
    """

    format: Format
    models: NamedModels
    reading: Reading
    precision: str = "float32"
    shortlist: bool = False
    terms: bool = False

    def load(self) -> Any:
        """Return the translator of the run's export, creating the export if it is missing.

        The export is recreated if one of its files is damaged, if its engine cannot open it, or if
        the weights have changed. An export that includes the search is also recreated if the search
        options have changed. The old export is removed once the new export is complete. Only one
        process at a time can open or create the export.
        """
        from keras_transformer.runs.run_directory import RunDirectory

        self.format.check_runtime()  # report a missing runtime before creating an export
        run = RunDirectory.open(self.models.runs[0])
        weights = run.find_weights(*(self.models.checkpoint or ()))
        folder = run.engines_path / f"{self.format.name}-{self.precision}"
        path = folder / self.format.version
        with _alone(run, folder):
            try:
                return self._usable(path, weights)
            except _Unusable as error:
                note(f"Creating {path} for `--engine {self.format.name}`: {error}.")
            with set_aside(path):
                self.export(folder)
            return self.format.open(path, self.reading)

    def export(self, directory: Path) -> None:
        """Export the run to a directory."""
        search = {**self._search, "terms": self.terms} if self.format.has_search else {}
        translator = self.models.load(shortlist=self.shortlist)
        self.format.write(translator, directory, precision=self.precision, **search)

    @property
    def _search(self) -> dict[str, Any]:
        """Return the search options stored in the export."""
        return {name: getattr(self.reading.search, name) for name in EXPORTED_SEARCH}

    def _usable(self, path: Path, weights: Path) -> Any:
        """Open an export. Raise `_Unusable` if the export itself is the problem."""
        if not path.exists():
            raise _Unusable("it is missing")
        if not has_checksums(path):
            raise _Unusable("it is damaged")
        try:
            card = read_record(path / "model_card.json", _Card)
        except UserInputError as error:
            raise _Unusable("it is damaged") from error
        if [model.weights_sha256 for model in card.models] != [checksum(weights)]:
            raise _Unusable("it was made from different weights")
        if self.format.has_search:
            self._check_search(card)
        try:
            return self.format.open(path, self.reading)
        except CannotOpenExport as error:
            raise _Unusable("it cannot be opened") from error
        except UserInputError as error:
            try:
                check_export(path)
            except UserInputError:
                raise _Unusable("it is damaged") from error
            raise

    def _check_search(self, card: _Card) -> None:
        """Refuse an export with different search options."""
        source_limit = self.reading.search.source_limit(card.max_length)
        expected = {**self._search, "max_source_length": source_limit, "shortlist": self.shortlist}
        # Exports from older versions lack newer options.
        found = {**dataclasses.asdict(TRANSLATION), "shortlist": False, **card.options}
        if any(found.get(name) != value for name, value in expected.items()):
            raise _Unusable("it was made with different search options")
        if self.terms and not found.get("terms"):
            raise _Unusable("it was made without terms")


@contextlib.contextmanager
def _alone(run: "RunDirectory", path: Path) -> Iterator[None]:
    """Lock an export while it is opened or created so that no other process replaces it.

    A read-only run does not need a lock, because its files cannot be replaced.
    """
    run.check_no_links()
    lock = path.with_name(f".{path.name}.lock")

    def on_wait() -> None:
        note(f"Waiting for another process that uses {path}.")

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            stack.enter_context(file_lock(lock, on_wait))
        yield


AUTO: Final = "auto"
OWN: Final = "own"
ENGINES = (AUTO, OWN, *sorted(name for name, each in FORMATS.items() if each.reader))
USUAL_LANGUAGE = "en"  # default language of the lines


@dataclasses.dataclass(frozen=True)
class LineOptions:
    """Options for translating lines.

    Args:
        models: models to use.
        search: fields of `SearchOptions` set by the user; other fields default to the run's values.
        sampling: keyword arguments for `Translator.sample`; None means search instead of sampling.

    For the other fields, see the help texts of their flags.
    """

    models: NamedModels
    search: SearchKeywords
    engine: str = flag(
        "inference engine: this package (own), or an export, which is created once in the run's "
        "engines/. ctranslate2 starts fastest; its length penalty is different: the length to the "
        "power of --alpha. auto is own, but on a CPU it translates up to four lines with a LiteRT "
        "model, which is created in the background and kept in the user's cache (default: auto)",
        AUTO,
        choices=ENGINES,
    )
    precision: "Precision" = flag(
        "number format of the weights in an export and in the LiteRT model of `--engine auto`; in "
        "int8, they are smaller and faster, but some translations differ: `evaluate --int8` scores "
        "them (default: float32)",
        "float32",
        choices=("float32", "int8"),
    )
    shortlist: bool = flag(
        "restrict the output for each line to the tokens in the run's shortlist: faster for a few "
        "lines at a time, but some translations differ",
        False,
    )
    n_best: int | None = flag(
        "print the N best translations of each line (N <= beam size), best first, as `index ||| "
        "text ||| score`; the index of the line starts at 0, and the score includes the length "
        "penalty. With --sample, print N samples and their log-probabilities",
        type=positive_int,
        metavar="N",
    )
    tab_prefix: bool = flag(
        "read lines of the form `source TAB prefix`, and start each translation with the prefix; a "
        "line without TAB has no prefix",
        False,
    )
    glossary: str | None = flag(
        "file of terms that the translations must contain, one per line: `source TAB target`. "
        "Several targets, such as inflected forms, are separated by `|`; a third column `i` "
        "ignores the letter case of the source term",
        metavar="FILE",
    )
    glossary_tags: bool = flag(
        "put the first target of each term of --glossary into the source, for a model trained with "
        "`train --glossary-tags`, instead of constraining the translations: the model inflects the "
        "term, but may ignore it",
        False,
    )
    keep: str | None = flag(
        "parts of each line that its translation must contain unchanged: `auto` for variables such "
        "as {name} and %%s, URLs and e-mail addresses; `numbers` for numbers too; `none`; or "
        "a regular expression (default: none; with --markup: auto)",
        metavar="WHAT",
    )
    markup: MarkupKind | None = flag(
        "translate the input as one document in this format instead of line by line. Only its text "
        "changes: tags are placed around the words that their words became, and code, comments and "
        'elements with translate="no" stay as they are. markdown needs the markup extra',
        choices=MARKUP,
    )
    long_lines: LongSentences = flag(
        "what to do with lines longer than --max-source-length: `refuse` stops with an error, "
        "`cut` drops the rest, `split` translates the line's sentences one by one and joins them "
        "with spaces. Each such line is reported on stderr (default: refuse)",
        "refuse",
        choices=LONG_SENTENCES,
    )
    source_language: str = flag(
        "language whose rules determine where sentences end, for `--long-lines split` and "
        f"--markup (default: {USUAL_LANGUAGE})",
        USUAL_LANGUAGE,
        default=None,
        metavar="CODE",
    )
    sampling: dict[str, Any] | None = None
    tag: str | None = flag(
        "add TEXT and a space before every nonempty line, to mark machine-translated text",
        metavar="TEXT",
    )

    @property
    def full_search(self) -> SearchOptions:
        """Return the complete search options, including the run's defaults."""
        return SearchOptions(**search_of(self.search, self.models.runs[0]))

    def settled(self) -> Self:
        """Return a copy with the run's search filled in, so that `tune` cannot change it."""
        search = settled_search(self.search, self.models.runs[0], EXPORTED_SEARCH)
        return dataclasses.replace(self, search=search)

    @property
    def advice(self) -> str:
        """Advice for lines that are too long."""
        if self.markup is not None:
            return "`--long-lines split` divides it"
        format = FORMATS.get(self.engine)
        own_search = format is not None and format.has_search
        if own_search or self.n_best is not None or self.tab_prefix or self.sampling is not None:
            return "`--long-lines cut` drops its end"
        return "`--long-lines split` translates its sentences one by one, `cut` drops its end"

    def settings(self) -> dict[str, Any]:
        """Return all options keyed by flag name, for the record of a resumable output."""
        values = dict(vars(self))
        models, search, sampling = (values.pop(x) for x in ("models", "search", "sampling"))
        return {
            **models.settings(),
            **search,
            **values,
            "engine": OWN if self.engine == AUTO else self.engine,  # the translations are the same
            # missing in records of older versions
            "precision": None if self.precision == "float32" else self.precision,
            "shortlist": self.shortlist or None,
            "glossary_tags": self.glossary_tags or None,
            "sample": sampling is not None,
            **(sampling or {}),
        }


@dataclasses.dataclass(frozen=True)
class LineTranslator:
    """Translates lines with a `Translator` or with an export."""

    options: LineOptions
    translator: Any
    glossary: "Glossary | None" = None

    def answer(self, lines: list[str], first_index: int) -> list[str]:
        """Translate lines and return one output line per input line, or `n_best` lines.

        `first_index` is the number of preceding lines.
        """
        options, translator = self.options, self.translator
        sources, *prefixes = _parts_of(lines, options.tab_prefix)
        terms = self._terms
        found: Iterable[Sequence[tuple[str, float]]]
        with self._advising():
            if options.sampling is not None:
                how = {**options.sampling, "prefixes": next(iter(prefixes), None)}
                number = options.n_best or 1
                found = translator.sample(sources, number, first_index=first_index, **how, **terms)
            elif options.n_best is not None:
                found = translator.translate_nbest(sources, options.n_best, *prefixes, **terms)
            else:
                texts = translator.translate(sources, *prefixes, **terms)
                found = [[(text, 0.0)] for text in texts]
        if options.n_best is not None:
            return n_best_lines(found, first_index)
        return [tagged(one_line(text), options.tag) for ((text, _),) in found]

    def translated(self, document: str, progress: bool) -> str:
        """Return a document with its text translated."""
        with self._advising():
            (text,) = self.translator.translate(
                [document], progress=progress, markup=self.options.markup, **self._terms
            )
        return text

    @property
    def _terms(self) -> dict[str, Any]:
        """Keyword arguments of `translate`, `translate_nbest` and `sample`."""
        terms = {
            "glossary": self.glossary,
            "glossary_tags": self.options.glossary_tags or None,
            "keep": self.options.keep,
        }
        return {name: value for name, value in terms.items() if value is not None}

    def check(self, lines: list[str], first_index: int) -> None:
        """Raise `SentenceTooLong` if a line is too long. See `answer` for the arguments."""
        sources, *prefixes = _parts_of(lines, self.options.tab_prefix)
        if self.glossary is not None and self.options.glossary_tags:
            sources = [self.glossary.inline(source) for source in sources]
        with self._advising():
            self.translator.check_lengths(sources, *prefixes)

    @contextlib.contextmanager
    def _advising(self) -> Iterator[None]:
        """Add advice to errors about long lines. Long prefixes are always refused."""
        try:
            yield
        except SentenceTooLong as error:
            if error.name not in ("sentences", "sources"):
                raise
            fault = f"{error.fault} ({self.options.advice})"
            raise SentenceTooLong(error.name, error.index, fault) from error


def load_line_translator(options: LineOptions, num_lines: int = 0) -> LineTranslator:
    """Load the translator for about `num_lines` lines (0 if unknown)."""
    models = options.models
    engine = FORMATS.get(options.engine)
    if engine is not None:
        reading = Reading(
            options.full_search,
            models.batch_size,
            options.long_lines,
            options.source_language,
            models.target_language,
        )
        needs_terms = (options.glossary, options.markup) != (None, None)
        terms = needs_terms or options.keep not in (None, NONE)
        how = options.precision, options.shortlist, terms
        export = RunExport(engine, models, reading, *how)
        return LineTranslator(options, export.load(), _glossary(options))

    def load() -> "Translator":
        return models.load(
            batches=num_lines // models.lines_a_batch,
            **options.search,
            batch_size=models.batch_size,
            long_sentences=options.long_lines,
            source_language=options.source_language,
            shortlist=options.shortlist,
            engine=AUTO if options.engine == AUTO else OWN,
            precision=options.precision,
        )

    translator: Any = None
    if options.engine == AUTO:
        from keras_transformer.toolkit.cli.few_lines import few_lines

        translator = few_lines(options, num_lines, load)
    return LineTranslator(options, translator or load(), _glossary(options))


def _glossary(options: LineOptions) -> "Glossary | None":
    if options.glossary is None:
        return None
    from keras_transformer.text import Glossary

    return Glossary.load(options.glossary)


def _parts_of(lines: list[str], tab_prefix: bool) -> list[list[str]]:
    """Return the sources in the lines and, with `--tab-prefix`, their prefixes."""
    if not tab_prefix:
        return [lines]
    parts = [line.partition("\t") for line in lines]
    return [[source for source, *_ in parts], [prefix for *_, prefix in parts]]


def n_best_lines(
    translations: Iterable[Sequence[tuple[str, float]]], first_index: int
) -> list[str]:
    """Format lists of `(text, score)` pairs as lines of a Moses n-best list.

    Example:
        >>> n_best_lines([[("ein Haus", -0.5), ("Haus", -1.25)]], first_index=7)
        ['7 ||| ein Haus ||| -0.500000', '7 ||| Haus ||| -1.250000']
    """
    return [
        f"{index} ||| {one_line(text)} ||| {score:.6f}"
        for index, candidates in enumerate(translations, start=first_index)
        for text, score in candidates
    ]


def tagged(text: str, tag: str | None) -> str:
    """Return the text with the tag prepended. An empty text remains empty.

    Example:
        >>> tagged("a house", "<BT>"), tagged("", "<BT>"), tagged("a house", None)
        ('<BT> a house', '', 'a house')

    Reference:
        Caswell et al., "Tagged Back-Translation", 2019.
    """
    return f"{tag} {text}" if tag is not None and text.strip() else text
