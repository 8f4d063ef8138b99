"""Translate strings with trained models and their tokenizers."""

import copy
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, Unpack, get_args

import keras

from keras_transformer.argument_checks import check_one_of, check_positive_int, checked_strings
from keras_transformer.decoding.beam_search import check_alphas
from keras_transformer.decoding.compiled_calls import JitCompile
from keras_transformer.decoding.sampling import check_sampling
from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.formats.preset_files import ImportedModel, preset_folder, save_preset
from keras_transformer.formats.sentence_translator import SentenceTranslator, joined
from keras_transformer.inference.ensemble_loading import Origin, load_ensemble
from keras_transformer.inference.litert_graph import (
    GraphRecipe,
    LiteRTGraph,
    ModelFiles,
    Precision,
    suits_this_machine,
)
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
from keras_transformer.text.glossary import Terms
from keras_transformer.text.sentence_encoding import LongSentences
from keras_transformer.types import PathLike

Engine = Literal["auto", "own"]


class TranslatorKeywords(SearchKeywords, total=False):
    """Keyword arguments for a `Translator`, except the tokenizers."""

    batch_size: int | None
    long_sentences: LongSentences
    source_language: str
    target_language: str | None
    jit_compile: JitCompile
    shortlist: Shortlist | bool | None
    engine: Engine
    precision: Precision


class Translator(SentenceTranslator):
    """Translates, scores and aligns lists of sentences.

    Sentences are sorted by length and processed in batches; results are in the original order. For
    an empty or blank sentence, the translation is empty or the prefix.

    Args:
        model: a model from `build_transformer`, a reloaded model, or a list of models as an
            ensemble whose probabilities are averaged. Calls always use the current weights.
        tokenizer: target tokenizer used to train the models. The models' vocabulary may be padded
            by up to 7 tokens.
        source_tokenizer: source tokenizer; defaults to `tokenizer`.
        batch_size: maximum number of sentences per batch; long sentences use smaller batches.
            Defaults to 128, or 32 with XLA.
        long_sentences: how to handle sentences that are too long. `"refuse"` raises
            `SentenceTooLong`; `"cut"` truncates the sentence; `"split"` splits the text into
            sentences and translates each separately (only in `translate`, without prefixes).
            `"cut"` and `"split"` issue a `LongSentenceWarning`. Overlong prefixes, and overlong
            sentences to score or align, are always rejected.
        source_language: source language code, which selects the sentence boundary rules for
            `"split"`. Languages without specific rules use general rules.
        target_language: target language code, for models with several target languages. "deu"
            prepends the `>>deu<<` tag to every source without a tag. None adds no tag.
        jit_compile: whether to compile with XLA on TensorFlow, once for each of a few shapes.
            `"auto"` uses XLA on a GPU or TPU. JAX always compiles with XLA.
        shortlist: shortlist of the target tokens to consider for each sentence; None considers all
            tokens. Sampling, scoring and alignment always use all tokens.
        engine: `"auto"` translates up to four sentences at a time with a LiteRT graph, which is
            faster; `"own"` always uses Keras. The graph needs a CPU, TensorFlow, the package
            `ai-edge-litert` and a model loaded with `load` or `from_preset`. A separate process
            makes it at the first use and keeps it in the user's cache; until then, and after the
            model's weights have changed, Keras translates. N-best lists, prefixes, terms, samples
            and translators from `with_search` always use Keras.
        precision: number format of the weights in this graph. With `"float32"`, the translations
            differ only if two have the same score. A graph in `"int8"` is smaller and faster and
            translates any number of sentences, but some translations differ. A shipped model
            always uses its own graph, which is int8.
        **options: fields of `SearchOptions`, such as `beam_size`, `alpha`, `extra_length`,
            `min_length` and `no_repeat_ngram`. `max_source_length` also limits prefixes and the
            targets to score or align.

    The arguments are available as attributes, and `models` is always a list. Other attributes are
    `origins` (the `RunDirectory` and weight file of each model loaded from a run) and `max_length`
    (the number of positions in the models, or None if unlimited).

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
    _has_terms = True

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
        engine: Engine = "auto",
        precision: Precision = "float32",
        **options: Unpack[SearchKeywords],
    ) -> None:
        if not hasattr(tokenizer, "special_tokens"):
            raise UserInputError(
                "`tokenizer` must be the tokenizer that the model was trained with; without one, "
                f"`model.generate` takes ids. Received: tokenizer={tokenizer!r}"
            )
        check_one_of("engine", engine, get_args(Engine))
        check_one_of("precision", precision, get_args(Precision))
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
        self.engine = engine
        self.precision: Precision = precision
        self.origins: list[Origin] = []
        self._settings: Mapping[str, object] = {}  # training settings, saved in presets
        models = model if isinstance(model, (list, tuple)) else [model]
        self._models = [Transformer.of(each) for each in models]
        self._is_guided = all(model.alignment_head is not None for model in self._models)
        self._graph: LiteRTGraph | None = None
        self._generator = self._row_generator()
        self.max_length = self._generator.max_length

    @property
    def models(self) -> list[Transformer]:
        """The models, whose weights may change at any time."""
        if self._graph is not None:
            self._graph.watch(self._models)
        return self._models

    def _row_generator(self) -> RowGenerator:
        return RowGenerator(
            self._models,
            self.source_tokenizer,
            self.tokenizer,
            self.search_options,
            self.batch_size,
            self.jit_compile,
            self.shortlist,
        )

    def _loaded_from(self, files: ModelFiles, shortlist: object) -> None:
        """Use a graph of these files, unless the shortlist is not one of them."""
        if self.engine == "auto" and not isinstance(shortlist, Shortlist) and suits_this_machine():
            recipe = GraphRecipe(
                files,
                search=dataclasses.asdict(self.search_options),
                shortlist=self.shortlist is not None,
                precision=self.precision,
            )
            self._generator.graph = self._graph = LiteRTGraph(recipe)

    def has_graph(self, num_sentences: int) -> bool:
        """Return whether a LiteRT graph is ready to find the best translations of sentences.

        The first call starts the process that creates the graph, if necessary (see `engine`).

        Args:
            num_sentences: number of sentences to translate together.
        """
        graph = self._generator.graph
        return graph is not None and graph.is_ready(num_sentences)

    @classmethod
    def load(
        cls,
        run_directory: PathLike | Sequence[PathLike],
        checkpoint: PathLike | Sequence[PathLike] | None = None,
        **options: Unpack[TranslatorKeywords],
    ) -> Self:
        """Load a translator from a training run, or an ensemble from several runs or checkpoints.

        Args:
            run_directory: path of the run or name of a shipped model, or a list of these.
            checkpoint: name or path of the weights; defaults to the run's final weights. A list
                selects several checkpoints of one run, or one checkpoint for each run.
            **options: keyword arguments for `Translator`, except `source_tokenizer`. Search options
                default to the options of the (first) run, if any. `shortlist=True` uses the
                shortlist of the (first) run.

        Raises:
            UserInputError: `run_directory` does not contain a run, files are inconsistent, the
                ensemble members have different vocabularies, or the run has no shortlist.
        """
        models, source_tokenizer, tokenizer, origins = load_ensemble(run_directory, checkpoint)
        keywords: Any = search_over(origins[0][0].search_defaults(), options)
        if keywords.get("shortlist") is True:
            run = origins[0][0]
            keywords["shortlist"] = run.load_shortlist(tokenizer, source_tokenizer)
        translator = cls(models, tokenizer, source_tokenizer=source_tokenizer, **keywords)
        translator.origins = origins
        translator._settings = origins[0][0].settings()
        if len(origins) == 1:
            translator._loaded_from(ModelFiles.of_run(*origins[0]), options.get("shortlist"))
        return translator

    @classmethod
    def from_preset(cls, name: PathLike, **options: Unpack[TranslatorKeywords]) -> Self:
        """Load a translator from a preset: a model with its tokenizers and search options.

        Args:
            name: a folder or ".zip" archive written by `save_to_preset`; a run; a folder with a
                Marian model (see `keras_transformer.interop.import_marian`); the name of a shipped
                model (see `presets`); or "hf://NAME" for a Hugging Face Hub repository that
                contains any of these, such as "hf://Helsinki-NLP/opus-mt-en-de". Files from the
                Hub are downloaded only once.
            **options: keyword arguments for `Translator`, except `source_tokenizer`. Search options
                default to the preset's options.

        Raises:
            UserInputError: the preset does not exist, a file is missing, damaged or rejected, or
                the model uses an unsupported option.

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
                    files = ModelFiles.of_preset(name, folder)
                    translator._loaded_from(files, options.get("shortlist"))
                return translator
            imported = import_marian(folder)
            files = ModelFiles.of_preset(name, folder)
        keywords: Any = search_over(imported.search, options)
        translator = cls(
            imported.model,
            imported.tokenizer,
            source_tokenizer=imported.source_tokenizer,
            **keywords,
        )
        translator._settings = imported.settings
        translator._loaded_from(files, options.get("shortlist"))
        return translator

    def save_to_preset(
        self,
        path: PathLike,
        *,
        weights: Literal["keras", "safetensors"] = "keras",
        precision: Precision = "float32",
    ) -> Path:
        """Save the model, the tokenizers and the search options as a preset for `from_preset`.

        Args:
            path: output folder, which must be empty or not exist yet; or a new file ending in
                ".zip" for an archive of the folder. All commands accept the folder as a run.
            weights: format of the weights: "keras" for `model.weights.h5`, or "safetensors".
            precision: number format of the matrices. `"int8"` makes the file four times smaller
                and is always stored as safetensors. When the preset is loaded, the model computes
                in float32, with weights rounded to 255 values for each token and each column of a
                matrix.

        Returns:
            The path.

        Raises:
            ValueError: `weights` or `precision` is not a known format.
            UserInputError: the translator is an ensemble, or the files cannot be written.
        """
        check_one_of("weights", weights, ("keras", "safetensors"))
        check_one_of("precision", precision, get_args(Precision))
        if len(self._models) > 1:
            raise UserInputError(
                f"A preset contains one model. Received: an ensemble of {len(self._models)} models"
            )
        model = ImportedModel(
            self._models[0],
            self.source_tokenizer,
            self.tokenizer,
            dataclasses.asdict(self.search_options),
            dict(self._settings),
            self.shortlist,
        )
        return save_preset(path, model, weights=weights, precision=precision)

    def into(self, target_language: str | None) -> Self:
        """Return a translator for another target language, sharing models and compiled functions.

        Args:
            target_language: see the constructor.

        Returns:
            This translator if it already uses the language, otherwise a new translator.

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
        """Return a translator with the same models and different search options.

        Args:
            **options: fields of `SearchOptions` to change; other fields stay the same.

        Returns:
            A new translator that differs from this translator only in its search options.

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
        """Return the indices of the sentences in each batch of `translate`, in the same order.

        If you translate consecutive complete batches in a separate call, the batches stay the
        same.

        Args:
            sentences: the sentences to translate; empty sentences do not belong to any batch.

        Raises:
            SentenceTooLong: see `translate`.
        """
        return self._generator.batches(self._rows(sentences, None)[0])

    def translate_with_alphas(
        self, sentences: Iterable[str], alphas: Sequence[float], progress: bool = False
    ) -> list[list[str]]:
        """Translate each sentence with each of several length penalties.

        The results match separate calls to `translate` for each alpha. If the search uses
        `ending="any"`, the total time is about the same as for a single alpha.

        Args:
            sentences: the sentences to translate.
            alphas: one or more exponents of the length penalty.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of translations for each alpha, in the order of `sentences`.

        Raises:
            ValueError: `alphas` is empty or contains an invalid value.
            SentenceTooLong: see `translate`.

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
        glossary: Terms | None = None,
        glossary_tags: bool = False,
    ) -> list[list[tuple[str, float]]]:
        """Sample translations of each sentence token by token from the model's distribution.

        Each sample depends only on the seed, the sentence and the index of the sentence, not on the
        batch or the number of samples.

        Args:
            sentences: the sentences to translate.
            n: number of samples per sentence.
            temperature: divisor of the logits, a number > 0; values below 1 sharpen the
                distribution.
            top_k: sample from the `top_k` most probable tokens; None samples from all tokens.
            top_p: sample from the smallest set of most probable tokens whose total probability is
                at least `top_p`, in (0, 1]; None samples from all tokens.
            seed: integer >= 0.
            first_index: index of the first sentence, to continue an earlier call.
            prefixes: see `translate`.
            progress: whether to show a progress bar on stderr.
            glossary, glossary_tags: see `translate`; samples cannot be constrained, so a glossary
                needs `glossary_tags=True`.

        Returns:
            For each sentence, n pairs `(text, log_prob)` in sampling order. The log-probability is
            computed at temperature 1 over all tokens. For an empty sentence, all pairs are
            `("", 0.0)`, or contain the prefix instead of `""`.
        """
        check_positive_int("n", n)
        check_sampling(temperature, top_k, top_p)
        required, inline = self._checked_terms(glossary, glossary_tags)
        if required is not None:
            raise UserInputError("`glossary` in `sample` needs `glossary_tags=True`.")
        sentences = checked_strings("sentences", sentences)
        kept = [self._stand_ins.replace(sentence, []) for sentence in sentences]
        rows, prefix_rows = self._rows(self._sources(kept, inline), prefixes)
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
