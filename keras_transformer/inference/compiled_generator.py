"""Generation, scoring and alignment, compiled: NumPy arrays of ids in, NumPy arrays out."""

import functools

import keras
import numpy as np

from keras_transformer.inference.graph_compilation import IDS, compile_function
from keras_transformer.models.sequence_generator import SequenceGenerator


class CompiledGenerator:
    """The methods of a `SequenceGenerator`, each compiled when it is first called.

    Args:
        models: list of models; several are an ensemble. Changes of their weights are seen.
        special_tokens: the `SpecialTokens` of the target's tokenizer.
        vocabulary_size: the number of its tokens, without the padding of the models' vocabulary.
        extra_length, min_length, no_repeat_ngram: what `SequenceGenerator` takes by these names,
            for searches and samples alike.
    """

    def __init__(
        self, models, special_tokens, vocabulary_size, *, extra_length, min_length, no_repeat_ngram
    ):
        self._generator = SequenceGenerator(models, special_tokens, vocabulary_size)
        self.max_length = self._generator.layers.max_length  # most positions, or None
        self._variables = [variable for model in models for variable in model.variables]
        self._limits = {
            "extra_length": extra_length,
            "min_length": min_length,
            "no_repeat_ngram": no_repeat_ngram,
        }
        self._compiled = {}

    def search(self, source_ids, prefix_ids=None, *, beam_size, alpha, num_results):
        """The best outputs by beam search, or by greedy search where `beam_size` is 1.

        Args:
            source_ids: int array (batch, source_length): tokens, EOS, padding.
            prefix_ids: int array (batch, prefix_length) of forced tokens and padding, or None.
            beam_size, alpha, num_results: as in `SequenceGenerator.beam_search`.

        Returns:
            ids int32 (batch, num_results, length), scores float32 (batch, num_results).
        """
        options = {"beam_size": beam_size, "alpha": alpha, "num_results": num_results}
        options |= self._limits
        return self._run("search", source_ids, prefix_ids=prefix_ids, **options)

    def sample(self, source_ids, prefix_ids=None, *, seeds, num_samples, **options):
        """Outputs that are drawn token by token.

        Args:
            source_ids, prefix_ids: as in `search`.
            seeds: list of lists of integers >= 0, one a source, which decide its samples.
            num_samples: how many outputs of each source.
            **options: `temperature`, `top_k` and `top_p` of `SequenceGenerator.sample`.

        Returns:
            ids int32 (batch, num_samples, length), log_probs float32 (batch, num_samples).
        """
        length = source_ids.shape[1] + self._limits["extra_length"]
        if prefix_ids is not None:
            length = max(length, prefix_ids.shape[1] + 1)
        uniforms = np.zeros((len(source_ids), num_samples, length), "float32")
        for row, seed in zip(uniforms, seeds, strict=False):
            for j in range(num_samples):  # a stream of its own: it begins alike at every length
                row[j] = np.random.default_rng([*seed, j]).random(length, dtype="float32")
        options |= self._limits
        return self._run("sample", source_ids, uniforms, prefix_ids=prefix_ids, **options)

    def score(self, source_ids, target_ids, labels):
        """As `SequenceGenerator.score`."""
        return self._run("score", source_ids, target_ids, labels)

    def alignment(self, source_ids, target_ids):
        """As `SequenceGenerator.alignment`."""
        return self._run("alignment", source_ids, target_ids)

    def _run(self, name, *arrays, prefix_ids=None, **options):
        """Call a method of the generator; one graph for each of its options, and with prefixes."""
        has_prefixes = prefix_ids is not None
        arrays = (*arrays, prefix_ids) if has_prefixes else arrays
        inputs = [IDS if array.ndim == 2 else _uniforms(array.shape[1]) for array in arrays]
        key = (name, has_prefixes, *(spec.shape for spec in inputs), *options.values())
        if key not in self._compiled:
            method = functools.partial(getattr(self._generator, name), **options)
            function = _with_prefix_ids_last(method) if has_prefixes else method
            self._compiled[key] = compile_function(function, inputs, self._variables)
        return self._compiled[key](*arrays)


def _uniforms(num_samples):
    return keras.InputSpec(shape=(None, num_samples, None), dtype="float32")


def _with_prefix_ids_last(function):
    """A function of tensors of which the last one is its argument `prefix_ids`."""
    return lambda *tensors: function(*tensors[:-1], prefix_ids=tensors[-1])
