"""Sentences in, constituency trees out: a trained model with its vocabularies."""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.decoding.tree_constraint import TreeTokens
from keras_transformer.errors import SCORES_NOT_FINITE, SentenceTooLong, UserInputError
from keras_transformer.inference.compiled_tree_generator import CompiledTreeGenerator
from keras_transformer.inference.graph_compilation import pad_ids
from keras_transformer.parsing import Tree, repair, source_text
from keras_transformer.parsing.leaf import WHITE_SPACE
from keras_transformer.parsing.tree_tokenizer import TreeTokenizer, tree_tokens
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import PARSING, HasSearchOptions, takes_search_options
from keras_transformer.text.sentence_batches import batches_by_length
from keras_transformer.text.sentence_encoding import encode_sentences

# As in files of trees: a no-break space in a word does not part it.
_WORD = re.compile(rf"[^{WHITE_SPACE}]+")


class Parse(NamedTuple):
    """What a `Parser` found for a sentence.

    Args:
        tree: the `Tree` over exactly the sentence's words, with `XX` for each tag; None for a
            sentence without words.
        score: the log-probability of the tree's tokens divided by the length penalty; -inf where
            the model overflows and no tree was found: `tree` is a flat one then.
        repairs: number of repairs that made a tree of what was found; 0 where the search was
            constrained.
    """

    tree: Tree | None
    score: float
    repairs: int


class Parser(HasSearchOptions):
    """Parses lists of sentences.

    Sentences are sorted by length, run in batches and returned in the order in which they came.

    Args:
        model: a model from `build_transformer` with a vocabulary of its own for each side.
        tokenizer: the `TreeTokenizer` of the target.
        source_tokenizer: the `SentencePieceTokenizer` of the words.
        batch_size: most sentences of a batch.
        constrained: whether the search gives well-formed trees with the right number of words
            alone. Else what it gives is repaired.
        **options: fields of `SearchOptions`, such as `beam_size`, by default 21, `alpha`, 0.3, and
            `extra_length`, 300, the most tokens of a linearised tree beyond the source's number. A
            sentence of more tokens than `max_source_length` is refused.

    The options are attributes, as `model`, `tokenizer`, `source_tokenizer` and `batch_size` are.

    Raises:
        ValueError: an argument breaks its rule, or the target has no tokens of trees.

    Example:

    ```python
    parser = Parser.load("runs/wsj_parsing/latest")
    print(parser.parse(["The dog barks ."])[0])
    # (S (NP (XX The) (XX dog)) (VP (XX barks)) (XX .))
    ```

    Reference:
        Vaswani et al. (2017), section 6.3; Vinyals et al., "Grammar as a Foreign Language", 2015.
    """

    @takes_search_options(PARSING)
    def __init__(
        self, model, tokenizer, source_tokenizer, *, batch_size=16, constrained=True, **options
    ):
        self.search_options = dataclasses.replace(PARSING, num_results=1, **options)
        check_positive_int("batch_size", batch_size)
        self.tokenizer = tokenizer
        self.source_tokenizer = source_tokenizer
        self.batch_size = batch_size
        self.model = model
        self._generator = CompiledTreeGenerator(
            [model],
            tokenizer.special_tokens,
            TreeTokens.of(tokenizer.tokens),
            self.search_options,
        )
        self._constrained = constrained

    @classmethod
    def load(cls, run_directory, checkpoint=None, **options):
        """The parser of a run.

        Args:
            run_directory: path of the run.
            checkpoint: name or path of the weights; None: those with which the run ended.
            **options: the keyword arguments of `Parser`.

        Raises:
            UserInputError: no run is there, its files do not fit each other, or its outputs are
                no trees.
        """
        run = RunDirectory.open(run_directory)
        source_tokenizer, tokenizer = run.load_tokenizers(TreeTokenizer)
        return cls(run.load_model(checkpoint), tokenizer, source_tokenizer, **options)

    def parse(self, sentences, progress=False):
        """The tree of each sentence.

        Args:
            sentences: iterable of strings, whose words have spaces between them, or of lists of
                words. A word's brackets are read as the Penn Treebank's `-LRB-` and so on, half of
                a surrogate pair as U+FFFD.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of `Tree`, in the order of `sentences`; None for one without words.
        """
        return [found.tree for found in self.parse_with_scores(sentences, progress)]

    def parse_with_scores(self, sentences, progress=False):
        """The `Parse` of each sentence: tree, score and number of repairs.

        Args:
            sentences, progress: as in `parse`.

        Returns:
            A list of `Parse`, in the order of `sentences`.

        Raises:
            ValueError: `sentences` is one string, or an entry is no sentence.
            SentenceTooLong: a sentence has more tokens than `max_source_length` or than the model
                has learned positions, or a tree over its words has. It is a `UserInputError`.
            UserInputError: the model has no finite score for a sentence, nor finite weights.
        """
        if isinstance(sentences, (str, bytes)):
            raise ValueError(
                f"`sentences` must be a list of sentences. Received: sentences={sentences!r}"
            )
        words = [_words(sentence) for sentence in sentences]
        rows = self._encode(words)
        parses = [Parse(None, 0.0, 0)] * len(words)
        lengths = [len(row) + 1 for row in rows]
        not_empty = [i for i, words_of_one in enumerate(words) if words_of_one]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            eos, pad = self.source_tokenizer.special_tokens.eos, self.tokenizer.special_tokens.pad
            ended = [[*rows[i], eos] for i in indices]
            source_ids = pad_ids(ended, pad, self._generator.max_length)
            num_words = [len(words[i]) for i in indices] if self._constrained else None
            ids, scores = self._generator.search(source_ids, num_words)
            texts = self.tokenizer.decode(ids[: len(indices), 0])
            for i, text, score in zip(indices, texts, scores[:, 0], strict=False):
                parses[i] = _parse(text, words[i], float(score))
        if not all(math.isfinite(found.score) for found in parses):
            self._check_weights()
        return parses

    def _check_weights(self):
        if not all(np.isfinite(weight).all() for weight in self.model.get_weights()):
            raise UserInputError(f"The {SCORES_NOT_FINITE}")

    def _encode(self, words):
        """The ids of sentences, lists of words."""
        positions = self._generator.max_length
        limit = self.search_options.source_limit(positions)
        texts = map(source_text, words)
        rows = encode_sentences("sentences", texts, self.source_tokenizer, limit)
        if positions is None or not self._constrained:
            return rows
        most = positions - 1 - 2  # BOS and the two brackets of a flat tree have theirs
        for i, words_of_one in enumerate(words):
            if len(words_of_one) > most:
                raise SentenceTooLong(
                    "sentences",
                    i,
                    f"has {len(words_of_one)} words, and may have at most {most}: its tree must "
                    f"fit into the model's {positions} positions.",
                )
        return rows


def _parse(text, words, score):
    """The `Parse` of what a search found: a linearised tree or anything else, and its score."""
    if not math.isfinite(score):
        flat, _ = repair([], words)
        return Parse(flat, -math.inf, 0)
    tree, repairs = repair(tree_tokens(text), words)
    return Parse(tree, score, repairs)


def _words(sentence):
    """The words of a sentence, a string or a list of words."""
    if isinstance(sentence, str):
        return _WORD.findall(sentence)
    words = list(sentence) if isinstance(sentence, Iterable) else [sentence]
    if not all(isinstance(word, str) and _WORD.fullmatch(word) for word in words):
        raise ValueError(
            f"`sentences` must be strings, or lists of words without spaces. Received: {sentence!r}"
        )
    return words
