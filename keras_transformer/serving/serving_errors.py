"""What a request to a model server ends with when it fails: each one clear line."""

import contextlib
import reprlib

from keras_transformer.errors import UserInputError

# Most characters of a server's own message: TensorFlow's may hold a whole graph.
MESSAGE_LENGTH = 500
# A batch of 32 texts of 10,000 characters has 4 best translations of 1.3 MB; as Python's objects,
# the worst answer of this size takes some 2 GB.
MOST_ANSWER_BYTES = 64 * 2**20


class ServingError(UserInputError):
    """A request to a model server failed; the message says where and what to do.

    `may_pass` is whether the same request may succeed a little later.
    """

    may_pass = False


class ServerUnreachable(ServingError):
    """Nobody answers at the address: a refused, reset or broken connection."""

    may_pass = True


class ServerUnavailable(ServingError):
    """The server, or a proxy before it, has too much to do or is being restarted."""

    may_pass = True


class RequestTimedOut(ServingError):
    """No answer came in time, by the client's clock or the server's own.

    The server may still be at work, so it is not asked again.
    """


class ModelNotFound(ServingError):
    """The server has no model of this name."""


class VersionNotFound(ServingError):
    """The server has the model, but not this version of it."""


class ModelNotReady(ServingError):
    """The server has the model, but no version of it is loaded."""


class RequestRefused(ServingError):
    """The server answered with an error of its own, which is part of the message."""


class InvalidAnswer(ServingError):
    """What came back is no answer of a model server, or not of an exported translator."""


class NotFound(ServingError):
    """The server found no model of this name and version; the client finds out which is missing."""


class ClientClosed(ServingError):
    """The client was closed, perhaps by another thread while the request ran."""


class AnswerTooLarge(OSError):
    """A server sends more than `MOST_ANSWER_BYTES`; transports make an `InvalidAnswer` of it."""

    def __init__(self):
        super().__init__(
            f"its answer is larger than {MOST_ANSWER_BYTES >> 20} MiB; if it is a model server, "
            "lower `batch_size`"
        )


@contextlib.contextmanager
def reading_answer(place):
    """While an answer is taken apart: what it lacks is an `InvalidAnswer`."""
    try:
        yield
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError
    ) as error:  # fmt: skip
        raise InvalidAnswer(
            f"{place}: what answers is no model server: {one_line(repr(error))} in its answer."
        ) from error


def one_line(text):
    """A server's message as one line of printable characters, at most `MESSAGE_LENGTH`."""
    # What is much longer is not read to its end.
    text = " ".join(str(text)[: 100 * MESSAGE_LENGTH].split())
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}..."


def short_repr(value):
    """The beginning of a value's repr, however long or deeply nested the value is."""
    return one_line(reprlib.repr(value))
