"""Search for linearised trees, compiled: NumPy arrays of ids in, NumPy arrays out."""

import functools

import keras
import numpy as np

from keras_transformer.decoding.tree_constraint import MAX_OPENINGS, WellFormedTree
from keras_transformer.inference.graph_compilation import IDS, compile_function
from keras_transformer.models.sequence_generator import SequenceGenerator

NUMBERS = keras.InputSpec(shape=(None,), dtype="int32")  # (batch,)


class CompiledTreeGenerator:
    """Searches for trees over given numbers of words, or freely; compiled when first called.

    Args:
        models: list of models; several are an ensemble. Changes of their weights are seen.
        special_tokens: the `SpecialTokens` of the target's tokenizer.
        tree_tokens: the `TreeTokens` of its vocabulary.
        extra_length: most output tokens beyond the source's own number; at least 2, so that the
            limit of a source with a token for each word fits a tree.
        max_openings: most constituents that begin at one word.

    Raises:
        ValueError: `extra_length` is less than 2, or the models and the tokens do not fit.
    """

    def __init__(
        self, models, special_tokens, tree_tokens, *, extra_length=300, max_openings=MAX_OPENINGS
    ):
        if not isinstance(extra_length, int) or extra_length < 2:
            raise ValueError(
                f"`extra_length` must be an integer >= 2. Received: extra_length={extra_length}"
            )
        vocabulary_size = len(tree_tokens.opening)
        self._generator = SequenceGenerator(models, special_tokens, vocabulary_size)
        self.max_length = self._generator.layers.max_length  # most positions, or None
        self._variables = [variable for model in models for variable in model.variables]
        self._tree_rules = {
            "tree_tokens": tree_tokens,
            "special_tokens": self._generator.special_tokens,
            "vocabulary_size": self._generator.layers.vocabulary_size,
            "max_openings": max_openings,
        }
        self._extra_length = extra_length
        self._compiled = {}

    def search(self, source_ids, num_leaves=None, *, beam_size, alpha, num_results):
        """The best outputs by beam search, or by greedy search where `beam_size` is 1.

        Args:
            source_ids: int array (batch, source_length): tokens, EOS, padding.
            num_leaves: list of int, number of words of each sentence, of which each has a token or
                more; rows of `source_ids` beyond the list are padding. Each output is a tree over
                so many words: see `decoding.WellFormedTree`. None: an output is any tokens.
            beam_size, alpha, num_results: as in `SequenceGenerator.beam_search`.

        Returns:
            ids int32 (batch, num_results, length), scores float32 (batch, num_results). Where fewer
            trees were found, the score is -inf and the row padding. Where the limit fits no tree,
            because `max_length` is less than the words and 3, the output is the beginning of a
            flat one.
        """
        options = {"beam_size": beam_size, "alpha": alpha, "num_results": num_results}
        options["extra_length"] = self._extra_length
        if num_leaves is None:
            return self._compile(self._generator.search, [IDS], options)(source_ids)
        numbers = np.zeros(len(source_ids), "int32")
        numbers[: len(num_leaves)] = num_leaves
        return self._compile(self._search_trees, [IDS, NUMBERS], options)(source_ids, numbers)

    def _search_trees(self, source_ids, num_leaves, **options):
        def is_tree(limits):
            return WellFormedTree(num_leaves, limits, **self._tree_rules)

        return self._generator.search(source_ids, constraints=(is_tree,), **options)

    def _compile(self, method, inputs, options):
        """One graph for each method and its options."""
        key = (method.__name__, *options.values())
        if key not in self._compiled:
            function = functools.partial(method, **options)
            self._compiled[key] = compile_function(function, inputs, self._variables)
        return self._compiled[key]
