"""A client of translators that a TensorFlow model server serves."""

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_non_negative_number,
    check_positive_int,
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

# Sentences are sorted by a guess at their number of tokens.
CHARACTERS_OF_TOKEN = 4


class TranslationClient:
    """Translates, scores and tokenizes lists of sentences on a model server.

    The server holds a model from `export_saved_model`, whose search options are fixed; what the
    methods return is what those of a `Translator` with these options do. Sentences are sent in
    batches of similar lengths and come back in the order in which they came. Threads may share a
    client: its connections are pooled. A request that failed for a reason that may pass (a refused
    or broken connection, HTTP 429, 502, 503 and a proxy's 504, gRPC's UNAVAILABLE and
    RESOURCE_EXHAUSTED) is sent again, after pauses that double. One that took too long, by the
    client's `timeout` or the server's own, is not: the server may still be at work on it. Half a
    surrogate pair, which is no character, is sent as U+FFFD.

    Args:
        address: `http://host:port`, `https://...` or `host:port` for the REST API, whose port is
            8501 as a rule; `grpc://host:port` for gRPC, port 8500, or `grpcs://...` with
            encryption. `user:password@` before the host is sent as HTTP's basic authorization, and
            shown nowhere; special characters are written as `%40`.
        model: the model's name on the server, without `/` and `:`.
        version: int >= 0, the version that is to answer; None: the latest.
        timeout: seconds that a request waits for the server until its answer is whole; at most a
            day. A repetition has as many.
        retries: most repetitions of a request.
        backoff: seconds before the first repetition.
        batch_size: most sentences of a request. A server that batches (`--enable_batching`) takes
            no more than its `max_batch_size`.
        token: str, sent with each request as `Authorization: Bearer ...`; over gRPC this and all
            headers are metadata. Without encryption, whoever is on the way can read it.
        headers: dict of further headers, str by name.
        ca_certificates: path of a PEM file, the authorities one of which must have signed the
            server's certificate; None: those that `requests` or gRPC knows.
        client_certificate: `(path of the certificate, path of its key)`, PEM files, for servers
            that ask for one.
        netrc: whether the file `.netrc` is asked for user and password (REST alone).

    Raises:
        ValueError: an argument breaks its rule.
        ServingError: the packages that the address needs are not installed. Each method raises one
            too: `ServerUnreachable`, `RequestTimedOut`, `ModelNotFound`, `VersionNotFound`,
            `RequestRefused` and others of `keras_transformer.serving.serving_errors`; they are
            `UserInputError`s of one line.

    Example:

    ```python
    with TranslationClient("http://localhost:8501", "en_de") as client:
        client.translate(["forty-two", ""])  # ["zweiundvierzig", ""]
    ```
    """

    def __init__(
        self,
        address,
        model,
        *,
        version=None,
        timeout=30.0,
        retries=3,
        backoff=0.2,
        batch_size=32,
        token=None,
        headers=None,
        ca_certificates=None,
        client_certificate=None,
        netrc=False,
    ):
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

    def translate(self, sentences, progress=False):
        """The best translation of each sentence.

        Args:
            sentences: iterable of strings.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of strings, in the order of `sentences`.
        """
        sentences = checked_strings("sentences", sentences)
        outputs = {"outputs": str, "scores": float}
        texts, scores = self._predict_text("translate", {"inputs": sentences}, outputs, progress)
        check_best_scores(self._place, scores)
        return texts

    def translate_nbest(self, sentences, n=None, progress=False):
        """The n best translations of each sentence, with their scores.

        Args:
            sentences: iterable of strings.
            n: how many translations, at most the number in the export; None: all of them.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of `(text, score)`, best first. A list is shorter than n where the
            search found fewer; that of an empty sentence is `[("", 0.0)]`.
        """
        if n is not None:
            check_positive_int("n", n)
        sentences = checked_strings("sentences", sentences)
        outputs = {"outputs": [str], "scores": [float]}
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

    def score(self, sources, targets, progress=False):
        """Natural-log probability of given translations, EOS included, without length penalty.

        Args:
            sources: iterable of strings.
            targets: iterable of as many strings, the translations.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of floats, in the order of `sources`; -1e9 for a translation that is longer than
            any output of the export can be.
        """
        sources = checked_strings("sources", sources)
        targets = checked_strings("targets", targets)
        check_equal_numbers("sources", sources, "targets", targets)
        inputs = {"inputs": sources, "targets": targets}
        (scores,) = self._predict_text("score", inputs, {"log_probs": float}, progress)
        check_scores(self._place, scores)
        return scores

    def tokenize(self, sentences, progress=False):
        """The source ids of each sentence, without end of sentence.

        Args:
            sentences: iterable of strings.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of int.
        """
        sentences = checked_strings("sentences", sentences)
        outputs = {"ids": [int], "lengths": int}
        rows = self._predict_text("tokenize", {"inputs": sentences}, outputs, progress)
        return cut(self._place, *rows)

    def translate_ids(self, rows, progress=False):
        """The best translation of each sentence, from ids to ids.

        Args:
            rows: iterable of lists of source ids, without end of sentence.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of lists of target ids, without end of sentence.
        """
        rows = checked_rows("rows", rows)
        outputs = {"output_ids": [int], "output_lengths": int}
        found = self._predict(
            "translate_ids",
            lambda indices: padded([rows[i] for i in indices]),
            list(map(len, rows)),
            outputs,
            progress,
        )
        return cut(self._place, *found)

    def ready(self):
        """Whether the server is there and the model is loaded, in the client's version."""
        return self._served_model.is_ready()

    def wait_until_ready(self, timeout=60.0):
        """Wait until the model is loaded.

        Args:
            timeout: seconds, at most a day.

        Raises:
            ServingError: it is not after this time, or the server could not load it.
        """
        check_timeout(timeout)
        self._served_model.wait_until_ready(timeout)

    def metadata(self):
        """What the server says of the model.

        Returns:
            A dict: `name`, `version` (that which answers) and `signatures`, a dict of
            `{"inputs": {name: {"dtype": "DT_STRING", "shape": [-1]}}, "outputs": ...}`.
        """
        version, signatures = self._served_model.metadata()
        # TensorFlow keeps signatures of its own in a SavedModel, with such names.
        signatures = {name: one for name, one in signatures.items() if not name.startswith("__")}
        return {"name": self.model, "version": version, "signatures": signatures}

    def close(self):
        """Close the connections; the client is used no more."""
        self._served_model.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _predict_text(self, signature, columns, outputs, progress):
        """Columns of results for columns of strings, a dict by the input's name."""
        longest = [max(map(len, row)) for row in zip(*columns.values(), strict=True)]
        return self._predict(
            signature,
            lambda indices: {name: [rows[i] for i in indices] for name, rows in columns.items()},
            [length // CHARACTERS_OF_TOKEN for length in longest],
            outputs,
            progress,
        )

    def _predict(self, signature, inputs_of, lengths, outputs, progress):
        """Columns of results, in the order of `outputs`.

        Args:
            signature: name of the signature.
            inputs_of: function from a batch's indices to the signature's inputs.
            lengths: list of int, about the number of tokens of each row.
            outputs: dict of the type of a row's result, by output name.
            progress: whether to show a progress bar on stderr.
        """
        results = {name: [None] * len(lengths) for name in outputs}
        for indices in batches_by_length(range(len(lengths)), lengths, self.batch_size, progress):
            found = self._served_model.predict(signature, inputs_of(indices))
            for name, kind in outputs.items():
                values = checked_column(self._place, signature, found, name, kind, len(indices))
                for i, value in zip(indices, values, strict=True):
                    results[name][i] = value
        return list(results.values())
