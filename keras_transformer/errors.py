"""Error classes, and functions that raise errors with actionable messages."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

# Shared by local decoding and decoding on a server.
SCORES_NOT_FINITE = (
    "model's scores are not finite numbers: its weights are damaged, or its training has diverged."
)
# Parts of the messages that backends and their libraries report when an allocation fails.
_OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out_of_memory",
    "out of memory",
    "oom when allocating",
)


# Names from KerasHub and Hugging Face Transformers, mapped to our names. They are not aliases: an
# error about a name on the left suggests the name on the right. The names are also listed in
# docs/keras/coming_from_keras_hub.md.
OUR_CLASSES = {
    "CachedMultiHeadAttention": "layers.MultiHeadAttention",
    "PositionEmbedding": "layers.PositionalEmbedding",
    "ReversibleEmbedding": "layers.TokenEmbedding",
    "SinePositionEncoding": "layers.PositionalEmbedding",
    "TokenAndPositionEmbedding": "layers.PositionalEmbedding",
    "TransformerDecoder": "layers.TransformerDecoderLayer",
    "TransformerEncoder": "layers.TransformerEncoderLayer",
    "CausalLM": "build_language_model",
    "Seq2SeqLM": "build_transformer",
    "AutoModelForSeq2SeqLM": "Translator",
    "AutoTokenizer": "SentencePieceTokenizer",
    "pipeline": "Translator",
}
OUR_CALL_KEYWORDS = {  # of encoder and decoder layers
    "attention_mask": "mask",
    "decoder_attention_mask": "mask",
    "decoder_padding_mask": "mask",
    "decoder_sequence": "inputs",
    "encoder_attention_mask": "memory_mask",
    "encoder_padding_mask": "memory_mask",
    "encoder_sequence": "memory",
    "padding_mask": "mask",
}
USER_ERROR = 2  # the exit code after a `UserInputError`
_LIKE = 0.6  # minimum similarity of a suggested name, from 0 to 1
_LONGEST_NAME = 100  # characters, because comparing names takes quadratic time


def no_attribute(module: str, name: str) -> AttributeError:
    """Return the error for a missing attribute, suggesting our name if there is one."""
    ours = f": use `keras_transformer.{OUR_CLASSES[name]}`" if name in OUR_CLASSES else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{ours}")


def refuse_keywords(function: str, given: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Raise a `TypeError` that suggests our name if a keyword comes from another library."""
    for name in given:
        if name in ours:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}: use `{ours[name]}`"
            )


def similar_name(word: str, names: Collection[str]) -> str | None:
    """Return the most similar of `names`, for the question "Did you mean ...?", or None.

    Example:
        >>> similar_name("--beem", ["--seed", "--beam-size"])
        '--beam-size'
    """
    word = word[:_LONGEST_NAME]

    def likeness(name: str) -> float:
        """Return the similarity to the full name or, with a slight penalty, to its beginning."""
        whole, beginning = (
            difflib.SequenceMatcher(None, word, text).ratio() for text in (name, name[: len(word)])
        )
        return max(whole, beginning - 0.01)

    closest = max(names, key=likeness, default="")
    return closest if likeness(closest) >= _LIKE else None


class UserInputError(ValueError):
    """An input error that users can fix. Commands print its message without a traceback."""


def refuse(name: str, rule: str, *value: object, **others: object) -> NoReturn:
    """Raise an error about an argument that violates its rule.

    Args:
        name: name of the argument.
        rule: what the argument must be or do, phrased to follow "must".
        value: value of the argument; omit it if another value is more informative.
        others: other values to report, such as the shape or arguments that the rule refers to.

    Example:
        >>> refuse("beam", "be at least 1", 0)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: `beam` must be at least 1. Received: beam=0
    """
    own = {name: value[0]} if value else {}
    reject(f"`{name}` must {rule}", **own, **others)


def reject(fault: str, **received: object) -> NoReturn:
    """Raise an error about conflicting arguments: `fault`, followed by their values."""
    shown = ", ".join(f"{key}={_shortened(repr(each))}" for key, each in received.items())
    raise UserInputError(f"{fault}. Received: {shown}")


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


class TrainingDiverged(UserInputError):
    """The loss became infinite or NaN. The message names the step and the last good checkpoint."""


class CannotWrite(UserInputError):
    """A file could not be written, e.g. if the disk is full. Any existing file stays intact."""


class CannotOpenExport(UserInputError):
    """The runtime cannot open an export, for example because of a version mismatch."""


class WorkerLost(UserInputError):
    """Another machine in the training run was lost. The message explains how to resume."""


class AboutLongSentence(Exception):
    """Base class for the error and the warning about sentences with too many tokens.

    Args:
        name: name of the argument that contains the sentence.
        index: index of the sentence in that argument.
        fault: description of the problem, such as `"has more than 100 tokens"`.
    """

    def __init__(self, name: str, index: int, fault: str) -> None:
        super().__init__(f"`{name}[{index}]` {fault}")
        self.name = name
        self.index = index
        self.fault = fault


class SentenceTooLong(AboutLongSentence, UserInputError):
    """A sentence has more tokens than allowed."""


class LongSentenceWarning(AboutLongSentence, UserWarning):
    """A sentence was truncated or split because it has more tokens than allowed."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a backend error means that memory ran out.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("No such shape"))
        (True, False)
    """
    said = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(sign in said for sign in _OUT_OF_MEMORY)
