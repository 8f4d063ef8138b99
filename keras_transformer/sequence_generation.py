"""Stepwise generation: joins a Transformer's layers with a search. Ids in, ids out."""

from keras import ops

from keras_transformer.decoding import beam_search, greedy_search
from keras_transformer.losses.cross_entropy import negative_log_likelihood
from keras_transformer.models import TransformerLayers
from keras_transformer.special_tokens import SpecialTokens


class SequenceGenerator:
    """Generates and scores target sequences with one model.

    Its methods are plain functions of tensors, made of `keras.ops`: they run as they are, in a
    `tf.function`, under `jax.jit` and in an exported graph. Where a graph's shapes are fixed, a row
    that is padding alone may fill up a batch; its output is EOS.

    Args:
        model: a model from `build_transformer`, or one that was reloaded.
        special_tokens: the `SpecialTokens` of the tokenizer that the model was trained with; None:
            the default ids.

    Raises:
        ValueError: the model is of another kind, or pads with another id.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> generator = SequenceGenerator(build_transformer("tiny", vocabulary_size=20))
        >>> ids, scores = generator.beam_search([[7, 8, 9, 2], [7, 8, 2, 0]], extra_length=5)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))
    """

    def __init__(self, model, special_tokens=None):
        self.layers = TransformerLayers.of(model)
        self.special_tokens = special_tokens or SpecialTokens()
        if self.layers.padding_id != self.special_tokens.pad:
            raise ValueError(
                "`special_tokens.pad` must be the model's padding id. Received: "
                f"{self.special_tokens}, padding id {self.layers.padding_id}"
            )

    def beam_search(self, source_ids, *, beam_size=4, alpha=0.6, extra_length=50, num_results=None):
        """The best target sequences of each source, by beam search.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding.
            beam_size: number of hypotheses kept.
            alpha: exponent of the length penalty, at least 0.
            extra_length: most output tokens beyond the source's own number, EOS counted in neither.
            num_results: how many of the hypotheses are wanted; None: all.

        Returns:
            `(ids, scores)`, best first: int32 (batch, num_results, length) without BOS, with EOS,
            then padding; float32 (batch, num_results), log-probabilities divided by the length
            penalty. See `decoding.beam_search`.
        """
        search = self._prepare(source_ids, beam_size, extra_length)
        return beam_search(**search, beam_size=beam_size, alpha=alpha, num_results=num_results)

    def greedy(self, source_ids, *, extra_length=50):
        """The target sequence of each source that takes the most probable token at each position.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding.
            extra_length: as in `beam_search`.

        Returns:
            `(ids, log_probs)`: int32 (batch, length) as from `beam_search`; float32 (batch,), with
            no length penalty.
        """
        return greedy_search(**self._prepare(source_ids, 1, extra_length))

    def score(self, source_ids, target_ids, labels):
        """Natural-log probability of given targets, in one pass over all positions.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            labels: integer tensor (batch, target_length): tokens, EOS, padding.

        Returns:
            float32 (batch,): the sum over the labels that are no padding, EOS included.
        """
        labels = ops.cast(labels, "int32")
        logits = self.layers.decode(target_ids, *self.layers.encode(source_ids))
        losses = negative_log_likelihood(labels, logits)
        return -ops.sum(ops.where(labels != self.special_tokens.pad, losses, 0.0), axis=1)

    def _prepare(self, source_ids, beam_size, extra_length):
        """The arguments that both searches share."""
        source_ids = ops.convert_to_tensor(source_ids)
        batch_size, source_length = ops.shape(source_ids)
        max_length = source_length - 1 + extra_length
        memory, memory_mask = self.layers.encode(source_ids)
        memory_state, cache = self.layers.start(
            memory, memory_mask, beam_size=beam_size, length=max_length + 1
        )

        def step(tokens, index, cache):
            return self.layers.step(tokens, index, memory_state, cache)

        return {
            "step": step,
            "state": cache,
            "batch_size": batch_size,
            "limits": self._limits(source_ids, extra_length),
            "special_tokens": self.special_tokens,
            "max_length": max_length,
        }

    def _limits(self, source_ids, extra_length):
        """Most output tokens of each source, EOS counted neither there nor here: (batch,)."""
        is_token = ops.cast(source_ids != self.special_tokens.pad, "int32")
        num_tokens = ops.sum(is_token, axis=1) - 1
        limits = ops.where(num_tokens >= 0, num_tokens + extra_length, 0)
        if self.layers.max_length is not None:
            # BOS takes the first of the learned positions, and EOS follows from the last one.
            limits = ops.minimum(limits, self.layers.max_length - 1)
        return limits
