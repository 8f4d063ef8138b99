"""Several Transformers that decode as one."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_transformer.models import layer_names
from keras_transformer.models.causal_stack import CausalStack
from keras_transformer.models.decoder_stack import StepWeights
from keras_transformer.models.transformer_stacks import TransformerStacks
from keras_transformer.types import Tensor

Member: TypeAlias = keras.Model | TransformerStacks | CausalStack
MUST_AGREE = ("is_causal", "vocabulary_size", "source_vocabulary_size", "padding_id")


def average_probabilities(logits: Sequence[Tensor]) -> Tensor:
    """The logarithm of the mean of several models' probabilities.

    Args:
        logits: float tensors (..., vocabulary), one for each model, unnormalised.

    Returns:
        float32 tensor (..., vocabulary) of log-probabilities, which are logits of the mean too.

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
    """Decodes with the mean of its members' probabilities, in the place of one member.

    Args:
        members: list of `TransformerStacks`, or list of `CausalStack`.

    Raises:
        ValueError: `members` is empty, or they differ in their vocabularies or padding ids.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> models = [build_transformer("tiny", vocabulary_size=20) for _ in range(2)]
        >>> ensemble = TransformerEnsemble([TransformerStacks.of(model) for model in models])
        >>> source_ids = ops.convert_to_tensor([[5, 6, 2]])
        >>> tuple(ensemble.logits(source_ids, ops.convert_to_tensor([[1, 7]])).shape)
        (1, 2, 20)
    """

    members: Sequence[TransformerStacks | CausalStack]

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError("`members` must be at least one model. Received: members=[]")
        for name in MUST_AGREE:
            values = [getattr(member, name) for member in self.members]
            if len({value for value in values if value is not None}) > 1:
                raise ValueError(f"`members` must have the same `{name}`. Received: {values}")

    @property
    def is_causal(self) -> bool:
        """Whether the members are without encoder."""
        return self.members[0].is_causal

    @property
    def padding_id(self) -> int | None:
        """The id that fills up source rows; None if no member knows it."""
        known = (member.padding_id for member in self.members)
        return next((value for value in known if value is not None), None)

    @property
    def source_vocabulary_size(self) -> int:
        """Number of source tokens."""
        return self.members[0].source_vocabulary_size

    @property
    def vocabulary_size(self) -> int:
        """Number of target tokens, the size of the logits."""
        return self.members[0].vocabulary_size

    @property
    def max_length(self) -> int | None:
        """Maximum length of a sequence for every member; None if it is unlimited."""
        lengths = [member.max_length for member in self.members if member.max_length is not None]
        return min(lengths, default=None)

    def logits(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """As the members' `logits`, but log-probabilities."""
        return average_probabilities([m.logits(source_ids, target_ids) for m in self.members])

    def cross_attention(
        self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None
    ) -> Tensor:
        """The mean of the members' `cross_attention`."""
        scores = [m.cross_attention(source_ids, target_ids, layer) for m in self.members]
        return sum(scores) / len(scores)

    def start(
        self, source_ids: Tensor, *, beam_size: Any, length: Any, independent: bool = False
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """As the members' `start`: a tuple of memory states and one of caches."""
        options = {"beam_size": beam_size, "length": length, "independent": independent}
        started = [member.start(source_ids, **options) for member in self.members]
        memory_states, caches = zip(*started, strict=True)
        return memory_states, caches

    def step_weights(self) -> list[StepWeights]:
        """The members' `step_weights`."""
        return [member.step_weights() for member in self.members]

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        memory_state: tuple[Any, ...],
        cache: tuple[Any, ...],
        weights: Any = None,
    ) -> tuple[Tensor, tuple[Any, ...]]:
        """As the members' `step`; the logits are log-probabilities."""
        logits, caches = [], []
        own = zip(
            self.members, memory_state, cache, weights or [None] * len(self.members), strict=True
        )
        for member, own_state, own_cache, own_weights in own:
            own_logits, own_cache = member.step(token_ids, index, own_state, own_cache, own_weights)
            logits.append(own_logits)
            caches.append(own_cache)
        return average_probabilities(logits), tuple(caches)


def layers_of(
    model: Member | Sequence[Member],
) -> TransformerStacks | CausalStack | TransformerEnsemble:
    """The layers of a model, or the ensemble of a list of models."""
    if not isinstance(model, (list, tuple)):
        return stacks_of(model)
    members: Any = [stacks_of(member) for member in model]
    return members[0] if len(members) == 1 else TransformerEnsemble(members)


def variables_of(
    layers: TransformerStacks | CausalStack | TransformerEnsemble,
) -> list[keras.Variable]:
    """The variables of all layers, each once."""
    if isinstance(layers, TransformerEnsemble):
        found = [variables_of(member) for member in layers.members]
    else:
        parts = [getattr(layers, field.name) for field in dataclasses.fields(layers)]
        found = [part.variables for part in keras.tree.flatten(parts) if part is not None]
    return list({id(variable): variable for part in found for variable in part}.values())


def stacks_of(model: Member) -> TransformerStacks | CausalStack:
    """The layers of one model.

    Raises:
        ValueError: the model is of another kind.
    """
    if isinstance(model, (TransformerStacks, CausalStack)):
        return model
    names = {layer.name for layer in model.layers}
    return (TransformerStacks if layer_names.SOURCE_MASK in names else CausalStack).of(model)
