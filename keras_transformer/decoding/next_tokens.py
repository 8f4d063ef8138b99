"""From logits to candidates for the next token: the start of every step of a search."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.constraints import Constraint, allowed_by
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor

NEVER = -float("inf")  # log-probability of what must not be chosen
FEW = 2048  # values among which a plain top-k is as fast


class OutputRules(NamedTuple):
    """The tokens that any search may produce.

    Args:
        limits: int32 (batch,), maximum number of output tokens of each sentence, EOS excluded. An
            output that reaches its limit ends with EOS, whatever the constraints say.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        vocabulary_size: number of tokens; ids from there on are never produced. None: the number of
            logits.
        constraints: see `decoding.constraints`; the strongest first.
    """

    limits: Tensor
    special_tokens: SpecialTokens
    vocabulary_size: int | None = None
    constraints: Sequence[Constraint] = ()

    def know_their_sentences(self) -> bool:
        """Whether `of_sentences` is possible: a constraint of the user's own may lack it."""
        return all(hasattr(constraint, "of_sentences") for constraint in self.constraints)

    def of_sentences(self, rows: Tensor | None) -> "OutputRules":
        """The rules of some sentences, int32 (n,), of the batch; None: of all."""
        if rows is None:
            return self
        constraints: Any = self.constraints
        return self._replace(
            limits=ops.take(self.limits, rows, axis=0),
            constraints=[constraint.of_sentences(rows) for constraint in constraints],
        )

    def must_end(self, index: Tensor) -> Tensor:
        """Whether position `index` is for EOS: bool (batch, 1, 1)."""
        return ops.reshape(index >= self.limits, (-1, 1, 1))

    def is_output(self, tokens: Tensor) -> Tensor:
        """Whether tokens are ever produced; of the shape of `tokens`."""
        is_output = ops.logical_and(
            tokens != self.special_tokens.pad, tokens != self.special_tokens.bos
        )
        if self.vocabulary_size is not None:
            is_output = ops.logical_and(is_output, tokens < self.vocabulary_size)
        return is_output

    def may_follow(self, ids: Tensor, index: Tensor, num_logits: int) -> Tensor:
        """Whether a token may be at position `index`, by the constraints and the limits.

        Args:
            ids: int32 (batch, beams, length), filled before `index`.
            index: int32 scalar.
            num_logits: number of logits.

        Returns:
            Bool tensor that broadcasts to (batch, beams, num_logits), with a True in each row.
        """
        tokens = ops.arange(num_logits, dtype="int32")  # (vocabulary,)
        is_allowed = ops.reshape(self.is_output(tokens), (1, 1, -1))  # (1, 1, vocabulary)
        is_allowed = allowed_by(self.constraints, ids, index, is_allowed)
        return ops.where(self.must_end(index), tokens == self.special_tokens.eos, is_allowed)


def next_token_candidates(
    logits: Tensor, count: int, ids: Tensor, index: Tensor, rules: OutputRules
) -> tuple[Tensor, Tensor]:
    """The most probable next tokens, best first, with their log-probabilities.

    Padding, BOS, the padding of the vocabulary and what a constraint forbids are never candidates.
    They keep their share of the probability, so that each score is the model's own. They are
    dropped after the top-k, which reads the logits once without a copy; only constraints need a
    mask of the logits.

    Args:
        logits: float tensor (batch, beams, vocabulary), unnormalised.
        count: number of candidates.
        ids: int32 (batch, beams, length), the hypotheses, filled before `index`.
        index: int32 scalar, the position of the next token.
        rules: the `OutputRules`.

    Returns:
        `(log_probs, tokens)`, float32 and int32 (batch, beams, n): n is `count` plus the number of
        tokens that are never produced, but at most the number of logits. Entries with
        log-probability -inf stand for none; the others have the `count` best candidates, or all if
        they are fewer. Of equally probable tokens the lower id comes first.
    """
    logits = ops.cast(logits, "float32")
    num_logits = logits.shape[-1]
    vocabulary_size = num_logits if rules.vocabulary_size is None else rules.vocabulary_size
    n = min(count + 2 + num_logits - vocabulary_size, num_logits)
    possible = logits
    if rules.constraints:
        possible = ops.where(rules.may_follow(ids, index, num_logits), logits, NEVER)
    best, tokens = top_k_of_many(possible, n)  # (batch, beams, n)
    if rules.constraints:
        total = log_of_sum(logits)
    else:  # the first candidate is the largest logit
        total = log_of_sum(logits, (best[..., :1], tokens[..., :1]))
    best = ops.where(rules.is_output(tokens), best, NEVER)

    eos, must_end = rules.special_tokens.eos, rules.must_end(index)
    only_eos = ops.where(ops.arange(n) == 0, logits[..., eos : eos + 1], NEVER)
    best = ops.where(must_end, only_eos, best)
    tokens = ops.where(must_end, eos, tokens)
    return best - total, tokens


def top_k_of_many(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`keras.ops.top_k` of float values (..., size), several times faster for thousands of values.

    The k best are in the k blocks with the largest maxima. Where the backend's top-k takes equal
    values by their index, this does: the chosen blocks stand in the order of their indices.
    """
    size = values.shape[-1]
    block = _block_size(size)
    if block is None or size // block <= k:
        best, places = ops.top_k(values, k)
        return best, ops.cast(places, "int32")
    leading = ops.shape(values)[:-1]
    blocks = ops.reshape(values, (-1, block))  # (rows * number, block)
    number = size // block
    maxima = ops.reshape(ops.max(blocks, axis=-1), (-1, number))  # (rows, number)
    chosen = ops.sort(ops.cast(ops.top_k(maxima, k)[1], "int32"), axis=-1)  # (rows, k)
    rows = ops.expand_dims(ops.arange(ops.shape(chosen)[0], dtype="int32") * number, 1)
    candidates = ops.take(blocks, ops.reshape(rows + chosen, (-1,)), axis=0)  # (rows * k, block)
    best, places = ops.top_k(ops.reshape(candidates, (-1, k * block)), k)  # (rows, k)
    places = ops.cast(places, "int32")
    place_of_block = ops.take_along_axis(chosen, places // block, axis=-1)
    indices = place_of_block * block + places % block
    return ops.reshape(best, (*leading, k)), ops.reshape(indices, (*leading, k))


def _block_size(size: int) -> int | None:
    """The divisor of `size` nearest to its square root, up to a factor of 4; None if none is."""
    root = math.sqrt(size)
    divisors = [block for block in range(2, size) if size % block == 0] if size >= FEW else []
    near = [block for block in divisors if root / 4 <= block <= 4 * root]
    return min(near, key=lambda block: abs(math.log(block / root)), default=None)


def log_of_sum(logits: Tensor, largest: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """Logarithm of the sum of the exponentials of float32 logits (..., size): (..., 1).

    From the largest logit and its probability, as softmax is one fused pass on every backend.

    Args:
        logits: the logits.
        largest: the largest logit of each row and its index, both (..., 1), if they are known.
    """
    probs = ops.softmax(logits, axis=-1)
    if largest is None:
        return ops.max(logits, axis=-1, keepdims=True) - ops.log(
            ops.max(probs, axis=-1, keepdims=True)
        )
    logit, index = largest
    return logit - ops.log(ops.take_along_axis(probs, index, axis=-1))
