"""Strings in, strings out, from a SavedModel in this process: without Keras or a server."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.distribution import pip_install
from keras_transformer.errors import SCORES_NOT_FINITE, SentenceTooLong, UserInputError
from keras_transformer.files.checksum_list import check_files
from keras_transformer.files.json_files import read_record
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.text.sentence_batches import batches_by_length, checked_strings
from keras_transformer.text.sentence_encoding import length_fault
from keras_transformer.types import PathLike

_ADVICE = "Export the model again."


class _Options(msgspec.Struct):
    max_source_length: Annotated[int, msgspec.Meta(ge=2)]


class _Card(msgspec.Struct):
    """The part of `model_card.json` that a reader needs."""

    options: _Options


class SavedModelTranslator:
    """Translates lists of sentences with a model that `export_saved_model` wrote.

    Needs `tensorflow` and `tensorflow-text`. The search is the export's. Sentences are sorted by
    length, run in batches and returned in their original order. The translation of an empty
    sentence is empty. Unpaired surrogates are read as U+FFFD.

    Args:
        directory: a version that `export_saved_model` wrote, such as `saved_models/en_de/1`, or the
            directory of all, of which the latest is taken.
        batch_size: maximum number of sentences in a batch.
        long_sentences: what to do with a sentence that is too long: `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops its end.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: TensorFlow is not installed, or the directory holds no export, or one with
            missing or damaged files.

    Example:

    ```python
    translator = SavedModelTranslator("saved_models/en_de")
    translator.translate(["A small house.", ""])  # ["Ein kleines Haus.", ""]
    ```
    """

    def __init__(
        self,
        directory: PathLike,
        *,
        batch_size: int = 32,
        long_sentences: Literal["refuse", "cut"] = "cut",
    ) -> None:
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, ("refuse", "cut"))
        path = latest_version(directory)
        check_files(path)
        self.options = read_record(path / "model_card.json", _Card, _ADVICE).options
        self.batch_size = batch_size
        self.long_sentences = long_sentences
        self._signatures = _load(path).signatures

    def translate(self, sentences: Iterable[str], progress: bool = False) -> list[str]:
        """The best translation of each sentence.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            The translations in the order of `sentences`.

        Raises:
            ValueError, UserInputError: as in `translate_with_scores`.
        """
        return [text for text, _ in self.translate_with_scores(sentences, progress)]

    def translate_with_scores(
        self, sentences: Iterable[str], progress: bool = False
    ) -> list[tuple[str, float]]:
        """The best translation of each sentence, and its score.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            Pairs `(text, score)` in the order of `sentences`; the score is the log-probability
            divided by the length penalty, 0 for an empty sentence.

        Raises:
            ValueError: `sentences` is a single string, or an entry is not a string.
            SentenceTooLong: a sentence is too long and is to be refused. It is a `UserInputError`.
            UserInputError: the model's scores are not finite numbers.
        """
        texts = checked_strings("sentences", sentences)
        lengths = self._lengths(texts)
        if self.long_sentences == "refuse":
            self._refuse_long("sentences", texts, lengths)
        results = [("", 0.0)] * len(texts)
        not_empty = [i for i, length in enumerate(lengths) if length]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            outputs = self._call("translate", [texts[i] for i in indices])
            scores = outputs["scores"]
            if not np.all(np.isfinite(scores) & (scores > NO_SCORE)):
                raise UserInputError(f"The {SCORES_NOT_FINITE}")
            for i, text, score in zip(indices, outputs["outputs"], scores, strict=True):
                results[i] = text.decode("utf-8"), float(score)
        return results

    def check_lengths(self, sources: Iterable[str]) -> None:
        """Raise `SentenceTooLong` if a source is too long, whatever `long_sentences` is."""
        texts = checked_strings("sources", sources)
        self._refuse_long("sources", texts, self._lengths(texts))

    def _lengths(self, texts: list[str]) -> list[int]:
        """Numbers of tokens without the end of sentence."""
        return self._call("tokenize", texts)["lengths"].tolist() if texts else []

    def _refuse_long(self, name: str, texts: Sequence[str], lengths: Sequence[int]) -> None:
        most = self.options.max_source_length
        for index, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            if length + 1 > most:  # with the end of sentence
                raise SentenceTooLong(name, index, length_fault(text, most))

    def _call(self, signature: str, texts: list[str]) -> dict[str, np.ndarray]:
        import tensorflow as tf

        outputs = self._signatures[signature](inputs=tf.constant(texts))
        return {name: value.numpy() for name, value in outputs.items()}


def latest_version(directory: PathLike) -> Path:
    """A version of a SavedModel by its path, or the latest in the directory of all."""
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    paths = directory.iterdir() if directory.is_dir() else ()
    versions = [path for path in paths if path.name.isascii() and path.name.isdigit()]
    if not versions:
        raise UserInputError(
            f"{directory} holds no SavedModel. Make one with `keras-transformer export saved-model "
            f"RUN {directory}`."
        )
    return max(versions, key=lambda path: int(path.name))


def _load(path: Path) -> Any:
    try:
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (the operations of the tokenizer)
    except ImportError as error:
        raise UserInputError(f"TensorFlow is not installed: {pip_install('tensorflow')}") from error
    try:
        return tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        raise UserInputError(f"{path} cannot be loaded: {reason}. {_ADVICE}") from error
