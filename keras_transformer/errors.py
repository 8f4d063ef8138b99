"""Errors whose message tells the user all there is to know."""

# Shared by every search, here or on a server.
SCORES_NOT_FINITE = (
    "model's scores are not finite numbers: its weights are damaged, or its training has diverged."
)
# Words of the backends and their libraries when an allocation fails.
_OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out_of_memory",
    "out of memory",
    "oom when allocating",
)


class UserInputError(ValueError):
    """Input that the user can correct. Commands print its one-line message without a traceback."""


class TrainingDiverged(UserInputError):
    """The loss became infinite or NaN; the message names the step and the last good checkpoint."""


class CannotWrite(UserInputError):
    """A file could not be written, e.g. because the disk is full; an older file stays intact."""


class CannotOpenExport(UserInputError):
    """The engine of an export cannot open it, e.g. because it is of another version."""


class WorkerLost(UserInputError):
    """Another machine of the training was lost; the message says how to resume on all of them."""


class AboutLongSentence(Exception):
    """Base class of the error and the warning about a sentence with too many tokens.

    Args:
        name: the argument that holds the sentence.
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
    """Whether an error of a backend says that memory ran out.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("No such shape"))
        (True, False)
    """
    said = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(sign in said for sign in _OUT_OF_MEMORY)
