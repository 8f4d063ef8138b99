"""Translating lines as the flags of `translate` ask."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from keras_transformer.cli.named_models import NamedModels
from keras_transformer.cli.program import flag, positive_int
from keras_transformer.cli.run_exports import RunExport
from keras_transformer.cli.search_arguments import (
    EXPORTED_SEARCH,
    search_of,
    settled_search,
)
from keras_transformer.formats.format import Reading
from keras_transformer.formats.registry import FORMATS
from keras_transformer.search_options import SearchKeywords, SearchOptions
from keras_transformer.text.sentence_encoding import LONG_SENTENCES, LongSentences
from keras_transformer.text.text_lines import one_line

if TYPE_CHECKING:
    from keras_transformer.formats.export_translator import ExportTranslator
    from keras_transformer.formats.sentence_translator import SentenceTranslator

OWN = "own"
ENGINES = (OWN, *sorted(name for name, each in FORMATS.items() if each.reader))
USUAL_LANGUAGE = "en"  # of the lines, if none is given


@dataclasses.dataclass(frozen=True)
class LineOptions:
    """What decides the translations of lines.

    Args:
        models: the models.
        search: fields of `SearchOptions` that were given; the rest are the run's own.
        sampling: keyword arguments of `Translator.sample`; None searches.

    The other fields have flags, whose help explains them.
    """

    models: NamedModels
    search: SearchKeywords
    engine: str = flag(
        "what translates: this package's own search, or an export, which is made once in the "
        "run's engines/. ctranslate2 starts fastest and is fastest for one sentence. Its length "
        "penalty is different: the length to the power of --alpha (default: own)",
        OWN,
        choices=ENGINES,
    )
    shortlist: bool = flag(
        "search among the tokens that the run's shortlist has for each line: faster for few "
        "lines at a time, and some translations differ",
        False,
    )
    n_best: int | None = flag(
        "print the N best translations of each line, best first, as `index ||| text ||| "
        "score`: the line's index from 0, the score after the length penalty (N <= beam size); "
        "with --sample, N samples and their log-probabilities",
        type=positive_int,
        metavar="N",
    )
    tab_prefix: bool = flag(
        "input lines are `source TAB prefix`: the translation begins with the prefix; a line "
        "without TAB has no prefix",
        False,
    )
    long_lines: LongSentences = flag(
        "what to do with a line longer than --max-source-length: `refuse` ends the command, "
        "`cut` drops the rest, `split` translates the line's sentences one by one and joins them "
        "with spaces. Each such line is reported on stderr (default: refuse)",
        "refuse",
        choices=LONG_SENTENCES,
    )
    source_language: str = flag(
        "the language whose rules decide where sentences end, for `--long-lines split` "
        f"(default: {USUAL_LANGUAGE})",
        USUAL_LANGUAGE,
        default=None,
        metavar="CODE",
    )
    sampling: dict[str, Any] | None = None
    tag: str | None = flag(
        "put TEXT and a space in front of every nonempty line, to mark machine-translated text",
        metavar="TEXT",
    )

    @property
    def full_search(self) -> SearchOptions:
        """The search, including the run's own options."""
        return SearchOptions(**search_of(self.search, self.models.runs[0]))

    def settled(self) -> Self:
        """Return a copy with the run's own search filled in, so a later `tune` has no effect."""
        search = settled_search(self.search, self.models.runs[0], EXPORTED_SEARCH)
        return dataclasses.replace(self, search=search)

    def settings(self) -> dict[str, Any]:
        """Return all options by the names of their flags, for the record of a resumable output."""
        values = dict(vars(self))
        models, search, sampling = (values.pop(x) for x in ("models", "search", "sampling"))
        return {
            **models.settings(),
            **search,
            **values,
            "shortlist": self.shortlist or None,  # records of older versions lack it
            "sample": sampling is not None,
            **(sampling or {}),
        }


class LineTranslator(NamedTuple):
    """Translates lines.

    Args:
        answer: returns the output lines of lines, given the number of lines before them: one for
            each line, or `n_best`.
        check: raises `SentenceTooLong` if a line is too long.
    """

    answer: Callable[[list[str], int], list[str]]
    check: Callable[[list[str]], None]


def load_line_translator(options: LineOptions, num_lines: int = 0) -> LineTranslator:
    """Load the translator for about `num_lines` lines; 0 means that the number is unknown."""
    models = options.models
    if options.engine != OWN:
        engine = FORMATS[options.engine]
        reading = Reading(
            options.full_search,
            models.batch_size,
            options.long_lines,
            options.source_language,
            models.target_language,
        )
        exported = RunExport(engine, models, reading, options.shortlist).load()
        return _plain(options, exported) if engine.has_search else _full(options, exported)
    translator = models.load(
        batches=num_lines // models.lines_a_batch,
        **options.search,
        batch_size=models.batch_size,
        long_sentences=options.long_lines,
        source_language=options.source_language,
        shortlist=options.shortlist,
    )
    return _full(options, translator, translator.sample)


def _plain(options: LineOptions, translator: "ExportTranslator") -> LineTranslator:
    """Translate with an export that gives one translation of each line and takes no prefix."""

    def answer(lines: list[str], first_index: int) -> list[str]:
        return [tagged(one_line(text), options.tag) for text in translator.translate(lines)]

    return LineTranslator(answer, translator.check_lengths)


def _full(
    options: LineOptions,
    translator: "SentenceTranslator",
    sample: Callable[..., list[list[tuple[str, float]]]] | None = None,
) -> LineTranslator:
    """Translate with a translator that takes prefixes and gives several translations.

    `sample` is the translator's method for sampling, if it has one.
    """

    def answer(lines: list[str], first_index: int) -> list[str]:
        sources, prefixes = _parts_of(lines, options.tab_prefix)
        found: Iterable[Sequence[tuple[str, float]]]
        if options.sampling is not None and sample is not None:
            how = {**options.sampling, "prefixes": prefixes, "first_index": first_index}
            found = sample(sources, options.n_best or 1, **how)
        elif options.n_best is not None:
            found = translator.translate_nbest(sources, options.n_best, prefixes)
        else:
            found = ([(text, 0.0)] for text in translator.translate(sources, prefixes))
        if options.n_best is not None:
            return n_best_lines(found, first_index)
        return [tagged(one_line(text), options.tag) for ((text, _),) in found]

    def check(lines: list[str]) -> None:
        sources, prefixes = _parts_of(lines, options.tab_prefix)
        translator.check_lengths(sources, prefixes or ())

    return LineTranslator(answer, check)


def _parts_of(lines: list[str], tab_prefix: bool) -> tuple[list[str], list[str] | None]:
    """Return the sources of lines, and with `--tab-prefix` also their prefixes."""
    if not tab_prefix:
        return lines, None
    parts = [line.partition("\t") for line in lines]
    return [source for source, *_ in parts], [prefix for *_, prefix in parts]


def n_best_lines(
    translations: Iterable[Sequence[tuple[str, float]]], first_index: int
) -> list[str]:
    """Return lists of `(text, score)` as lines in Moses's n-best format.

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
    """Return the text with the tag in front; an empty text stays empty.

    Example:
        >>> tagged("a house", "<BT>"), tagged("", "<BT>"), tagged("a house", None)
        ('<BT> a house', '', 'a house')

    Reference:
        Caswell et al., "Tagged Back-Translation", 2019.
    """
    return f"{tag} {text}" if tag is not None and text.strip() else text
