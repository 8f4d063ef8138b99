"""Errors with messages that tell the user all that is needed."""

from collections.abc import Mapping
from typing import Any, NoReturn

# Shared by all searches, local or on a server.
SCORES_NOT_FINITE = (
    "model's scores are not finite numbers: its weights are damaged, or its training has diverged."
)
# Messages of the backends and their libraries when an allocation fails.
_OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out_of_memory",
    "out of memory",
    "oom when allocating",
)


# Names from KerasHub and Hugging Face Transformers, and our names. They are not aliases: an error
# about a name on the left ends with the name on the right. docs/keras/coming_from_keras_hub.md
# lists them too.
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


def no_attribute(module: str, name: str) -> AttributeError:
    """The error for a name that a module lacks. For names from other libraries, it adds ours."""
    ours = f": use `keras_transformer.{OUR_CLASSES[name]}`" if name in OUR_CLASSES else ""
    return AttributeError(f"module {module!r} has no attribute {name!r}{ours}")


def refuse_keywords(function: str, given: Mapping[str, Any], ours: Mapping[str, str]) -> None:
    """Raise a `TypeError` that ends with our name if a keyword comes from another library."""
    for name in given:
        if name in ours:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}: use `{ours[name]}`"
            )


class UserInputError(ValueError):
    """Input that the user can correct. Commands print its one-line message without a traceback."""


def refuse(name: str, rule: str, *value: object, **others: object) -> NoReturn:
    """Raise the error about an argument that breaks its rule.

    Args:
        name: the argument.
        rule: what the argument must be or do, in the words after "must".
        value: its value; omitted if another figure says more.
        others: figures such as the shape, and the arguments that the rule compares the value with.

    Example:
        >>> refuse("beam", "be at least 1", 0)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: `beam` must be at least 1. Received: beam=0
    """
    own = {name: value[0]} if value else {}
    reject(f"`{name}` must {rule}", **own, **others)


def reject(fault: str, **received: object) -> NoReturn:
    """Raise the error about arguments that contradict each other: `fault`, and their values."""
    shown = ", ".join(f"{key}={_shortened(repr(each))}" for key, each in received.items())
    raise UserInputError(f"{fault}. Received: {shown}")


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


class TrainingDiverged(UserInputError):
    """The loss became infinite or NaN. The message names the step and the last good checkpoint."""


class CannotWrite(UserInputError):
    """A file could not be written, e.g. because the disk is full. An older file stays intact."""


class CannotOpenExport(UserInputError):
    """The runtime cannot open an export, for example because the versions differ."""


class WorkerLost(UserInputError):
    """Another machine of the training run was lost. The message says how to resume."""


class AboutLongSentence(Exception):
    """Base class of the error and the warning about a sentence with too many tokens.

    Args:
        name: the argument with the sentence.
        index: index of the sentence in it.
        fault: what is wrong, as a predicate such as `"has more than 100 tokens"`.
    """

    def __init__(self, name: str, index: int, fault: str) -> None:
        super().__init__(f"`{name}[{index}]` {fault}")
        self.name = name
        self.index = index
        self.fault = fault


class SentenceTooLong(AboutLongSentence, UserInputError):
    """A sentence has more tokens than allowed."""


class LongSentenceWarning(AboutLongSentence, UserWarning):
    """A sentence was cut or split because it has more tokens than allowed."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a backend reports that memory ran out.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("No such shape"))
        (True, False)
    """
    said = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(sign in said for sign in _OUT_OF_MEMORY)
