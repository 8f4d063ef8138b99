"""Several Transformers that decode as one."""

import dataclasses

from keras import ops

from keras_transformer.models.transformer_stacks import TransformerStacks

MUST_AGREE = ("vocabulary_size", "source_vocabulary_size", "padding_id")


def average_probabilities(logits):
    """The logarithm of the mean of several models' probabilities.

    Args:
        logits: list of float tensors (..., vocabulary), one for each model, unnormalised.

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
    """Decodes with the mean of its members' probabilities; it stands for a `TransformerStacks`.

    What `encode` and `start` return is a tuple with one entry a member.

    Args:
        members: list of `TransformerStacks`.

    Raises:
        ValueError: there are no members, or they differ in their vocabularies or padding ids.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> models = [build_transformer("tiny", vocabulary_size=20) for _ in range(2)]
        >>> ensemble = TransformerEnsemble([TransformerStacks.of(model) for model in models])
        >>> memories, masks = ensemble.encode(ops.convert_to_tensor([[5, 6, 2]]))
        >>> tuple(ensemble.decode(ops.convert_to_tensor([[1, 7]]), memories, masks).shape)
        (1, 2, 20)
    """

    members: list[TransformerStacks]

    def __post_init__(self):
        if not self.members:
            raise ValueError("`members` must be at least one model. Received: members=[]")
        for name in MUST_AGREE:
            values = [getattr(member, name) for member in self.members]
            if len(set(values)) > 1:
                raise ValueError(f"`members` must have the same `{name}`. Received: {values}")

    @property
    def padding_id(self):
        """The id that fills up source rows."""
        return self.members[0].padding_id

    @property
    def source_vocabulary_size(self):
        """Number of source tokens."""
        return self.members[0].source_vocabulary_size

    @property
    def vocabulary_size(self):
        """Number of target tokens, the size of the logits."""
        return self.members[0].vocabulary_size

    @property
    def max_length(self):
        """Most positions of a sequence that every member has, or None where there is no limit."""
        lengths = [member.max_length for member in self.members if member.max_length is not None]
        return min(lengths, default=None)

    def encode(self, source_ids):
        """Every member's `TransformerStacks.encode`: a tuple of memories and one of masks."""
        encoded = [member.encode(source_ids) for member in self.members]
        return tuple(zip(*encoded, strict=True))

    def decode(self, target_ids, memory, memory_mask):
        """As `TransformerStacks.decode`; the logits are log-probabilities."""
        members = zip(self.members, memory, memory_mask, strict=True)
        return average_probabilities([m.decode(target_ids, *encoded) for m, *encoded in members])

    def cross_attention(self, target_ids, memory, memory_mask, layer=None):
        """The mean of the members' `TransformerStacks.cross_attention`."""
        members = zip(self.members, memory, memory_mask, strict=True)
        scores = [m.cross_attention(target_ids, *encoded, layer) for m, *encoded in members]
        return sum(scores) / len(scores)

    def start(self, memory, memory_mask, *, beam_size, length):
        """As `TransformerStacks.start`: a tuple of memory states and one of caches."""
        members = zip(self.members, memory, memory_mask, strict=True)
        started = [m.start(*encoded, beam_size=beam_size, length=length) for m, *encoded in members]
        return tuple(zip(*started, strict=True))

    def step(self, token_ids, index, memory_state, cache):
        """As `TransformerStacks.step`; the logits are log-probabilities."""
        members = zip(self.members, memory_state, cache, strict=True)
        stepped = [m.step(token_ids, index, *state) for m, *state in members]
        logits, caches = zip(*stepped, strict=True)
        return average_probabilities(logits), caches
