"""The app's answers to requests that it refuses: a status, a code and one line."""

from typing import Any

from starlette.responses import JSONResponse

from keras_transformer.errors import SentenceTooLong

_MOST_SHOWN = 80  # characters of a value in a message


class RequestRefused(Exception):
    """A request cannot be answered; the message says why.

    Args:
        status: HTTP status.
        code: what is wrong in one word, for programs.
        message: one line, for people.
        headers: additional headers of the answer.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = " ".join(message.split())
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """Return the JSON of the answer.

        Example:
            >>> RequestRefused(404, "unknown_run", "There is no run\\n'x'.").body()
            {'error': {'code': 'unknown_run', 'message': "There is no run 'x'."}}
        """
        return {"error": {"code": self.code, "message": _encodable(self.message)}}

    def response(self) -> JSONResponse:
        """Return the answer."""
        return JSONResponse(self.body(), self.status, self.headers)


def too_long(error: SentenceTooLong, index: int) -> RequestRefused:
    """Return the refusal of the sentence, or of its translation, at this index of a request."""
    what = "Target" if error.name == "targets" else "Sentence"
    return RequestRefused(422, "sentence_too_long", f"{what} {index + 1} {error.fault}")


def shown(value: object) -> str:
    """Return a value of a request as a message shows it, in a few characters.

    Example:
        >>> shown("\\ud800"), shown(True), shown(["a"]), len(shown("x" * 1000))
        ("'\\\\ud800'", 'true', 'a list', 83)
    """
    if isinstance(value, (dict, list)):  # may be as deep as the body is long
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    # The first characters are enough: a text may be as long as the body.
    text = repr(value[: _MOST_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MOST_SHOWN + 2 else f"{text[:_MOST_SHOWN]}..."


def _encodable(text: str) -> str:
    """Return the text without lone surrogates, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
