"""A translator that runs a SavedModel in this process, and files for a model server."""

import base64
import functools
import json
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from keras_transformer.argument_checks import checked_strings
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.files import sync, writing
from keras_transformer.formats.export_translator import (
    ExportTranslator,
    IdsTranslator,
    opening,
    padded_ids,
    source_and_target,
)
from keras_transformer.formats.format import (
    ALIGN_IDS,
    SIDES,
    TOKENIZERS,
    TRANSLATE_IDS,
    TRANSLATE_IDS_WITH_TERMS,
    Reading,
)
from keras_transformer.formats.registry import check_export
from keras_transformer.formats.sentence_translator import Rows
from keras_transformer.input_files import read_record
from keras_transformer.installation import requiring_tensorflow_text, start_backend_quietly
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import (
    CUT,
    batches_by_length,
    length_fault,
    warn_of_length,
)
from keras_transformer.types import PathLike

# Model-server files, stored next to the versions of a SavedModel.
MODELS_CONFIG = "models.config"
BATCHING_CONFIG = "batching.config"
_MODELS = """\
# For `tensorflow_model_server --model_config_file=...`. Each further model is one more `config`.
model_config_list {{
  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
  }}
}}
"""

_BATCHING = """\
# For `tensorflow_model_server --enable_batching --batching_parameters_file=...`: requests that
# arrive at the same time are computed together.

# Most sentences in a batch, and in one request. Memory grows with this number.
max_batch_size { value: 32 }
# How long a request waits for other requests.
batch_timeout_micros { value: 2000 }
# How many batches may wait; further batches are refused as "unavailable".
max_enqueued_batches { value: 1000 }
# How many batches are computed at the same time.
num_batch_threads { value: 4 }
# `translate_ids`: a batch may have rows of different lengths. The padding is not read.
pad_variable_length_inputs: true
"""


def write_model_server_files(directory: Path, partial: Path) -> None:
    """Write `models.config` and `batching.config` if they are missing.

    Existing files are kept, because users may have edited them. `partial` is a directory next to
    the versions, for use by this process only.
    """
    path = Path(os.path.abspath(directory))  # removes ".." without resolving symbolic links
    models = _MODELS.format(name=_quoted(path.name), base_path=_quoted(path))
    for name, text in ((MODELS_CONFIG, models), (BATCHING_CONFIG, _BATCHING)):
        if not (directory / name).exists():
            with writing(directory / name):
                (partial / name).write_text(text, encoding="utf-8", newline="\n")
                sync(partial / name)
                os.replace(partial / name, directory / name)


def _quoted(value: str | Path) -> str:
    """Quote a string for protobuf's text format, which uses the same escapes as JSON."""
    return json.dumps(str(value), ensure_ascii=False)


start_runtime = start_backend_quietly
_ADVICE = "Export the model again."
# Maximum number of characters in texts tokenized together, counting each as long as the longest.
_MOST_CHARACTERS = 1 << 20


class _Options(msgspec.Struct):
    max_source_length: Annotated[int, msgspec.Meta(ge=2)]
    extra_length: Annotated[int, msgspec.Meta(ge=0)]


class _Card(msgspec.Struct):
    """The fields of `model_card.json` that the reader needs."""

    options: _Options


class SavedModelTranslator(ExportTranslator[str]):
    """Translates lists of sentences with a model exported by `export_saved_model`.

    Requires `tensorflow` and `tensorflow-text`. The search is part of the export. Sentences are
    sorted by length, translated in batches and returned in their original order. The translation of
    an empty sentence is empty. Unpaired surrogates are replaced with U+FFFD.

    Args:
        directory: version written by `export_saved_model`, such as `exports/en_de/1`, or its
            parent directory to use the latest version.
        batch_size: maximum number of sentences in a batch.
        long_sentences: how to handle sentences that are too long: `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops the end.
        source_language: language whose rules divide the text of documents with markup.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: TensorFlow is not installed, the directory contains no export, or files of
            the export are missing or damaged.

    Example:

    ```python
    translator = SavedModelTranslator("exports/en_de")
    translator.translate(["A small house.", ""])  # ["Ein kleines Haus.", ""]
    ```
    """

    def __init__(
        self,
        directory: PathLike,
        *,
        batch_size: int = 32,
        long_sentences: Literal["refuse", "cut"] = "cut",
        source_language: str = "en",
    ) -> None:
        super().__init__(batch_size, long_sentences, source_language)
        self._path = path = latest_version(directory)
        check_export(path)
        self.options = read_record(path / "model_card.json", _Card, _ADVICE).options
        self._signatures = _load(path).signatures

    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[str], list[int]]:
        texts = checked_strings(name, sentences)
        lengths = self._lengths(texts)
        most = self.options.max_source_length
        for index, (text, length) in enumerate(zip(texts, lengths, strict=True)):
            if length + 1 > most:  # including EOS
                if long_sentences == "refuse":
                    raise SentenceTooLong(name, index, length_fault(text, most))
                warn_of_length(name, index, text, most, CUT)
        return texts, lengths

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens in each text."""
        lengths, characters = [0] * len(texts), [len(text) for text in texts]
        batches = batches_by_length(range(len(texts)), characters, _MOST_CHARACTERS, full_length=1)
        for indices in batches:
            found = self._call("tokenize", inputs=[texts[i] for i in indices])["lengths"]
            for i, length in zip(indices, found.tolist(), strict=True):
                lengths[i] = length
        return lengths

    @property
    def _place(self) -> Path:
        return self._path

    @property
    def _signature_names(self) -> Collection[str]:
        return self._signatures.keys()

    @functools.cached_property
    def _by_ids(self) -> IdsTranslator:
        source_tokenizer, tokenizer = self._call(TOKENIZERS, inputs=SIDES)["models"]
        return IdsTranslator(
            self._run_ids,
            decoded_tokenizer(source_tokenizer),
            decoded_tokenizer(tokenizer),
            SearchOptions(
                max_source_length=self.options.max_source_length,
                extra_length=self.options.extra_length,
            ),
            batch_size=self.batch_size,
            long_sentences=self.long_sentences,
            source_language=self.source_language,
            align=self._align_ids,
        )

    def _align_ids(self, source_rows: Rows, target_rows: Rows) -> np.ndarray:
        return self._call(ALIGN_IDS, **source_and_target(source_rows, target_rows))["alignments"]

    def _run_ids(self, rows: Rows, terms: np.ndarray | None) -> tuple[Rows, Iterable[float]]:
        ids, lengths = padded_ids(rows)
        inputs = {"input_ids": ids, "input_lengths": lengths}
        if terms is None:
            found = self._call(TRANSLATE_IDS, **inputs)
        else:
            found = self._call(TRANSLATE_IDS_WITH_TERMS, **inputs, terms=terms)
        outputs = zip(found["output_ids"], found["output_lengths"], strict=True)
        return [row[:length].tolist() for row, length in outputs], found["scores"]

    def _run(self, encoded: Sequence[str]) -> tuple[list[str], np.ndarray]:
        outputs = self._call("translate", inputs=list(encoded))
        return [text.decode("utf-8") for text in outputs["outputs"]], outputs["scores"]

    def _call(self, signature: str, **inputs: Any) -> dict[str, np.ndarray]:
        import tensorflow as tf

        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        outputs = self._signatures[signature](**tensors)
        return {name: value.numpy() for name, value in outputs.items()}


def vocabularies_of(
    source_tokenizer: SentencePieceTokenizer, tokenizer: SentencePieceTokenizer
) -> str:
    """Return a string that identifies the tokenizers of a model."""
    return f"{source_tokenizer.fingerprint} {tokenizer.fingerprint}"


def decoded_tokenizer(model: str | bytes) -> SentencePieceTokenizer:
    """Return a tokenizer from the output of the signature `TOKENIZERS`."""
    return SentencePieceTokenizer(base64.urlsafe_b64decode(model))


def latest_version(directory: PathLike) -> Path:
    """Return `directory` if it is a SavedModel, otherwise the latest version in it."""
    directory = Path(directory)
    if (directory / "saved_model.pb").is_file():
        return directory
    if not (found := versions(directory)):
        raise UserInputError(
            f"{directory} contains no SavedModel. Create one with `keras-transformer export "
            "saved-model "
            f"RUN {directory}`."
        )
    return found[-1]


def versions(directory: Path) -> list[Path]:
    """Return the versions of a SavedModel, with the latest last."""
    paths = directory.iterdir() if directory.is_dir() else ()
    numbered = [path for path in paths if path.name.isascii() and path.name.isdigit()]
    return sorted(numbered, key=lambda path: int(path.name))


def open_export(path: Path, reading: Reading) -> SavedModelTranslator:
    """Return an export's translator for `translate --engine`."""
    return SavedModelTranslator(path, **reading.for_whole_sentences)


def _load(path: Path) -> Any:
    with requiring_tensorflow_text():
        import tensorflow as tf
        import tensorflow_text  # noqa: F401  (the operations of the tokenizer)
    errors = OSError, ValueError, tf.errors.OpError
    with opening(f"{path} cannot be loaded", *errors, advice=f". {_ADVICE}"):
        return tf.saved_model.load(path)
