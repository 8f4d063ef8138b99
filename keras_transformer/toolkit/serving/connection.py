"""Connections to a model server, and their errors."""

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

# Maximum number of characters of a server's message: TensorFlow's may contain an entire graph.
MESSAGE_LENGTH = 500
# The 4 best translations of a batch of 32 texts with 10,000 characters take 1.3 MB. As Python
# objects, the worst answer of the maximum size takes about 0.5 GB.
MOST_ANSWER_BYTES = 16 * 2**20
TOO_LARGE = (
    f"its answer is larger than {MOST_ANSWER_BYTES >> 20} MiB; if it is a model server, lower "
    "`batch_size`"
)


class ServingError(UserInputError):
    """A request to a model server failed; the message says where, and what to do.

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
    """The server has no model of this name."""


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
    """The client was closed, perhaps by another thread while the request was running."""


def one_line(text: object) -> str:
    """Return a server's message as one line of at most `MESSAGE_LENGTH` printable characters."""
    # The rest of a much longer message is not processed.
    text = " ".join(str(text)[: 100 * MESSAGE_LENGTH].split())
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}..."


def short_repr(value: object) -> str:
    """Return the beginning of a value's repr, even if the value is long or deeply nested."""
    return one_line(reprlib.repr(value))


GRPC_SCHEMES = ("grpc", "grpcs")
ENCRYPTED = ("https", "grpcs")
SCHEMES = ("http", "https", *GRPC_SCHEMES)
# Both APIs accept these: HTTP/2, on which gRPC is based, allows only them.
HEADER_NAME = re.compile(r"[0-9A-Za-z_.-]+")
# Headers of the protocol, which users must not set.
OWN_HEADERS = re.compile(r"grpc-.*|.*-bin|content-.*|transfer-encoding|connection|upgrade|te|host")
# Printable ASCII, not empty, without white space at either end.
HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?")
TOKEN = re.compile(r"[!-~]+")
# A day: the clocks of the operating system and of gRPC are limited.
MOST_SECONDS = 24 * 60 * 60
# Shorter strings may be part of any word.
LEAST_SECRET = 4


@dataclasses.dataclass(frozen=True)
class Connection:
    """The address of a model server and its credentials, which the repr does not show.

    The address contains no user and password. `headers`, by lower-case name, are sent with each
    request. Messages must not show `secrets`. A client certificate is the path of the certificate
    and the path of its key.
    """

    address: str
    headers: dict[str, str] = dataclasses.field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    ca_certificates: str | None = None
    client_certificate: tuple[str, str] | None = None
    netrc: bool = False

    @property
    def hint(self) -> str:
        """Further questions for the user if an encrypted address does not answer."""
        if self.address.partition("://")[0] not in ENCRYPTED:
            return ""
        return (
            " Is its certificate issued for exactly this host and by an authority in "
            "`ca_certificates`, and does the server require a `client_certificate`?"
        )

    def without_secrets(self, text: str) -> str:
        """Remove the secrets from a server's message, which may repeat what was sent to it."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


class Transport:
    """What the transports of both APIs share: a model's address, and the wording of errors.

    `place` names the server and the model in errors.
    """

    def __init__(self, connection: Connection, model: str) -> None:
        self._connection = connection
        self.place = f"{connection.address}, model `{model}`"

    def _said(self, text: str) -> str:
        """Return a server's message in a form that is safe to show."""
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
    """Create the connection for these arguments of `TranslationClient`. Errors hide secrets.

    Example:
        >>> checked_connection("http://me:secret@localhost:8501").address
        'http://localhost:8501'
    """
    address, user = checked_address(address)
    headers = _checked_headers(headers)
    # In a value such as `Bearer TOKEN`, the token itself is a secret too.
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
    """Return an address with a lower-case scheme, and its `(user, password)` or None.

    The message of a `ValueError` does not show the user and the password.

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
    except ValueError:  # the port is not a number
        raise _wrong_address(address) from None
    is_whole = parts.hostname and (port is not None or not (is_grpc or not has_scheme))
    # A `/` in a password would end the host.
    extra = (
        parts.query or parts.fragment or "@" in parts.path or (is_grpc and parts.path.strip("/"))
    )
    # Some programs end the host at a backslash.
    is_clean = whole.isprintable() and not set(whole) & set(" \\")
    if parts.scheme not in SCHEMES or not is_whole or extra or not is_clean:
        raise _wrong_address(address)
    user, _, host = parts.netloc.rpartition("@")
    name, _, password = user.partition(":")
    pair = (urllib.parse.unquote(name), urllib.parse.unquote(password))
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/"), pair if user else None


def _wrong_address(address: object) -> ValueError:
    """Return the error for an address, without the part before its last `@`."""
    _, at, shown = repr(address).rpartition("@")
    return ValueError(
        "`address` must be http://HOST:PORT, https://HOST:PORT, HOST:PORT, grpc://HOST:PORT or "
        "grpcs://HOST:PORT; USER:PASSWORD@ may precede HOST, with special characters as %XX. "
        f"Received: address={'...@' if at else ''}{shown}"
    )


def _basic(user: tuple[str, str] | None) -> str | None:
    """Return the value of HTTP's basic authorization for `(name, password)`."""
    return None if user is None else base64.b64encode(":".join(user).encode()).decode()


def _checked_token(token: object) -> str | None:
    if token is not None and not (isinstance(token, str) and TOKEN.fullmatch(token)):
        raise ValueError(
            "`token` must be None or a string of printable ASCII characters without spaces or "
            "line ends. Received: a token that breaks this rule"
        )
    return token


def _checked_headers(headers: object) -> dict[str, str]:
    """Return the headers by their lower-case names."""
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
    """Check and return the path of a file of certificates, or None."""
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
    """Check and return the paths of a certificate and its key, or None."""
    if paths is None:
        return None
    try:
        if not isinstance(paths, (tuple, list)):
            raise TypeError("not a pair")
        certificate, key = map(_file, paths)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # With None, OpenSSL would ask for the password of an encrypted key at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, TypeError, ValueError) as error:
        rule = (
            "be the paths of a certificate and its key as PEM files, with no password on the key "
            f"({_reason(error)})"
        )
        refuse("client_certificate", rule, paths)
    return certificate, key


def _file(path: Any) -> str:
    """Require the path of a regular file: OpenSSL would wait for a pipe, or read from a device."""
    path = os.fspath(path)
    if not isinstance(path, str) or not os.path.isfile(path):
        raise ValueError(f"{path!r} is not a file")
    return path


def _reason(error: Exception) -> object:
    """Return the reason for an error, in OpenSSL's or Python's words."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or error
