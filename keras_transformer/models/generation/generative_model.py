"""The functional models of this package: they generate by themselves."""

from typing import Unpack

import keras

from keras_transformer.models.sequence_generator import SequenceGenerator
from keras_transformer.search_options import SearchKeywords, SearchOptions, takes_search_options
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable("keras_transformer")
class GenerativeModel(keras.Model):
    """A functional `keras.Model` that generates: what the `build_` functions return.

    It is saved, loaded and cloned as every functional model. A model that was made of the same
    layers by hand generates by `SequenceGenerator`.

    Args:
        inputs, outputs, name: as of a functional `keras.Model`.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=20)
        >>> ids, scores = model.generate([[7, 8, 9, 2], [7, 8, 2, 0]], extra_length=5)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))
    """

    _generator: SequenceGenerator | None = None

    @property
    def dtype_policy(self) -> keras.DTypePolicy:
        """That of the layers: by it `compile` decides whether the loss is scaled."""
        return next(layer.dtype_policy for layer in self.layers if layer.weights)

    @takes_search_options()
    def generate(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        special_tokens: SpecialTokens | None = None,
        vocabulary_size: int | None = None,
        **options: Unpack[SearchKeywords],
    ) -> tuple[Tensor, Tensor]:
        """The best outputs of each source, or of each prompt of a language model.

        The search compiles itself at its first call, as of `SequenceGenerator`, which has samples
        and constraints too. The model keeps it as long as the special tokens stay the same.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. For a language
                model the prompts: (batch, prompt_length), tokens and padding.
            prefix_ids: integer tensor (batch, prefix_length), what the outputs begin with, and
                padding; None: they begin freely. A language model takes none.
            special_tokens: the `SpecialTokens` of the tokenizer that the model was trained with;
                None: the default ids.
            vocabulary_size: number of target tokens, if the model's vocabulary is padded.
            **options: fields of `SearchOptions`: `beam_size`, `alpha`, `extra_length` and so on.
                `max_source_length` plays no part.

        Returns:
            `(ids, scores)`, best first: int32 (batch, num_results, length) with EOS and padding;
            float32 (batch, num_results). See `SequenceGenerator.search`.

        Raises:
            ValueError: the model was not made by this package, or as of `SequenceGenerator`.

        Example:
            >>> from keras_transformer.models import build_language_model
            >>> model = build_language_model("tiny", vocabulary_size=20)
            >>> ids, _ = model.generate([[7, 8, 9]], beam_size=1, extra_length=5)
            >>> [int(token) for token in ids[0, 0, :3]]
            [7, 8, 9]
        """
        tokens = special_tokens or SpecialTokens()
        kept = self._generator
        if kept is None or (kept.special_tokens, kept.vocabulary_size) != (tokens, vocabulary_size):
            kept = self._generator = SequenceGenerator(self, tokens, vocabulary_size)
        return kept.search(source_ids, prefix_ids, options=SearchOptions(**options))
