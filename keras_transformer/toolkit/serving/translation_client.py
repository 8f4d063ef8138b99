"""A client for translators on a TensorFlow model server."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec

from keras_transformer.argument_checks import (
    check_equal_numbers,
    check_non_negative_int,
    check_non_negative_number,
    check_positive_int,
    checked_strings,
    is_integer,
    is_number,
    of_one_or_many,
    python_number,
    without_surrogates,
)
from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError, refuse
from keras_transformer.formats.format import (
    NO_SCORE,
    SIDES,
    TOKENIZERS,
    TRANSLATE_IDS_WITH_TERMS,
    no_terms,
)
from keras_transformer.text.sentence_encoding import batches_by_length
from keras_transformer.toolkit.serving.connection import (
    MOST_SECONDS,
    InvalidAnswer,
    checked_connection,
    short_repr,
)
from keras_transformer.toolkit.serving.served_model import ServedModel, Tensor
from keras_transformer.types import NONE, PathLike

if TYPE_CHECKING:
    from keras_transformer.text.glossary import Terms
    from keras_transformer.toolkit.serving.served_terms import ServedTerms

# Used to estimate the number of tokens when sorting sentences.
CHARACTERS_OF_TOKEN = 4

# Part of REST API paths in TensorFlow Serving.
MODEL_NAME = re.compile(r"[^/:]+")
# Versions are int64 in TensorFlow Serving's messages.
MOST_VERSION = 2**63 - 1

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
# The outputs of each signature, with the type of a row.
_OUTPUTS: Mapping[str, Mapping[str, Any]] = {
    "translate": {"outputs": str, "scores": float},
    "translate_nbest": {"outputs": list[str], "scores": list[float]},
    "score": {"log_probs": float},
    "tokenize": {"ids": list[_Int32], "lengths": _Int32},
    "translate_ids": {"output_ids": list[_Int32], "output_lengths": _Int32},
    TRANSLATE_IDS_WITH_TERMS: {
        "output_ids": list[_Int32],
        "output_lengths": _Int32,
        "scores": float,
        "vocabularies": str,
    },
    TOKENIZERS: {"models": str},
}


class TranslationClient:
    """Translates, scores and tokenizes lists of sentences on a model server.

    The server must serve a model from `export_saved_model`, whose search options are fixed. The
    methods return the same results as a `Translator` with these options. Sentences are sent in
    batches of similar lengths, and results are returned in the original order. Threads may share a
    client; connections are pooled. Unpaired surrogates are replaced with U+FFFD.

    A request that fails for a temporary reason (a refused or broken connection; HTTP 429, 502, 503
    or a proxy's 504; gRPC's UNAVAILABLE or RESOURCE_EXHAUSTED) is retried with exponential backoff.
    A request that exceeds the timeout of the client or the server is not retried, because the
    server may still be working on it.

    Args:
        address: `http://host:port`, `https://...` or `host:port` for the REST API, usually on port
            8501; `grpc://host:port` for gRPC, usually on port 8500, or `grpcs://...` with
            encryption. `user:password@` before the host is sent as HTTP Basic authorization and
            never displayed; percent-encode special characters, as in `%40`.
        model: name of the model on the server, without `/` and `:`.
        version: required version, >= 0; defaults to the latest.
        timeout: maximum number of seconds for a request to complete, at most one day. Each retry
            has its own timeout.
        retries: maximum number of retries per request.
        backoff: seconds before the first retry.
        batch_size: maximum number of sentences in a request. A server with `--enable_batching`
            accepts at most its `max_batch_size`.
        token: token for the header `Authorization: Bearer ...`. Over gRPC, all headers are sent as
            metadata. Without encryption, others on the network can read the token.
        headers: additional headers, keyed by name.
        ca_certificates: path of a PEM file with the certificate authorities to trust; defaults to
            the authorities of `requests` or gRPC.
        client_certificate: paths of a certificate and its key (PEM files), for servers that require
            a client certificate.
        netrc: whether to read the user and password from `.netrc` (REST only).

    Raises:
        ValueError: an argument is invalid.
        ServingError: the packages required for the address are not installed. All methods raise
            subclasses of this error: `ServerUnreachable`, `RequestTimedOut`, `ModelNotFound`,
            `VersionNotFound`, `RequestRefused` and others in
            `keras_transformer.toolkit.serving.connection`. They are `UserInputError`s with a
            one-line message.

    Example:

    ```python
    with TranslationClient("http://localhost:8501", "en_de") as client:
        client.translate(["forty-two", ""])  # ["zweiundvierzig", ""]
    ```
    """

    def __init__(
        self,
        address: str,
        model: str,
        *,
        version: int | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        backoff: float = 0.2,
        batch_size: int = 32,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        ca_certificates: PathLike | None = None,
        client_certificate: tuple[PathLike, PathLike] | None = None,
        netrc: bool = False,
    ) -> None:
        connection = checked_connection(
            address,
            token=token,
            headers=headers,
            ca_certificates=ca_certificates,
            client_certificate=client_certificate,
            netrc=netrc,
        )
        if not MODEL_NAME.fullmatch(str(model)) or model != without_surrogates(str(model)):
            rule = "be the name of a model: not empty, without `/` and `:`, valid UTF-8"
            refuse("model", rule, model)
        if version is not None and not (is_integer(version) and 0 <= version <= MOST_VERSION):
            refuse("version", "be None or an integer in [0, 2**63 - 1]", version)
        _check_timeout(timeout)
        check_non_negative_int("retries", retries)
        check_non_negative_number("backoff", backoff)
        check_positive_int("batch_size", batch_size)
        timeout, backoff = python_number(timeout), python_number(backoff)
        self.address = connection.address
        self.model = model
        self.version = version
        self.timeout = timeout
        self.retries = retries
        self.backoff = backoff
        self.batch_size = batch_size
        self._served_model = ServedModel(
            connection, model, version, timeout=timeout, retries=retries, backoff=backoff
        )
        self._place = self._served_model.place
        self._translator: ServedTerms | None = None

    @of_one_or_many
    def translate(
        self,
        sentences: Iterable[str],
        progress: bool = False,
        *,
        glossary: "Terms | None" = None,
        keep: str | None = None,
    ) -> list[str]:
        """Return the best translation of each sentence.

        Args:
            sentences: the sentences to translate, or a single sentence.
            progress: whether to show a progress bar on stderr.
            glossary, keep: as in `Translator.translate`. They need a model that was exported with
                `terms=True`. The first call loads the tokenizers from the server.

        Returns:
            The translations in the order of `sentences`; for a single sentence, a string.

        Raises:
            UserInputError: the model has no terms, or the terms of a sentence cannot be met.
        """
        sentences = checked_strings("sentences", sentences)
        if glossary is not None or keep not in (None, NONE):
            from keras_transformer.toolkit.serving.served_terms import OtherVocabularies

            how: dict[str, Any] = {"progress": progress, "glossary": glossary, "keep": keep}
            try:
                return self._with_terms().translate(sentences, **how)
            except OtherVocabularies:  # the server has loaded another version
                return self._with_terms(again=True).translate(sentences, **how)
        texts, scores = self._predict_text("translate", {"inputs": sentences}, progress)
        self._check_scores(scores, NO_SCORE)
        return texts

    __call__ = translate

    def translate_nbest(
        self, sentences: Iterable[str], n: int | None = None, progress: bool = False
    ) -> list[list[tuple[str, float]]]:
        """Return the n best translations of each sentence with their scores.

        Args:
            sentences: the sentences to translate.
            n: number of translations; the default and maximum is the export's `num_results`.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of `(text, score)` pairs for each sentence, best first. A list has fewer than n
            pairs if the search finds fewer, and is `[("", 0.0)]` for an empty sentence.
        """
        if n is not None:
            check_positive_int("n", n)
        sentences = checked_strings("sentences", sentences)
        texts, scores = self._predict_text("translate_nbest", {"inputs": sentences}, progress)
        if n is not None and texts and n > len(texts[0]):
            raise UserInputError(
                f"{self._place}: `n` must be at most the export's `num_results`, {len(texts[0])}. "
                f"Received: n={n}"
            )
        self._check_scores([row[0] if row else NO_SCORE for row in scores], NO_SCORE)
        self._check_scores([score for row in scores for score in row])
        if list(map(len, texts)) != list(map(len, scores)):
            raise InvalidAnswer(
                f"{self._place}: each translation must have one score. "
                "Was the model written by `export_saved_model`?"
            )
        pairs = [list(zip(*row, strict=True)) for row in zip(texts, scores, strict=True)]
        return [[pair for pair in row if pair[1] > NO_SCORE][:n] for row in pairs]

    def score(
        self, sources: Iterable[str], targets: Iterable[str], progress: bool = False
    ) -> list[float]:
        """Return the natural-log probabilities of translations.

        The log-probabilities include EOS but no length penalty.

        Args:
            sources: the source sentences.
            targets: one translation of each source.
            progress: whether to show a progress bar on stderr.

        Returns:
            The log-probabilities in the order of `sources`, with -1e9 for translations longer than
            any possible output of the export.
        """
        sources = checked_strings("sources", sources)
        targets = checked_strings("targets", targets)
        check_equal_numbers("sources", sources, "targets", targets)
        inputs = {"inputs": sources, "targets": targets}
        (scores,) = self._predict_text("score", inputs, progress)
        self._check_scores(scores)
        return scores

    def tokenize(self, sentences: Iterable[str], progress: bool = False) -> list[list[int]]:
        """Return the source ids of each sentence, without EOS.

        Args:
            sentences: the sentences to tokenize.
            progress: whether to show a progress bar on stderr.

        Returns:
            The ids in the order of `sentences`.
        """
        sentences = checked_strings("sentences", sentences)
        return self._cut(*self._predict_text("tokenize", {"inputs": sentences}, progress))

    def translate_ids(
        self, rows: Iterable[Iterable[int]], progress: bool = False
    ) -> list[list[int]]:
        """Return the best translation of each sentence, with ids as input and output.

        Args:
            rows: source ids of each sentence, without EOS.
            progress: whether to show a progress bar on stderr.

        Returns:
            The target ids in the order of `rows`, without EOS.
        """
        checked = _checked_rows("rows", rows)
        found = self._predict(
            "translate_ids",
            lambda indices: _padded([checked[i] for i in indices]),
            list(map(len, checked)),
            progress,
        )
        return self._cut(*found)

    def ready(self) -> bool:
        """Return whether the server responds and has loaded the client's model version."""
        return self._served_model.is_ready()

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until the model is loaded.

        Args:
            timeout: maximum number of seconds to wait, at most one day.

        Raises:
            ServingError: the model is not loaded in time, or the server fails to load the model.
        """
        _check_timeout(timeout)
        self._served_model.wait_until_ready(python_number(timeout))

    def metadata(self) -> dict[str, Any]:
        """Return the server's description of the model.

        Returns:
            A dict with `name`, `version` (the version that answers) and `signatures`, which maps
            names to `{"inputs": {name: {"dtype": "DT_STRING", "shape": [-1]}}, "outputs": ...}`.
        """
        version, signatures = self._served_model.metadata()
        described = {
            name: {"inputs": _described(one.inputs), "outputs": _described(one.outputs)}
            for name, one in signatures.items()
            if not name.startswith("__")  # added to SavedModels by TensorFlow
        }
        return {"name": self.model, "version": version, "signatures": described}

    def close(self) -> None:
        """Close the connections. The client cannot be used afterward."""
        self._served_model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _with_terms(self, again: bool = False) -> "ServedTerms":
        """Return the translator for sentences with terms, with the model's tokenizers."""
        from keras_transformer.toolkit.serving.served_terms import ServedTerms

        if self._translator is None or again:
            if TRANSLATE_IDS_WITH_TERMS not in self._served_model.metadata()[1]:
                raise no_terms(self._place)
            (models,) = self._predict_text(TOKENIZERS, {"inputs": [*SIDES]}, progress=False)
            try:
                self._translator = ServedTerms(self._predict_terms, models, self.batch_size)
            except ValueError as error:
                raise InvalidAnswer(
                    f"{self._place}: the signature `{TOKENIZERS}` must return SentencePiece "
                    f"models. Received: {short_repr(models)}"
                ) from error
        return self._translator

    def _predict_terms(
        self, rows: list[list[int]], terms: list[Any]
    ) -> tuple[list[list[int]], list[float], list[str]]:
        inputs = {**_padded(rows), "terms": terms}
        found = self._predict_batch(TRANSLATE_IDS_WITH_TERMS, inputs, len(rows))
        ids, lengths, scores, vocabularies = found
        return self._cut(ids, lengths), scores, vocabularies

    def _predict_text(
        self, signature: str, columns: Mapping[str, list[str]], progress: bool
    ) -> list[list[Any]]:
        """Return the result columns. `columns` maps input names to columns of strings."""
        longest = [max(map(len, row)) for row in zip(*columns.values(), strict=True)]
        return self._predict(
            signature,
            lambda indices: {name: [rows[i] for i in indices] for name, rows in columns.items()},
            [length // CHARACTERS_OF_TOKEN for length in longest],
            progress,
        )

    def _predict(
        self,
        signature: str,
        inputs_of: Callable[[list[int]], dict[str, list[Any]]],
        lengths: Sequence[int],
        progress: bool,
    ) -> list[list[Any]]:
        """Process rows in batches. Return the result columns in the order of `_OUTPUTS`.

        `inputs_of` maps the indices of a batch to the inputs of the signature. `lengths` contains
        the approximate length of each row.
        """
        results: list[list[Any]] = [[None] * len(lengths) for _ in _OUTPUTS[signature]]
        for indices in batches_by_length(range(len(lengths)), lengths, self.batch_size, progress):
            found = self._predict_batch(signature, inputs_of(indices), len(indices))
            for column, values in zip(results, found, strict=True):
                for i, value in zip(indices, values, strict=True):
                    column[i] = value
        return results

    def _predict_batch(
        self, signature: str, inputs: Mapping[str, list[Any]], num_rows: int
    ) -> list[list[Any]]:
        """Return the result columns of a batch in the order of `_OUTPUTS`."""
        found = self._served_model.predict(signature, inputs)
        outputs = _OUTPUTS[signature]
        if not isinstance(found, dict):  # the server omits the name of a single output
            found = dict.fromkeys(outputs, found)
        return [
            self._checked_column(signature, name, found.get(name), kind, num_rows)
            for name, kind in outputs.items()
        ]

    def _checked_column(
        self, signature: str, name: str, values: Any, kind: Any, num_rows: int
    ) -> list[Any]:
        """Check that an output of a signature has a row of type `kind` for each input."""
        try:
            rows: list[Any] = msgspec.convert(values, list[kind])
        except msgspec.ValidationError:
            rows = []
        if len(rows) != num_rows:
            raise InvalidAnswer(
                f"{self._place}: the signature `{signature}` must return {num_rows} rows of "
                f"`{name}`. Received: {short_repr(values)}. Was it written by `export_saved_model`?"
            )
        return rows

    def _check_scores(self, scores: Iterable[float], above: float = -math.inf) -> None:
        """Require finite scores above a limit. A damaged model may violate this."""
        if not all(math.isfinite(score) and score > above for score in scores):
            raise InvalidAnswer(f"{self._place}: the {SCORES_NOT_FINITE}")

    def _cut(self, rows: Sequence[list[int]], lengths: Sequence[int]) -> list[list[int]]:
        """Remove the padding from rows."""
        for row, length in zip(rows, lengths, strict=True):
            if not 0 <= length <= len(row):
                raise InvalidAnswer(
                    f"{self._place}: a row of {len(row)} ids cannot have the length {length}. "
                    "Was the model written by `export_saved_model`?"
                )
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _check_timeout(timeout: object) -> None:
    if not is_number(timeout) or not 0 < timeout <= MOST_SECONDS:
        refuse("timeout", f"be a number of seconds > 0 and <= {MOST_SECONDS}, a day", timeout)


def _checked_rows(name: str, rows: Iterable[Any]) -> list[list[int]]:
    """Validate rows of 32-bit integers and return them as lists of int."""
    checked = []
    for i, row in enumerate(rows):
        is_row = not isinstance(row, (str, bytes)) and hasattr(row, "__iter__")
        ids = list(row) if is_row else []
        if not is_row or not all(is_integer(one) and -(2**31) <= one < 2**31 for one in ids):
            refuse(f"{name}[{i}]", "be a list of 32-bit integers", row)
        checked.append([int(token) for token in ids])
    return checked


def _padded(rows: Sequence[list[int]]) -> dict[str, list[Any]]:
    """Return inputs for the `translate_ids` signature, padded to an equal length of at least 1.

    A batching model server cannot pad an input without elements.

    Example:
        >>> _padded([[5, 6], []])
        {'input_ids': [[5, 6], [0, 0]], 'input_lengths': [2, 0]}
    """
    width = max(1, *map(len, rows))
    return {
        "input_ids": [row + [0] * (width - len(row)) for row in rows],
        "input_lengths": [len(row) for row in rows],
    }


def _described(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
    """Return the types and shapes of tensors. A shape is None if the rank is unknown."""
    return {
        name: {
            "dtype": one.dtype,
            "shape": None
            if one.tensor_shape.unknown_rank
            else [dimension.size for dimension in one.tensor_shape.dim],
        }
        for name, one in tensors.items()
    }
