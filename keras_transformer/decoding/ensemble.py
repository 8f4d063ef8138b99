"""Ensembles of Transformers for decoding."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.errors import refuse
from keras_transformer.types import Tensor

MUST_AGREE = ("is_causal", "vocabulary_size", "source_vocabulary_size", "padding_id")


def average_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """Compute the logarithm of the mean probabilities of several models.

    Args:
        logits: unnormalized float tensors (..., vocabulary), one per model.

    Returns:
        float32 tensor (..., vocabulary) of log-probabilities, which are also valid logits.

    Example:
        >>> mean = average_probabilities([ops.log([0.9, 0.1]), ops.log([0.3, 0.7])])
        >>> print(ops.convert_to_numpy(ops.exp(mean)).round(4))
        [0.6 0.4]
    """
    log_probs = [ops.log_softmax(ops.cast(values, "float32"), axis=-1) for values in logits]
    total = log_probs[0]
    for values in log_probs[1:]:
        total = ops.logaddexp(total, values)
    return total - ops.log(ops.cast(len(log_probs), "float32"))


@dataclasses.dataclass(frozen=True)
class TransformerEnsemble:
    """An ensemble that averages its members' probabilities; use it like a single model.

    Args:
        members: list of `Transformer` models, either all with or all without an encoder.

    Raises:
        ValueError: `members` is empty, or members have different vocabularies or padding ids.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> models = [build_transformer("tiny", vocabulary_size=20) for _ in range(2)]
        >>> ensemble = TransformerEnsemble(models)
        >>> source_ids = ops.convert_to_tensor([[5, 6, 2]])
        >>> tuple(ensemble.logits(source_ids, ops.convert_to_tensor([[1, 7]])).shape)
        (1, 2, 20)
    """

    members: Sequence[Any]

    def __post_init__(self) -> None:
        if not self.members:
            refuse("members", "contain at least one model", self.members)
        for name in MUST_AGREE:
            values = [getattr(member, name) for member in self.members]
            if len({value for value in values if value is not None}) > 1:
                raise ValueError(f"`members` must have the same `{name}`. Received: {values}")

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables of all members, without duplicates."""
        found = [variable for member in self.members for variable in member.variables]
        return list({id(variable): variable for variable in found}.values())

    @property
    def is_causal(self) -> bool:
        """Whether the members are decoder-only models."""
        return self.members[0].is_causal

    @property
    def padding_id(self) -> int | None:
        """The padding id of source rows; None if no member defines it."""
        known = (member.padding_id for member in self.members)
        return next((value for value in known if value is not None), None)

    @property
    def source_vocabulary_size(self) -> int:
        """Number of source tokens."""
        return self.members[0].source_vocabulary_size

    @property
    def vocabulary_size(self) -> int:
        """Number of target tokens, which is the size of the logits."""
        return self.members[0].vocabulary_size

    @property
    def max_length(self) -> int | None:
        """Maximum sequence length that all members support; None if unlimited."""
        lengths = [member.max_length for member in self.members if member.max_length is not None]
        return min(lengths, default=None)

    def logits(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Like `Transformer.logits`, but returns log-probabilities."""
        return average_probabilities([m.logits(source_ids, target_ids) for m in self.members])

    def cross_attention(
        self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None
    ) -> Tensor:
        """Average the members' `cross_attention`."""
        scores = [m.cross_attention(source_ids, target_ids, layer) for m in self.members]
        return sum(scores) / len(scores)

    def start(
        self, source_ids: Tensor, *, beam_size: Any, length: Any, independent: bool = False
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Like `Transformer.start`, but returns a tuple of memory states and a tuple of caches."""
        options = {"beam_size": beam_size, "length": length, "independent": independent}
        started = [member.start(source_ids, **options) for member in self.members]
        memory_states, caches = zip(*started, strict=True)
        return memory_states, caches

    def step_weights(
        self, logit_tokens: Tensor | None = None, *, cast_layers: bool = True
    ) -> list[Any]:
        """Return the `step_weights` of each member."""
        options = {"cast_layers": cast_layers}
        return [member.step_weights(logit_tokens, **options) for member in self.members]

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        memory_state: tuple[Any, ...],
        cache: tuple[Any, ...],
        weights: Any = None,
        is_candidate: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """Like `Transformer.step`, but the logits are log-probabilities."""
        logits, caches = [], []
        own = zip(
            self.members, memory_state, cache, weights or [None] * len(self.members), strict=True
        )
        for member, own_state, own_cache, own_weights in own:
            own_logits, own_cache = member.step(
                token_ids, index, own_state, own_cache, own_weights, is_candidate
            )
            logits.append(own_logits)
            caches.append(own_cache)
        return average_probabilities(logits), tuple(caches)
