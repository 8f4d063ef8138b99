"""Errors of requests to a model server, each with a one-line message."""

import reprlib

from keras_transformer.errors import UserInputError

# Maximum number of characters of a server's message: TensorFlow's may contain a whole graph.
MESSAGE_LENGTH = 500
# The 4 best translations of a batch of 32 texts with 10,000 characters have 1.3 MB. As Python
# objects, the worst answer of the maximum size takes about 0.5 GB.
MOST_ANSWER_BYTES = 16 * 2**20
TOO_LARGE = (
    f"its answer is larger than {MOST_ANSWER_BYTES >> 20} MiB; if it is a model server, lower "
    "`batch_size`"
)


class ServingError(UserInputError):
    """A request to a model server failed; the message says where and what to do.

    `may_pass` says whether the same request may succeed a little later.
    """

    may_pass: bool = False


class ServerUnreachable(ServingError):
    """The address does not answer: a refused, reset or broken connection."""

    may_pass = True


class ServerUnavailable(ServingError):
    """The server, or a proxy in front of it, is overloaded or restarting."""

    may_pass = True


class RequestTimedOut(ServingError):
    """The answer did not arrive in time, by the client's or the server's clock.

    The request is not retried, because the server may still be working on it.
    """


class ModelNotFound(ServingError):
    """The server does not have a model of this name."""


class VersionNotFound(ServingError):
    """The server has the model, but not this version of it."""


class ModelNotReady(ServingError):
    """The server has the model, but no version of it is loaded."""


class RequestRefused(ServingError):
    """The server answered with its own error, which is part of the message."""


class InvalidAnswer(ServingError):
    """The answer is not from a model server, or not from an exported translator."""


class NotFound(ServingError):
    """The server found no model with this name and version; the client checks which is missing."""


class ClientClosed(ServingError):
    """The client was closed, perhaps by another thread while the request ran."""


def one_line(text: object) -> str:
    """Return a server's message as one line of at most `MESSAGE_LENGTH` printable characters."""
    # Much longer messages are not read to the end.
    text = " ".join(str(text)[: 100 * MESSAGE_LENGTH].split())
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}..."


def short_repr(value: object) -> str:
    """Return the beginning of a value's repr, even if the value is long or deeply nested."""
    return one_line(reprlib.repr(value))
