"""Errors whose message is all that a user needs to go on."""

# Said by whatever searches, here or on a server.
SCORES_NOT_FINITE = (
    "model's scores are not finite numbers: its weights are damaged, or its training has diverged."
)
# What the backends and their libraries say when an allocation fails.
_OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out_of_memory",
    "out of memory",
    "oom when allocating",
)


class UserInputError(ValueError):
    """Input that a user can mend: the message is one clear line, commands show no traceback."""


class TrainingDiverged(UserInputError):
    """The loss is no finite number; the message names the step and the last good checkpoint."""


class CannotWrite(UserInputError):
    """A file could not be written, such as on a full disk; what stood there before is whole."""


class WorkerLost(UserInputError):
    """Another machine of the training has gone; the message says how all go on together."""


class AboutLongSentence:
    """What an error and a warning about a sentence with too many tokens know of it.

    Args:
        name: the argument that holds the sentence.
        index: its number there, from 0.
        fault: what is wrong, without a subject.
    """

    def __init__(self, name, index, fault):
        super().__init__(f"`{name}[{index}]` {fault}")
        self.name = name
        self.index = index
        self.fault = fault


class SentenceTooLong(AboutLongSentence, UserInputError):
    """A sentence has more tokens than may be."""


class LongSentenceWarning(AboutLongSentence, UserWarning):
    """A sentence was cut or split because it has more tokens than may be."""


def is_out_of_memory(error):
    """Whether an error of a backend says that memory ran out.

    Args:
        error: an exception.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("No such shape"))
        (True, False)
    """
    said = f"{type(error).__name__}: {error}".lower()
    return isinstance(error, MemoryError) or any(sign in said for sign in _OUT_OF_MEMORY)
