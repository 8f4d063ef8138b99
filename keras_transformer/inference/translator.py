"""Trained models with their tokenizers, from strings to strings."""

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import keras

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.decoding.beam_search import check_alphas
from keras_transformer.decoding.compiled_calls import JitCompile
from keras_transformer.decoding.sampling import check_sampling
from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.formats.preset_files import ImportedModel, preset_folder, save_preset
from keras_transformer.formats.sentence_translator import SentenceTranslator, joined
from keras_transformer.inference.ensemble_loading import Origin, load_ensemble
from keras_transformer.inference.row_generator import RowGenerator, default_batch_size
from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import (
    SearchKeywords,
    SearchOptions,
    changed_search,
    search_over,
    takes_search_options,
)
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.sentence_encoding import LongSentences
from keras_transformer.types import PathLike


class TranslatorKeywords(SearchKeywords, total=False):
    """Keyword arguments of a `Translator` whose tokenizers are known."""

    batch_size: int | None
    long_sentences: LongSentences
    source_language: str
    target_language: str | None
    jit_compile: JitCompile
    shortlist: Shortlist | bool | None


class Translator(SentenceTranslator):
    """Translates, scores and aligns lists of sentences.

    Sentences are sorted by length, run in batches and returned in their original order. The
    translation of an empty or blank sentence is empty, or its prefix.

    Args:
        model: a model from `build_transformer` or a reloaded model; or a list of models, an
            ensemble whose probabilities are averaged. Later changes to the weights take effect.
        tokenizer: target tokenizer that the models were trained with. The models' vocabulary may be
            padded by up to 7 tokens.
        source_tokenizer: tokenizer of the source; defaults to `tokenizer`.
        batch_size: maximum number of sentences in a batch; batches of long sentences are smaller.
            Defaults to 128, or 32 if XLA compiles.
        long_sentences: what to do with a sentence that is too long. `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops its end; `"split"` translates the sentences in it one
            by one (only in `translate`, without prefixes). `"cut"` and `"split"` warn with a
            `LongSentenceWarning`. Long prefixes, and long sentences to score or align, are always
            refused.
        source_language: code of the source language, whose rules `"split"` uses to find the ends of
            sentences. Languages without their own rules use general rules.
        target_language: code of the target language, for models with several target languages:
            "deu" puts the tag `>>deu<<` in front of every source that has no tag. None adds no tag.
        jit_compile: whether XLA compiles the calls on TensorFlow, once for each of a few shapes.
            `"auto"` compiles on a GPU or a TPU. JAX always compiles with XLA.
        shortlist: the target tokens that a search considers for each sentence; None considers all
            of them. Samples, scores and alignments always use all tokens.
        **options: fields of `SearchOptions`: `beam_size`, `alpha`, `extra_length`, `min_length`,
            `no_repeat_ngram` and so on. `max_source_length` also limits prefixes, and targets to
            score or align.

    The arguments are attributes, and `models` is always a list. Other attributes: `origins`, the
    `RunDirectory` and the weight file of each model loaded from a run; `max_length`, the models'
    number of positions, or None if unlimited.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: the models and the tokenizers do not match.

    Example:

    ```python
    translator = Translator.load("runs/en_de")
    translator.translate(["forty-two", ""])  # ["zweiundvierzig", ""]
    ```
    """

    _generator: RowGenerator

    @takes_search_options()
    def __init__(
        self,
        model: keras.Model | Sequence[keras.Model],
        tokenizer: SentencePieceTokenizer,
        *,
        source_tokenizer: SentencePieceTokenizer | None = None,
        batch_size: int | None = None,
        long_sentences: LongSentences = "refuse",
        source_language: str = "en",
        target_language: str | None = None,
        jit_compile: JitCompile = "auto",
        shortlist: Shortlist | None = None,
        **options: Unpack[SearchKeywords],
    ) -> None:
        if not hasattr(tokenizer, "special_tokens"):
            raise UserInputError(
                "`tokenizer` must be the tokenizer that the model was trained with; without one, "
                f"`model.generate` takes ids. Received: tokenizer={tokenizer!r}"
            )
        batch_size = default_batch_size(jit_compile) if batch_size is None else batch_size
        super().__init__(
            source_tokenizer or tokenizer,
            tokenizer,
            SearchOptions(**options),
            batch_size=batch_size,
            long_sentences=long_sentences,
            source_language=source_language,
            target_language=target_language,
        )
        self.jit_compile = jit_compile
        self.shortlist = shortlist or None
        self.origins: list[Origin] = []
        self._settings: Mapping[str, object] = {}  # of the training run, for presets
        models = model if isinstance(model, (list, tuple)) else [model]
        self.models = [Transformer.of(each) for each in models]
        self._generator = self._row_generator()
        self.max_length = self._generator.max_length

    def _row_generator(self) -> RowGenerator:
        return RowGenerator(
            self.models,
            self.source_tokenizer,
            self.tokenizer,
            self.search_options,
            self.batch_size,
            self.jit_compile,
            self.shortlist,
        )

    @classmethod
    def load(
        cls,
        run_directory: PathLike | Sequence[PathLike],
        checkpoint: PathLike | Sequence[PathLike] | None = None,
        **options: Unpack[TranslatorKeywords],
    ) -> Self:
        """The translator for a run or an ensemble.

        Args:
            run_directory: path of the run, or a list of paths.
            checkpoint: name or path of the weights; defaults to the run's final weights. A list
                names several checkpoints of one run, or one for each run.
            **options: keyword arguments of `Translator`, except `source_tokenizer`. Search options
                default to those of the (first) run, if it has any. `shortlist=True` takes the
                shortlist of the (first) run.

        Raises:
            UserInputError: `run_directory` contains no run, its files do not match, the members of
                an ensemble have different vocabularies, or the run has no shortlist.
        """
        models, source_tokenizer, tokenizer, origins = load_ensemble(run_directory, checkpoint)
        keywords: Any = search_over(origins[0][0].search_defaults(), options)
        if keywords.get("shortlist") is True:
            run = origins[0][0]
            keywords["shortlist"] = run.load_shortlist(tokenizer, source_tokenizer)
        translator = cls(models, tokenizer, source_tokenizer=source_tokenizer, **keywords)
        translator.origins = origins
        translator._settings = origins[0][0].settings()
        return translator

    @classmethod
    def from_preset(cls, name: PathLike, **options: Unpack[TranslatorKeywords]) -> Self:
        """The translator for a preset: a model with its tokenizers and search options.

        Args:
            name: a folder or ".zip" archive that `save_to_preset` wrote; a run; a folder with a
                Marian model, as for `keras_transformer.interop.import_marian`; or "hf://NAME", a
                repository on the Hugging Face hub with any of these, such as
                "hf://Helsinki-NLP/opus-mt-en-de". Files from the hub are downloaded once.
            **options: keyword arguments of `Translator`, except `source_tokenizer`. Search options
                default to the preset's options.

        Raises:
            UserInputError: the preset does not exist, a file is missing, damaged or refused, or
                this package does not support an option of the model.

        Example:

        ```python
        translator = Translator.from_preset("hf://Helsinki-NLP/opus-mt-en-de", beam_size=2)
        translator.translate(["A small house."])
        ```
        """
        with preset_folder(name) as folder:
            if RunDirectory(folder).is_run():
                translator = cls.load(folder, **options)
                if folder != Path(name):
                    translator.origins = []  # the folder of an archive is removed afterwards
                return translator
            imported = import_marian(folder)
        keywords: Any = search_over(imported.search, options)
        translator = cls(
            imported.model,
            imported.tokenizer,
            source_tokenizer=imported.source_tokenizer,
            **keywords,
        )
        translator._settings = imported.settings
        return translator

    def save_to_preset(
        self, path: PathLike, *, weights: Literal["keras", "safetensors"] = "keras"
    ) -> Path:
        """Write the model, the tokenizers and the search options as a preset, for `from_preset`.

        Args:
            path: folder to write, which must not exist or must be empty; or a new file that ends in
                ".zip", an archive of the folder. The folder is a run that every verb accepts.
            weights: format of the weights: "keras" for `model.weights.h5`, or "safetensors".

        Returns:
            The path.

        Raises:
            ValueError: `weights` is unknown.
            UserInputError: the translator is an ensemble, or the files cannot be written.
        """
        check_one_of("weights", weights, ("keras", "safetensors"))
        if len(self.models) > 1:
            raise UserInputError(
                f"A preset contains one model. Received: an ensemble of {len(self.models)} models"
            )
        model = ImportedModel(
            self.models[0],
            self.source_tokenizer,
            self.tokenizer,
            dataclasses.asdict(self.search_options),
            dict(self._settings),
            self.shortlist,
        )
        return save_preset(path, model, weights=weights)

    def into(self, target_language: str | None) -> Self:
        """A translator into another language that shares the models and the compiled search.

        Args:
            target_language: as in the constructor.

        Returns:
            This translator if it already has that language, otherwise a new translator.

        Raises:
            UserInputError: the model has no tag for this language.
        """
        if target_language == self.target_language:
            return self
        translator = copy.copy(self)
        translator._set_target_language(target_language)
        return translator

    def _main_scores(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        from keras_transformer.evaluation.scores import main_scores

        return main_scores(scores)

    def with_search(self, **options: Unpack[SearchKeywords]) -> Self:
        """A translator with the same models and different search options.

        Args:
            **options: fields of `SearchOptions`; other fields stay the same.

        Returns:
            A new translator that differs from this translator only in its search.

        Raises:
            ValueError: an option is invalid.

        Example:

        ```python
        greedy = translator.with_search(beam_size=1)
        ```
        """
        translator = copy.copy(self)
        translator.search_options = changed_search(self.search_options, options)
        translator._generator = translator._row_generator()
        return translator

    def batches(self, sentences: Iterable[str]) -> list[list[int]]:
        """The indices of sentences in the batches that `translate` forms, in the same order.

        If consecutive complete batches are translated in a separate call, they are divided in the
        same way.

        Args:
            sentences: the sentences to translate; an empty sentence is in no batch.

        Raises:
            SentenceTooLong: as in `translate`.
        """
        return self._generator.batches(self._rows(sentences, None)[0])

    def translate_with_alphas(
        self, sentences: Iterable[str], alphas: Sequence[float], progress: bool = False
    ) -> list[list[str]]:
        """The translations of each sentence with each of several length penalties.

        The translations are the same as from `translate` with each alpha. If the search has
        `ending="any"`, all of them together take about as long as one.

        Args:
            sentences: the sentences to translate.
            alphas: exponents of the length penalty; at least one.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of translations for each alpha, in the order of `sentences`.

        Raises:
            ValueError: `alphas` is empty or contains an invalid value.
            SentenceTooLong: as in `translate`.

        Example:

        ```python
        short, long = translator.translate_with_alphas(["A small house."], [0.0, 2.0])
        ```
        """
        check_alphas(alphas, length_penalty=self.length_penalty)
        if self.long_sentences == "split":
            parts = self._split(sentences)
        else:
            parts = [[list(row)] for row in self._rows(sentences, None)[0]]
        rows = list(itertools.chain(*parts))
        found = self._generator.search_alphas(rows, alphas, progress)
        results = self._texts(found, [[]] * len(rows), len(alphas))
        return [joined(parts, [texts[i][0] for texts in results]) for i in range(len(alphas))]

    def sample(
        self,
        sentences: Iterable[str],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        first_index: int = 0,
        prefixes: Iterable[str] | None = None,
        progress: bool = False,
    ) -> list[list[tuple[str, float]]]:
        """Translations of each sentence, drawn token by token from the model's distribution.

        A sample depends only on the seed, the sentence and its index. The batch and the number of
        samples do not change it.

        Args:
            sentences: the sentences to translate.
            n: number of samples for each sentence.
            temperature: number > 0 that divides the logits; values below 1 sharpen the
                distribution.
            top_k: draw from this many of the most likely tokens; None draws from all.
            top_p: draw from the most likely tokens that together have this probability, in (0, 1];
                None draws from all.
            seed: integer >= 0.
            first_index: index of the first sentence, if `sentences` continue an earlier call.
            prefixes: as in `translate`.
            progress: whether to show a progress bar on stderr.

        Returns:
            For each sentence, n pairs `(text, log_prob)` in the order drawn. The log-probability is
            the model's own, at temperature 1 over all tokens. For an empty sentence, all pairs are
            `("", 0.0)`, or have the prefix instead of `""`.
        """
        check_positive_int("n", n)
        check_sampling(temperature, top_k, top_p)
        rows, prefix_rows = self._rows(sentences, prefixes)
        found = self._generator.sample(
            rows,
            prefix_rows,
            n,
            seed=seed,
            first_index=first_index,
            progress=progress,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )
        return self._texts(found, prefix_rows, n)
