"""A client for translators on a TensorFlow model server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_non_negative_number,
    check_positive_int,
    python_number,
)
from keras_transformer.errors import UserInputError
from keras_transformer.serving.answer_values import (
    check_best_scores,
    check_scores,
    checked_column,
    cut,
    paired,
)
from keras_transformer.serving.client_arguments import (
    check_model,
    check_timeout,
    check_version,
    checked_rows,
    padded,
)
from keras_transformer.serving.connection import checked_connection
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.serving.served_model import ServedModel
from keras_transformer.text.sentence_batches import (
    batches_by_length,
    check_equal_numbers,
    checked_strings,
)
from keras_transformer.types import PathLike

# Sentences are sorted by an estimate of their number of tokens.
CHARACTERS_OF_TOKEN = 4

_Kinds = Mapping[str, type | list[Any]]  # of outputs by name: see `checked_column`


class TranslationClient:
    """Translates, scores and tokenizes lists of sentences on a model server.

    The server holds a model from `export_saved_model`, whose search options are fixed. The methods
    return the same results as those of a `Translator` with these options. Sentences are sent in
    batches of similar lengths, and results are returned in the original order. Threads may share a
    client; its connections are pooled. Unpaired surrogates are sent as U+FFFD.

    A request that fails for a temporary reason (a refused or broken connection, HTTP 429, 502, 503
    and a proxy's 504, gRPC's UNAVAILABLE and RESOURCE_EXHAUSTED) is retried after pauses that
    double. One that takes too long, by the client's `timeout` or the server's, is not: the server
    may still be working on it.

    Args:
        address: `http://host:port`, `https://...` or `host:port` for the REST API, usually on port
            8501; `grpc://host:port` for gRPC, usually on port 8500, or `grpcs://...` with
            encryption. `user:password@` before the host is sent as HTTP's basic authorization and
            never shown; special characters are written as `%40`.
        model: name of the model on the server, without `/` and `:`.
        version: version that is to answer, >= 0; defaults to the latest.
        timeout: seconds that a request may take until its answer is complete, at most a day. Each
            retry has as many.
        retries: maximum number of retries of a request.
        backoff: seconds before the first retry.
        batch_size: maximum number of sentences in a request. A batching server
            (`--enable_batching`) accepts up to its `max_batch_size`.
        token: sent with each request as `Authorization: Bearer ...`; over gRPC, this and all
            headers are metadata. Without encryption, others on the network can read it.
        headers: further headers by name.
        ca_certificates: path of a PEM file of authorities, one of which must have signed the
            server's certificate; defaults to those of `requests` or gRPC.
        client_certificate: paths of a certificate and of its key, PEM files, for servers that ask
            for one.
        netrc: whether to read user and password from the file `.netrc` (REST only).

    Raises:
        ValueError: an argument breaks its rule.
        ServingError: the packages that the address needs are not installed. Every method raises
            subclasses of it: `ServerUnreachable`, `RequestTimedOut`, `ModelNotFound`,
            `VersionNotFound`, `RequestRefused` and others of
            `keras_transformer.serving.serving_errors`. They are `UserInputError`s with a message of
            one line.

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
        check_model(model)
        check_version(version)
        check_timeout(timeout)
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

    def translate(self, sentences: Iterable[str], progress: bool = False) -> list[str]:
        """The best translation of each sentence.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            The translations in the order of `sentences`.
        """
        sentences = checked_strings("sentences", sentences)
        outputs: _Kinds = {"outputs": str, "scores": float}
        texts, scores = self._predict_text("translate", {"inputs": sentences}, outputs, progress)
        check_best_scores(self._place, scores)
        return texts

    def translate_nbest(
        self, sentences: Iterable[str], n: int | None = None, progress: bool = False
    ) -> list[list[tuple[str, float]]]:
        """The n best translations of each sentence, with their scores.

        Args:
            sentences: the sentences to translate.
            n: number of translations; at most, and by default, `num_results` of the export.
            progress: whether to show a progress bar on stderr.

        Returns:
            For each sentence its `(text, score)` pairs, best first. A list is shorter than n if the
            search found fewer, and `[("", 0.0)]` for an empty sentence.
        """
        if n is not None:
            check_positive_int("n", n)
        sentences = checked_strings("sentences", sentences)
        outputs: _Kinds = {"outputs": [str], "scores": [float]}
        texts, scores = self._predict_text(
            "translate_nbest", {"inputs": sentences}, outputs, progress
        )
        if n is not None and texts and n > len(texts[0]):
            raise UserInputError(
                f"{self._place}: `n` must be at most the export's `num_results`, {len(texts[0])}. "
                f"Received: n={n}"
            )
        check_best_scores(self._place, [row[0] if row else NO_SCORE for row in scores])
        check_scores(self._place, [score for row in scores for score in row])
        return [
            [pair for pair in pairs if pair[1] > NO_SCORE][:n]
            for pairs in paired(self._place, texts, scores)
        ]

    def score(
        self, sources: Iterable[str], targets: Iterable[str], progress: bool = False
    ) -> list[float]:
        """Natural-log probability of given translations, EOS included, without length penalty.

        Args:
            sources: the source sentences.
            targets: one translation of each source.
            progress: whether to show a progress bar on stderr.

        Returns:
            The log-probabilities in the order of `sources`; -1e9 for a translation longer than any
            output of the export.
        """
        sources = checked_strings("sources", sources)
        targets = checked_strings("targets", targets)
        check_equal_numbers("sources", sources, "targets", targets)
        inputs = {"inputs": sources, "targets": targets}
        (scores,) = self._predict_text("score", inputs, {"log_probs": float}, progress)
        check_scores(self._place, scores)
        return scores

    def tokenize(self, sentences: Iterable[str], progress: bool = False) -> list[list[int]]:
        """The source ids of each sentence, without end of sentence.

        Args:
            sentences: the sentences to tokenize.
            progress: whether to show a progress bar on stderr.

        Returns:
            The ids in the order of `sentences`.
        """
        sentences = checked_strings("sentences", sentences)
        outputs: _Kinds = {"ids": [int], "lengths": int}
        rows = self._predict_text("tokenize", {"inputs": sentences}, outputs, progress)
        return cut(self._place, *rows)

    def translate_ids(
        self, rows: Iterable[Iterable[int]], progress: bool = False
    ) -> list[list[int]]:
        """The best translation of each sentence, from ids to ids.

        Args:
            rows: source ids of each sentence, without end of sentence.
            progress: whether to show a progress bar on stderr.

        Returns:
            Target ids in the order of `rows`, without end of sentence.
        """
        checked = checked_rows("rows", rows)
        outputs: _Kinds = {"output_ids": [int], "output_lengths": int}
        found = self._predict(
            "translate_ids",
            lambda indices: padded([checked[i] for i in indices]),
            list(map(len, checked)),
            outputs,
            progress,
        )
        return cut(self._place, *found)

    def ready(self) -> bool:
        """Whether the server answers and has the model loaded, in the client's version."""
        return self._served_model.is_ready()

    def wait_until_ready(self, timeout: float = 60.0) -> None:
        """Wait until the model is loaded.

        Args:
            timeout: seconds, at most a day.

        Raises:
            ServingError: the model is not loaded in this time, or the server failed to load it.
        """
        check_timeout(timeout)
        self._served_model.wait_until_ready(python_number(timeout))

    def metadata(self) -> dict[str, Any]:
        """The server's description of the model.

        Returns:
            A dict of `name`, `version` (the one that answers) and `signatures`, which has for each
            name `{"inputs": {name: {"dtype": "DT_STRING", "shape": [-1]}}, "outputs": ...}`.
        """
        version, signatures = self._served_model.metadata()
        # TensorFlow adds signatures of its own to a SavedModel, with such names.
        signatures = {name: one for name, one in signatures.items() if not name.startswith("__")}
        return {"name": self.model, "version": version, "signatures": signatures}

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._served_model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _predict_text(
        self, signature: str, columns: Mapping[str, list[str]], outputs: _Kinds, progress: bool
    ) -> list[list[Any]]:
        """Columns of results for columns of strings, by name of the input."""
        longest = [max(map(len, row)) for row in zip(*columns.values(), strict=True)]
        return self._predict(
            signature,
            lambda indices: {name: [rows[i] for i in indices] for name, rows in columns.items()},
            [length // CHARACTERS_OF_TOKEN for length in longest],
            outputs,
            progress,
        )

    def _predict(
        self,
        signature: str,
        inputs_of: Callable[[list[int]], dict[str, list[Any]]],
        lengths: Sequence[int],
        outputs: _Kinds,
        progress: bool,
    ) -> list[list[Any]]:
        """Columns of results in the order of `outputs`, for rows of roughly these lengths.

        `inputs_of` maps the indices of a batch to the inputs of the signature.
        """
        results: dict[str, list[Any]] = {name: [None] * len(lengths) for name in outputs}
        for indices in batches_by_length(range(len(lengths)), lengths, self.batch_size, progress):
            found = self._served_model.predict(signature, inputs_of(indices))
            for name, kind in outputs.items():
                values = checked_column(self._place, signature, found, name, kind, len(indices))
                for i, value in zip(indices, values, strict=True):
                    results[name][i] = value
        return list(results.values())
