"""Search for linearised trees, compiled: NumPy arrays of ids in, NumPy arrays out."""

import functools
from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.decoding.tree_constraint import TreeTokens, WellFormedTree
from keras_transformer.errors import UserInputError
from keras_transformer.inference.graph_compilation import CompiledCalls
from keras_transformer.search_options import SearchOptions
from keras_transformer.special_tokens import SpecialTokens


class CompiledTreeGenerator:
    """Searches for trees over given numbers of words, or freely; compiled when first called.

    Several models are an ensemble; later changes of their weights count. `extra_length` is at least
    2, so that a tree fits the limit of a source with one token per word.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        special_tokens: SpecialTokens,
        tree_tokens: TreeTokens,
        options: SearchOptions,
    ) -> None:
        if options.extra_length < 2:
            raise UserInputError(
                "`extra_length` must be an integer >= 2. "
                f"Received: extra_length={options.extra_length}"
            )
        self.generator = SequenceGenerator(models, special_tokens, len(tree_tokens.opening))
        self.max_length = self.generator.model.max_length  # most positions, or None
        self._options = options
        self._constraint = functools.partial(
            WellFormedTree,
            tree_tokens=tree_tokens,
            special_tokens=self.generator.special_tokens,
            vocabulary_size=self.generator.model.vocabulary_size,
        )
        self._call = CompiledCalls(models)

    def search(
        self, source_ids: np.ndarray, num_leaves: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The best outputs of each source.

        Args:
            source_ids: int array (batch, source_length): tokens, EOS, padding.
            num_leaves: number of words of each sentence, each word with one token or more. Every
                output is then a tree over that many words (see `decoding.WellFormedTree`). Rows of
                `source_ids` beyond the list are padding. None: an output may be any tokens.

        Returns:
            ids int32 (batch, num_results, length), scores float32 (batch, num_results). Where fewer
            trees were found, the score is -inf and the row is padding. If `max_length` is less than
            the number of words plus 3, the output is the beginning of a flat tree.
        """
        if num_leaves is None:
            return self._call(self.generator.search, source_ids, options=self._options)
        numbers = np.zeros(len(source_ids), "int32")
        numbers[: len(num_leaves)] = num_leaves
        return self._call(self._search_trees, source_ids, numbers)

    def _search_trees(self, source_ids, num_leaves):
        def is_tree(limits):
            return self._constraint(num_leaves, limits)

        return self.generator.search(source_ids, options=self._options, constraints=(is_tree,))
