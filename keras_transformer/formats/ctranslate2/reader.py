"""The on-disk layout of CTranslate2 exports and a translator that runs them."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import msgspec
import numpy as np

from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError, refuse
from keras_transformer.formats.ctranslate2 import CTRANSLATE2
from keras_transformer.formats.export_translator import cpu_threads, opening
from keras_transformer.formats.format import Reading
from keras_transformer.formats.registry import ADVICE, read_export
from keras_transformer.formats.sentence_translator import Rows, SentenceTranslator
from keras_transformer.input_files import read_record
from keras_transformer.installation import requiring
from keras_transformer.search_options import (
    TRANSLATION,
    SearchKeywords,
    SearchOptions,
    names_in,
    takes_search_options,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import LongSentences, batches_by_length
from keras_transformer.text.sentencepiece_tokenizer import SOURCE_TOKENIZER, TOKENIZER
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    import ctranslate2


class _Vocabulary(msgspec.Struct):
    tokens: Annotated[int, msgspec.Meta(ge=1)]
    sha256: str


class _Options(msgspec.Struct):
    max_positions: Annotated[int, msgspec.Meta(ge=2)]


class CTranslate2Card(msgspec.Struct):
    """The fields of `model_card.json` that the reader needs."""

    options: _Options
    source_vocabulary: _Vocabulary
    target_vocabulary: _Vocabulary


def _load_tokenizers(
    path: Path, card: CTranslate2Card
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """Load the source and target tokenizers, which must match the model card."""
    vocabularies = [(SOURCE_TOKENIZER, card.source_vocabulary), (TOKENIZER, card.target_vocabulary)]
    if card.source_vocabulary.sha256 == card.target_vocabulary.sha256:
        del vocabularies[0]
    found = []
    for name, vocabulary in vocabularies:
        tokenizer = SentencePieceTokenizer.load(path / name)
        if tokenizer.fingerprint != vocabulary.sha256:
            raise UserInputError(f"{path / name} is not the tokenizer of the export. {ADVICE}")
        found.append(tokenizer)
    return found[0], found[-1]


def _read_tokens(path: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Return CTranslate2's names of the source and target tokens in id order, including padding."""
    sides = ("shared",) if (path / "shared_vocabulary.json").exists() else ("source", "target")
    found = [read_record(path / f"{side}_vocabulary.json", list[str], ADVICE) for side in sides]
    return found[0], found[-1]


# Search options that are fixed or not supported in CTranslate2.
FIXED_OPTIONS = ("ending", "renormalize", "max_repeats", "num_results")


class CTranslate2Translator(SentenceTranslator):
    """Translates, scores and aligns sentences with a model exported by `export_ctranslate2`.

    Requires `ctranslate2` and `sentencepiece` (the `ctranslate2` extra). The methods `translate`,
    `translate_nbest`, `score`, `align` and `check_lengths` work as in `Translator`; `sample` is not
    available. Threads may share a translator.

    In float32, greedy translations, log-probabilities and alignments match those of `Translator` up
    to rounding. CTranslate2's beam search differs in the following ways:

    - The length penalty is always `"power"`: it divides by `|Y|^alpha`. The default of `Translator`
      divides by `((5 + |Y|) / 6)^alpha`. Both count EOS in `|Y|`. The penalties, and therefore the
      scores of `translate_nbest`, are equal only at `alpha=0`.
    - The search stops earlier: at `alpha=0` when the best candidate ends, otherwise when
      `beam_size` hypotheses have ended.
    - The score of a translation with a prefix excludes the log-probability of the prefix.

    Args:
        directory: directory written by `export_ctranslate2`.
        num_threads: number of compute threads; defaults to the number of cores, up to 4.
        batch_size: maximum number of sentences in a batch.
        long_sentences: how to handle sentences that are too long, as in `Translator`.
        source_language, target_language: language codes, as in `Translator`.
        **options: fields of `SearchOptions`, as in `Translator`, except that `ending`,
            `renormalize`, `max_repeats` and `num_results` must keep their defaults.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: `ctranslate2` is not installed, the directory contains no export, or files
            of the export are missing or damaged.

    Example:

    ```python
    translator = CTranslate2Translator("exports/en_de_ctranslate2", beam_size=4)
    translator.translate(["A small house.", ""])  # ["Ein kleines Haus.", ""]
    ```

    Reference:
        CTranslate2 translator: https://opennmt.net/CTranslate2/python/ctranslate2.Translator.html
    """

    @takes_search_options()
    def __init__(
        self,
        directory: PathLike,
        *,
        num_threads: int | None = None,
        batch_size: int = 32,
        long_sentences: LongSentences = "refuse",
        source_language: str = "en",
        target_language: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> None:
        num_threads = cpu_threads(num_threads)
        search_options = SearchOptions(**options)
        for name in FIXED_OPTIONS:
            value, default = getattr(search_options, name), getattr(TRANSLATION, name)
            if value != default:
                refuse(name, f"be {default!r} with CTranslate2, which cannot change it", value)
        runtime = runtime_class()
        path = Path(directory)
        _, card = read_export(
            path, "model_card.json", CTRANSLATE2, ("kind", CTRANSLATE2.kind), CTranslate2Card
        )
        super().__init__(
            *_load_tokenizers(path, card),
            search_options,
            batch_size=batch_size,
            long_sentences=long_sentences,
            source_language=source_language,
            target_language=target_language,
        )
        self.max_length = card.options.max_positions
        tokens = _read_tokens(path)
        with opening(f"CTranslate2 cannot open {path}", RuntimeError, ValueError, IndexError):
            model = runtime(str(path), device="cpu", intra_threads=num_threads)
        self._generator = CTranslate2Generator(model, tokens, self.max_length, self)


class CTranslate2Generator:
    """Runs CTranslate2 on rows of ids without BOS or EOS, like `RowGenerator`.

    Args:
        runtime: `ctranslate2.Translator` object.
        tokens: the runtime's names of the source and target tokens in id order.
        max_length: number of positions that the runtime supports.
        translator: translator with the search options, the batch size and the tokenizer.
    """

    def __init__(
        self,
        runtime: "ctranslate2.Translator",
        tokens: tuple[Sequence[str], Sequence[str]],
        max_length: int,
        translator: SentenceTranslator,
    ) -> None:
        self._runtime = runtime
        self._source_tokens, self._target_tokens = tokens
        self._ids = {token: i for i, token in enumerate(self._target_tokens)}
        self._options = translator.search_options
        self._batch_size = translator.batch_size
        self._max_length = max_length
        tokenizer, rows = translator.tokenizer, len(self._target_tokens)
        never = tokenizer.special_tokens.never(tokenizer.vocabulary_size, rows)
        self._never = [[self._target_tokens[i]] for i in never]

    def search(
        self, rows: Rows, prefix_rows: Rows, num_results: int, progress: bool = False
    ) -> Iterator[tuple[int, list[list[int]], list[float]]]:
        """Yield `(index, ids, scores)` for each nonempty row, with the best output first."""
        most, extra = self._max_length - 1, self._options.extra_length  # minus BOS
        pairs = zip(rows, prefix_rows, strict=True)
        limits = [min(max(len(row) + extra, len(prefix)), most) for row, prefix in pairs]
        for indices in self._batches(rows, progress, leave_out_empty=True):

            def search(
                some: Sequence[int], limit: int
            ) -> Sequence["ctranslate2.TranslationResult"]:
                return self._translate(
                    [rows[i] for i in some],
                    [prefix_rows[i] for i in some],
                    limit,
                    num_hypotheses=num_results,
                    return_scores=True,
                )

            found = search(indices, max(limits[i] for i in indices))
            for i, result in zip(indices, found, strict=True):
                # A call has one limit, so outputs over their own limit are searched again with it.
                if max(map(len, result.hypotheses)) > limits[i]:
                    (result,) = search([i], limits[i])
                yield i, *self._outputs(result)

    def score(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, float]]:
        """Yield `(index, log_prob)` for each pair of rows. EOS is included."""
        for indices in self._batches(_longer(source_rows, target_rows), progress):
            found = self._runtime.score_batch(
                self._sources(source_rows[i] for i in indices),
                self._targets(target_rows[i] for i in indices),
                max_input_length=0,
            )
            for i, result in zip(indices, found, strict=True):
                yield i, float(sum(result.log_probs))

    def alignment(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield `(index, weights)` for each pair: float32 (target tokens, source tokens + EOS)."""
        for indices in self._batches(_longer(source_rows, target_rows), progress):
            found = self._translate(
                [source_rows[i] for i in indices],
                [target_rows[i] for i in indices],
                limit=1 + max(len(target_rows[i]) for i in indices),
                beam_size=1,
                return_attention=True,
            )
            for i, result in zip(indices, found, strict=True):
                shape = len(target_rows[i]), len(source_rows[i])
                rows = result.attention[0][: shape[0]] if shape[0] and shape[1] else np.zeros(shape)
                weights = np.reshape(np.asarray(rows, "float32"), shape)
                of_eos = np.maximum(1 - weights.sum(axis=1, keepdims=True), 0)  # EOS is omitted
                yield i, np.concatenate([weights, of_eos], axis=1)

    def _translate(
        self, rows: Rows, prefix_rows: Rows, limit: int, **options: Any
    ) -> Sequence["ctranslate2.TranslationResult"]:
        """Return CTranslate2's results of at most `limit` tokens for a batch of rows."""
        search = self._options
        return self._runtime.translate_batch(
            self._sources(rows),
            self._targets(prefix_rows) if any(prefix_rows) else None,
            **{
                **{name: getattr(search, own) for own, name in names_in("ctranslate2").items()},
                "suppress_sequences": self._never,
                "max_input_length": 0,
                "max_decoding_length": limit,
                "min_decoding_length": min(search.min_length, limit),
                "disable_unk": not search.allow_unknown,
                **options,
            },
        )

    def _outputs(
        self, result: "ctranslate2.TranslationResult"
    ) -> tuple[list[list[int]], list[float]]:
        """Return the ids and scores of all outputs with finite scores. At least one must exist."""
        pairs = zip(result.hypotheses, result.scores, strict=True)
        finite = [(tokens, score) for tokens, score in pairs if np.isfinite(score)]
        if not finite:
            raise UserInputError(f"The {SCORES_NOT_FINITE}")
        ids = [[self._ids[token] for token in tokens] for tokens, _ in finite]
        return ids, [score for _, score in finite]

    def _batches(
        self, rows: Rows, progress: bool, leave_out_empty: bool = False
    ) -> Iterator[list[int]]:
        """Yield batches of row indices, grouped by similar length."""
        indices = [i for i, row in enumerate(rows) if row or not leave_out_empty]
        lengths = [1 + len(row) for row in rows]
        return batches_by_length(indices, lengths, self._batch_size, progress)

    def _sources(self, rows: Iterable[Sequence[int]]) -> list[list[str]]:
        return [[self._source_tokens[i] for i in row] for row in rows]

    def _targets(self, rows: Iterable[Sequence[int]]) -> list[list[str]]:
        return [[self._target_tokens[i] for i in row] for row in rows]


def open_export(path: Path, reading: Reading) -> CTranslate2Translator:
    """Return an export's translator for `translate --engine`, using the search of the export."""
    search = dataclasses.asdict(reading.search)
    own: Any = {name: value for name, value in search.items() if name not in FIXED_OPTIONS}
    return CTranslate2Translator(
        path,
        **own,
        **reading.given_batch_size,
        long_sentences=reading.long_sentences,
        source_language=reading.source_language,
        target_language=reading.target_language,
    )


def _longer(source_rows: Rows, target_rows: Rows) -> list[Sequence[int]]:
    """Return the longer row of each pair."""
    return [max(pair, key=len) for pair in zip(source_rows, target_rows, strict=True)]


def runtime_class() -> type["ctranslate2.Translator"]:
    """Return the runtime class. Raise a UserInputError if the runtime is not installed."""
    with requiring("ctranslate2", "CTranslate2 is not installed"):
        from ctranslate2 import Translator
    return Translator
