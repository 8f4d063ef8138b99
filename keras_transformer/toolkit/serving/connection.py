"""Connections to a model server and their errors."""

import base64
import dataclasses
import os
import re
import reprlib
import ssl
import urllib.parse
from collections.abc import Sequence
from typing import Any

from keras_transformer.argument_checks import check_bool, without_surrogates
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.types import PathLike

# Maximum length of a server message. TensorFlow's messages may contain an entire graph.
MESSAGE_LENGTH = 500
# The 4 best translations of a batch of 32 texts with 10,000 characters take 1.3 MB. In the worst
# case, a response of the maximum size takes about 0.5 GB as Python objects.
MOST_ANSWER_BYTES = 16 * 2**20
TOO_LARGE = (
    f"its answer is larger than {MOST_ANSWER_BYTES >> 20} MiB; if it is a model server, lower "
    "`batch_size`"
)


class ServingError(UserInputError):
    """A request to a model server failed. The message states where it failed and suggests a fix.

    `may_pass` indicates whether the same request may succeed later.
    """

    may_pass: bool = False


class ServerUnreachable(ServingError):
    """The connection to the address was refused, reset or broken."""

    may_pass = True


class ServerUnavailable(ServingError):
    """The server or a proxy in front of the server is overloaded or restarting."""

    may_pass = True


class RequestTimedOut(ServingError):
    """The request exceeded the timeout of the client or the server.

    The request is not retried, because the server may still be working on it.
    """


class ModelNotFound(ServingError):
    """The server does not have a model with this name."""


class VersionNotFound(ServingError):
    """The server has the model but not this version."""


class ModelNotReady(ServingError):
    """The server has the model, but no version is loaded."""


class RequestRefused(ServingError):
    """The server returned an error, which is included in the message."""


class InvalidAnswer(ServingError):
    """The response does not have the format of an exported translator on a model server."""


class NotFound(ServingError):
    """The server did not find the model or version. The client checks which one is missing."""


class ClientClosed(ServingError):
    """The client was closed, possibly by another thread during the request."""


def one_line(text: object) -> str:
    """Convert a server message to one line of at most `MESSAGE_LENGTH` printable characters."""
    # Ignore the rest of extremely long messages.
    text = " ".join(str(text)[: 100 * MESSAGE_LENGTH].split())
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}..."


def short_repr(value: object) -> str:
    """Return the start of a value's repr, even if the value is long or deeply nested."""
    return one_line(reprlib.repr(value))


GRPC_SCHEMES = ("grpc", "grpcs")
ENCRYPTED = ("https", "grpcs")
SCHEMES = ("http", "https", *GRPC_SCHEMES)
# Accepted by both APIs. HTTP/2, the basis of gRPC, allows no other characters.
HEADER_NAME = re.compile(r"[0-9A-Za-z_.-]+")
# Protocol headers that users must not set.
OWN_HEADERS = re.compile(r"grpc-.*|.*-bin|content-.*|transfer-encoding|connection|upgrade|te|host")
# Nonempty printable ASCII without leading or trailing white space.
HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
TOKEN = re.compile(r"[!-~]+")
# One day, because the timers of the operating system and gRPC are limited.
MOST_SECONDS = 24 * 60 * 60
# Shorter strings may occur in ordinary words.
LEAST_SECRET = 4


@dataclasses.dataclass(frozen=True)
class Connection:
    """The address and credentials of a model server. The repr does not show the credentials.

    The address does not include the user or password. `headers`, keyed by lowercase name, are sent
    with each request. Messages must not contain `secrets`. A client certificate consists of the
    paths of the certificate and its key.
    """

    address: str
    headers: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    ca_certificates: str | None = None
    client_certificate: tuple[str, str] | None = None
    netrc: bool = False

    @property
    def hint(self) -> str:
        """Additional troubleshooting questions if an encrypted address does not respond."""
        if self.address.partition("://")[0] not in ENCRYPTED:
            return ""
        return (
            " Is its certificate issued for exactly this host and by an authority in "
            "`ca_certificates`, and does the server require a `client_certificate`?"
        )

    def without_secrets(self, text: str) -> str:
        """Remove secrets from a server message, which may echo the request."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class Transport:
    """Base class of the transports for both APIs, with a model's address and error messages.

    `place` identifies the server and the model in error messages.
    """

    def __init__(self, connection: Connection, model: str) -> None:
        self._connection = connection
        self.place = f"{connection.address}, model `{model}`"

    def _said(self, text: str) -> str:
        """Return a server message in a form that is safe to display."""
        return one_line(self._connection.without_secrets(text))

    def _late(self, timeout: float, reason: str = "") -> RequestTimedOut:
        return RequestTimedOut(
            f"{self.place}: no answer within {timeout:g} s{reason}. Raise `timeout`, or lower "
            "`batch_size`."
        )

    def _unreachable(self, message: str, port: str, may_pass: bool) -> ServerUnreachable:
        failure = ServerUnreachable(
            f"{self.place}: no model server answers there ({message}). Is it running, and is this "
            f"its {port} by default)?{self._connection.hint}"
        )
        failure.may_pass = may_pass
        return failure


def checked_connection(
    address: str,
    *,
    token: str | None = None,
    headers: dict[str, str] | None = None,
    ca_certificates: PathLike | None = None,
    client_certificate: Sequence[PathLike] | None = None,
    netrc: bool = False,
) -> Connection:
    """Create a connection from arguments of `TranslationClient`. Errors do not reveal secrets.

    Example:
        >>> checked_connection("http://me:secret@localhost:8501").address
        'http://localhost:8501'
    """
    address, user = checked_address(address)
    headers = _checked_headers(headers)
    # In a value such as `Bearer TOKEN`, the token itself is also a secret.
    secrets = [*headers.values(), *(value.rpartition(" ")[2] for value in headers.values())]
    for kind, value in (("Basic", _basic(user)), ("Bearer", _checked_token(token))):
        if value is not None:
            if "authorization" in headers:
                raise ValueError(
                    "`token`, a user in `address` and the header `Authorization` are mutually "
                    "exclusive. Received: more than one of them"
                )
            headers["authorization"] = f"{kind} {value}"
            secrets.append(value)
    secrets += [] if user is None else [user[1]]
    check_bool("netrc", netrc)
    scheme = address.partition("://")[0]
    if netrc and scheme.startswith("grpc"):
        refuse("netrc", "be False for gRPC", netrc)
    certificates = {"ca_certificates": ca_certificates, "client_certificate": client_certificate}
    for name, path in certificates.items():
        if path is not None and scheme not in ENCRYPTED:
            raise ValueError(
                f"`{name}` needs an address with https:// or grpcs://. Received: address={address}"
            )
    return Connection(
        address,
        headers,
        tuple(sorted((one for one in secrets if len(one) >= LEAST_SECRET), key=len, reverse=True)),
        _checked_authorities(ca_certificates),
        _checked_certificate(client_certificate),
        netrc,
    )


def checked_address(address: object) -> tuple[str, tuple[str, str] | None]:
    """Return an address with a lowercase scheme, and `(user, password)` or None.

    The message of a `ValueError` does not reveal the user or password.

    Example:
        >>> checked_address("localhost:8501")
        ('http://localhost:8501', None)
        >>> checked_address("https://me:secret@example.org")
        ('https://example.org', ('me', 'secret'))
    """
    if not isinstance(address, str) or address != without_surrogates(address):
        raise _wrong_address(address)
    has_scheme = "://" in address
    whole = address if has_scheme else f"http://{address}"
    try:
        parts = urllib.parse.urlsplit(whole)
        port, is_grpc = parts.port, parts.scheme in GRPC_SCHEMES
    except ValueError:  # port is not a number
        raise _wrong_address(address) from None
    is_whole = parts.hostname and (port is not None or not (is_grpc or not has_scheme))
    # A `/` in a password would terminate the host.
    extra = (
        parts.query or parts.fragment or "@" in parts.path or (is_grpc and parts.path.strip("/"))
    )
    # Some programs terminate the host at a backslash.
    is_clean = whole.isprintable() and not set(whole) & set(" \\")
    if parts.scheme not in SCHEMES or not is_whole or extra or not is_clean:
        raise _wrong_address(address)
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    pair = (urllib.parse.unquote(name), urllib.parse.unquote(password))
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/"), pair if user else None


def _wrong_address(address: object) -> ValueError:
    """Return the error for an invalid address, omitting everything before the last `@`."""
    _, at, shown = repr(address).rpartition("@")
    return ValueError(
        "`address` must be http://HOST:PORT, https://HOST:PORT, HOST:PORT, grpc://HOST:PORT or "
        "grpcs://HOST:PORT; USER:PASSWORD@ may precede HOST, with special characters as %XX. "
        f"Received: address={'...@' if at else ''}{shown}"
    )


def _basic(user: tuple[str, str] | None) -> str | None:
    """Return the HTTP Basic authorization value for `(name, password)`."""
    return None if user is None else base64.b64encode(":".join(user).encode()).decode()


def _checked_token(token: object) -> str | None:
    if token is not None and not (isinstance(token, str) and TOKEN.fullmatch(token)):
        raise ValueError(
            "`token` must be None or a string of printable ASCII characters without spaces or "
            "line ends. Received: a token that breaks this rule"
        )
    return token


def _checked_headers(headers: object) -> dict[str, str]:
    """Validate the headers and return them keyed by lowercase name."""
    if headers is not None and not isinstance(headers, dict):
        raise ValueError(
            "`headers` must be None or a dict of strings by name. "
            f"Received: a {type(headers).__name__}"
        )
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        key = name.lower() if isinstance(name, str) else ""
        if not HEADER_NAME.fullmatch(key) or OWN_HEADERS.fullmatch(key) or key in checked:
            raise ValueError(
                "`headers` must have names of letters, digits, `-`, `_` and `.`, each once, that "
                f"are not the protocol's own. Received: {name!r}"
            )
        if not isinstance(value, str) or not HEADER_VALUE.fullmatch(value):
            raise ValueError(
                "`headers` must have values of printable ASCII characters, without line ends or "
                f"outer white space. Received: headers[{name!r}], which breaks this rule"
            )
        checked[key] = value
    return checked


def _checked_authorities(path: Any) -> str | None:
    """Validate and return the path of a certificate file, or None."""
    if path is None:
        return None
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cafile=_file(path))
        if not context.cert_store_stats()["x509"]:
            raise ValueError("it contains no certificate")
    except (OSError, TypeError, ValueError) as error:
        rule = f"be the path of a PEM file of certificates ({_reason(error)})"
        refuse("ca_certificates", rule, path)
    return os.fspath(path)


def _checked_certificate(paths: Any) -> tuple[str, str] | None:
    """Validate and return the paths of a certificate and its key, or None."""
    if paths is None:
        return None
    try:
        if not isinstance(paths, (tuple, list)):
            raise TypeError("not a pair")
        certificate, key = map(_file, paths)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # With None, OpenSSL would prompt for the password of an encrypted key.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, TypeError, ValueError) as error:
        rule = (
            "be the paths of a certificate and its key as PEM files, with no password on the key "
            f"({_reason(error)})"
        )
        refuse("client_certificate", rule, paths)
    return certificate, key


def _file(path: Any) -> str:
    """Require a regular file, because OpenSSL would wait for a pipe or read from a device."""
    path = os.fspath(path)
    if not isinstance(path, str) or not os.path.isfile(path):
        raise ValueError(f"{path!r} is not a file")
    return path


def _reason(error: Exception) -> object:
    """Return the reason for an error as reported by OpenSSL or Python."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or error
