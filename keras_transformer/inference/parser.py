"""Parse sentences into constituency trees with a trained model and its tokenizers."""

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self, Unpack

import keras
import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.decoding.constraints import TreeTokens, WellFormedTree
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import SCORES_NOT_FINITE, SentenceTooLong, UserInputError, refuse
from keras_transformer.inference.row_generator import GraphCalls, pad_ids
from keras_transformer.models import Transformer
from keras_transformer.parsing import Tree, linearize, repair, source_text
from keras_transformer.parsing.linearization import TreeTokenizer, tree_tokens
from keras_transformer.parsing.tree import WHITE_SPACE
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import (
    PARSING,
    HasSearchOptions,
    SearchKeywords,
    takes_search_options,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import batches_by_length, encode_sentences
from keras_transformer.types import PathLike

# Like in tree files, a no-break space does not end a word.
_WORD = re.compile(rf"[^{WHITE_SPACE}]+")


class Parse(NamedTuple):
    """The result of a `Parser` for one sentence.

    Args:
        tree: tree over exactly the words of the sentence, with `XX` as the tag of each word; None
            for a sentence without words.
        score: log-probability of the tree tokens divided by the length penalty. If the model
            overflows and finds no tree, the score is -inf and `tree` is flat.
        repairs: number of repairs needed to turn the model's output into a tree; 0 if the search
            was constrained.
    """

    tree: Tree | None
    score: float
    repairs: int


class ParserKeywords(SearchKeywords, total=False):
    """Keyword arguments for `Parser`."""

    batch_size: int
    constrained: bool


class Parser(HasSearchOptions):
    """Parses lists of sentences.

    Sentences are sorted by length and parsed in batches; results are in the original order.

    Args:
        model: a model from `build_transformer` with separate source and target vocabularies.
        tokenizer: target tokenizer, for linearized trees.
        source_tokenizer: source tokenizer, for words.
        batch_size: maximum number of sentences per batch.
        constrained: whether to restrict the search to well-formed trees with the correct number of
            words. Otherwise, outputs are repaired.
        **options: fields of `SearchOptions`, such as `beam_size` (default 21), `alpha` (0.3) and
            `extra_length` (300), the maximum number of tokens by which a linearized tree may exceed
            the source. Sentences with more tokens than `max_source_length` are rejected.

    The options, `model`, `tokenizer`, `source_tokenizer` and `batch_size` are also attributes.

    Raises:
        ValueError: an argument is invalid, or the target vocabulary contains no tree tokens.

    Example:

    ```python
    parser = Parser.load("runs/wsj")
    print(parser.parse(["The dog barks ."])[0])
    # (S (NP (XX The) (XX dog)) (VP (XX barks)) (XX .))
    ```

    Reference:
        Vaswani et al. (2017), section 6.3; Vinyals et al., "Grammar as a Foreign Language", 2015.
    """

    @takes_search_options(PARSING)
    def __init__(
        self,
        model: keras.Model,
        tokenizer: TreeTokenizer,
        source_tokenizer: SentencePieceTokenizer,
        *,
        batch_size: int = 16,
        constrained: bool = True,
        **options: Unpack[SearchKeywords],
    ) -> None:
        self.search_options = dataclasses.replace(PARSING, **options)
        check_positive_int("batch_size", batch_size)
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer
        self.batch_size = batch_size
        self.model = Transformer.of(model)
        self._tree_tokens = TreeTokens.of(tokenizer.tokens)
        if self.extra_length < 2:  # with one token per word, a flat tree must fit
            refuse("extra_length", "be an integer >= 2", self.extra_length)
        self._call = GraphCalls([self.model])
        self._generator = SequenceGenerator(
            self.model,
            tokenizer.special_tokens,
            tokenizer.vocabulary_size,
            jit_compile=self._call.with_xla,
        )
        self._constrained = constrained

    @classmethod
    def load(
        cls,
        run_directory: PathLike,
        checkpoint: PathLike | None = None,
        **options: Unpack[ParserKeywords],
    ) -> Self:
        """Load a parser from a training run.

        Args:
            run_directory: path of the run.
            checkpoint: name or path of the weights; defaults to the run's final weights.
            **options: keyword arguments for `Parser`.

        Raises:
            UserInputError: `run_directory` does not contain a run, the run's files are
                inconsistent, or the model was not trained to produce trees.
        """
        run = RunDirectory.open(run_directory)
        source_tokenizer, tokenizer = run.load_tokenizers(TreeTokenizer)
        return cls(run.load_model(checkpoint), tokenizer, source_tokenizer, **options)

    def parse(
        self, sentences: Iterable[str | Iterable[str]], progress: bool = False
    ) -> list[Tree | None]:
        """Parse sentences into trees.

        Args:
            sentences: strings of words separated by spaces, or lists of words. Brackets in words
                are converted to `-LRB-` and so on, as in the Penn Treebank; unpaired surrogates are
                replaced with U+FFFD.
            progress: whether to show a progress bar on stderr.

        Returns:
            The trees in the order of `sentences`; None for a sentence without words.
        """
        return [found.tree for found in self.parse_with_scores(sentences, progress)]

    def parse_with_scores(
        self, sentences: Iterable[str | Iterable[str]], progress: bool = False
    ) -> list[Parse]:
        """Parse sentences into trees, with the score and the number of repairs of each tree.

        Args:
            sentences, progress: see `parse`.

        Returns:
            The results in the order of `sentences`.

        Raises:
            ValueError: `sentences` is a single string, or an item is neither a string nor a list of
                words.
            SentenceTooLong: a sentence has more tokens than `max_source_length`, or a sentence or a
                tree over its words exceeds the learned positions. A subclass of `UserInputError`.
            UserInputError: a score is not finite because the model's weights are not finite.
        """
        if isinstance(sentences, (str, bytes)):
            refuse("sentences", "be a list of sentences", sentences)
        words = [_words(sentence) for sentence in sentences]
        rows = self._encode(words)
        parses = [Parse(None, 0.0, 0)] * len(words)
        lengths = [len(row) + 1 for row in rows]
        not_empty = [i for i, words_of_one in enumerate(words) if words_of_one]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            eos, pad = self.source_tokenizer.special_tokens.eos, self.tokenizer.special_tokens.pad
            ended = [[*rows[i], eos] for i in indices]
            source_ids = pad_ids(ended, pad, self._generator.model.max_length)
            ids, scores = self._search(source_ids, [len(words[i]) for i in indices])
            texts = self.tokenizer.decode(ids[: len(indices), 0])
            for i, text, score in zip(indices, texts, scores[:, 0], strict=False):
                parses[i] = _parse(text, words[i], float(score))
        if all(math.isfinite(found.score) for found in parses):
            return parses
        if not all(np.isfinite(weight).all() for weight in self.model.get_weights()):
            raise UserInputError(f"The {SCORES_NOT_FINITE}")
        return parses

    def encode_pairs(
        self, sentences: Iterable[str | Iterable[str]], trees: Iterable[Tree | None]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Encode sentences and their trees as ids for the model, without BOS or EOS.

        Args:
            sentences: see `parse`.
            trees: one tree per sentence; None results in an empty row.

        Returns:
            Two lists of id rows, for sentences and trees.

        Raises:
            SentenceTooLong: a sentence or a tree has more tokens than the model accepts.
        """
        rows = self._encode([_words(sentence) for sentence in sentences])
        texts = [" ".join(linearize(tree)) if tree is not None else "" for tree in trees]
        tree_rows = self.tokenizer.encode(texts)
        positions = self._generator.model.max_length
        for i, row in enumerate(tree_rows):
            if positions is not None and len(row) >= positions:
                fault = f"must fit into the model's {positions} positions, BOS counted"
                raise SentenceTooLong("trees", i, fault)
        return rows, tree_rows

    def check_lengths(self, sentences: Iterable[str | Iterable[str]]) -> None:
        """Raise `SentenceTooLong` if a sentence is too long.

        Args:
            sentences: see `parse`.
        """
        self._encode([_words(sentence) for sentence in sentences])

    def _search(
        self, source_ids: np.ndarray, num_words: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return ids (batch, num_results, length) and scores; extra rows contain only padding."""
        if not self._constrained:
            return self._call(self._generator.search, source_ids, options=self.search_options)
        num_leaves = np.zeros(len(source_ids), "int32")
        num_leaves[: len(num_words)] = num_words
        return self._call(self._search_trees, source_ids, num_leaves)

    def _search_trees(self, source_ids, num_leaves):
        generator = self._generator

        def is_tree(limits):
            tokens, vocabulary_size = generator.special_tokens, generator.model.vocabulary_size
            return WellFormedTree(num_leaves, limits, self._tree_tokens, tokens, vocabulary_size)

        return generator.search(source_ids, options=self.search_options, constraints=(is_tree,))

    def _encode(self, words: Sequence[list[str]]) -> list[list[int]]:
        """Encode sentences, given as lists of words, as ids."""
        positions = self._generator.model.max_length
        limit = self.search_options.source_limit(positions)
        texts = map(source_text, words)
        rows = encode_sentences("sentences", texts, self.source_tokenizer, limit)
        if positions is None or not self._constrained:
            return rows
        most = positions - 1 - 2  # one for BOS, two for the brackets of a flat tree
        for i, words_of_one in enumerate(words):
            if len(words_of_one) > most:
                raise SentenceTooLong(
                    "sentences",
                    i,
                    f"has {len(words_of_one)} words, but may have at most {most}: its tree must "
                    f"fit into the model's {positions} positions.",
                )
        return rows


def _parse(text: str, words: list[str], score: float) -> Parse:
    """Convert a decoded output, which may not be a valid linearized tree, to a `Parse`."""
    if not math.isfinite(score):
        flat, _ = repair([], words)
        return Parse(flat, -math.inf, 0)
    tree, repairs = repair(tree_tokens(text), words)
    return Parse(tree, score, repairs)


def _words(sentence: object) -> list[str]:
    """Return the words of a sentence, given as a string or a list of words."""
    if isinstance(sentence, str):
        return _WORD.findall(sentence)
    words: list[Any] = list(sentence) if isinstance(sentence, Iterable) else [sentence]
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in words):
        refuse("sentences", "be strings, or lists of words without spaces", sentence)
    return words
