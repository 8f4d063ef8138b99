"""Export a translator to LiteRT (formerly TensorFlow Lite) for small devices."""

import contextlib
import dataclasses
import tempfile
from pathlib import Path
from typing import Any, Unpack

from keras_transformer.argument_checks import check_one_of
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.guarded_generator import (
    check_tensorflow_backend,
    check_terms,
    exported_graph,
    exported_search,
    search_card,
)
from keras_transformer.formats.litert import LITERT, Precision
from keras_transformer.formats.litert.reader import LiteRTDirectory
from keras_transformer.formats.model_card import TranslationModel, write_model_card
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.search_options import SearchKeywords, SearchOptions, takes_search_options
from keras_transformer.types import PathLike


@takes_search_options(None)
def export_litert(
    translator: TranslationModel,
    directory: PathLike,
    *,
    precision: Precision = "float32",
    terms: bool = False,
    alignments: bool = True,
    **options: Unpack[SearchKeywords],
) -> Path:
    """Export a translator as a LiteRT model with its tokenizers and settings.

    `model.tflite` provides signatures that share their weights. They use only LiteRT's built-in
    operations, and input sizes may change between calls:

    - `translate_ids`: maps `input_ids`, int32 (batch, length) without EOS, and `input_lengths`,
      int32 (batch,), to `output_ids`, int32 (batch, output), `output_lengths`, int32 (batch,), and
      `scores`, float32 (batch,). It runs the complete search and accepts any input, like
      `GuardedGenerator`.
    - `translate_one`: the same for a batch of one sentence, in less time.
    - `translate_ids_with_terms`, only with `terms`: maps the same inputs and `terms`, the int32
      array of `decoding.RequiredTerms`, to the same outputs. If the terms of a row do not fit into
      the output limit or are not tokens, its output is empty and its score is `NO_SCORE`.
    - `align_ids`, only if every model has an alignment head (see `ModelOptions`): maps `input_ids`,
      `input_lengths`, `target_ids` and `target_lengths` to `alignments`, float32 (batch, target,
      source), the weight of each source token, with EOS last, for each target token, as in
      `Translator.align`. `translate_ids` and `translate_ids_with_terms` then also have this output.
    - `encode` and `step`, for apps with their own search: see `StepSignatures`.

    Args:
        translator: translator of one model or an ensemble. If the translator has a shortlist,
            `translate_ids` searches only among its candidates.
        directory: output directory; must not exist, or must be empty and not the current directory.
        precision: number format of the weights. `"float16"` halves the file size and computes in
            float32. `"int8"` (dynamic range) reduces the file to about a third and computes large
            matrix products with 8-bit integers.
        terms: whether to include the signature for translations with terms.
        alignments: whether to use the models' alignment heads. Without them, a small model
            translates nearly twice as fast.
        **options: fields of `SearchOptions` for `translate_ids`, except `num_results`. Defaults
            come from the translator; `max_source_length` defaults to 256.

    Returns:
        The path of the output directory, which is written atomically.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: the directory is not empty, is the current directory or is a mount point;
            Keras uses a backend other than TensorFlow; or `terms` is True and the model writes from
            right to left.
        CannotWrite: the disk is full, or the operating system reports another error.

    Example:

    ```python
    translator = Translator.load("runs/en_de")
    export_litert(translator, "exports/en_de_litert")
    ```

    Reference:
        LiteRT signatures: https://www.tensorflow.org/lite/guide/signatures
    """
    check_tensorflow_backend("A LiteRT model")
    check_one_of("precision", precision, LITERT.precisions)
    check_terms(translator, terms)
    search = exported_search(translator, num_results=1, **options)

    def write(path: Path) -> None:
        from keras_transformer.data.tensorflow_files import tensorflow_writing

        with tensorflow_writing(directory):
            model_bytes = _convert(translator, search, precision, terms, alignments, path)
        LiteRTDirectory(path).write(
            model_bytes,
            translator.source_tokenizer,
            translator.tokenizer,
            _settings(translator, search, precision, terms),
        )
        write_model_card(
            path,
            translator,
            kind=LITERT.kind,
            options=search_card(translator, search, terms=terms),
            precision=precision,
        )

    return write_checked_directory(directory, write)


def _settings(
    translator: TranslationModel, options: SearchOptions, precision: str, terms: bool
) -> dict[str, Any]:
    """Return the contents of `translation.json` without the vocabularies."""
    search = dataclasses.asdict(options)
    del search["num_results"]  # the signature returns one result
    return {
        "precision": precision,
        "limits": {
            "max_source_length": search.pop("max_source_length"),
            "extra_length": search.pop("extra_length"),
            "max_length": translator.max_length,
        },
        "search": search,
        "shortlist": translator.shortlist is not None,
        "terms": terms,
        "no_score": NO_SCORE,
    }


def _convert(
    translator: TranslationModel,
    options: SearchOptions,
    precision: str,
    terms: bool,
    alignments: bool,
    directory: Path,
) -> bytes:
    """Return the LiteRT model. Intermediate files in `directory` are deleted."""
    from keras_transformer.formats.litert.tensorflow_litert import (
        convert_signatures,
        int8_rows,
        signatures,
    )

    models, generator = exported_graph(translator, options, "float32")
    variables = [variable.value for model in models for variable in model.variables]
    generator.aligns &= alignments
    # The system's temporary directory may be small, and a killed process would leave files there.
    with (
        tempfile.TemporaryDirectory(dir=directory) as saved_model,
        int8_rows(models) if precision == "int8" else contextlib.nullcontext(),
    ):
        functions = signatures(generator, translator.tokenizer.vocabulary_size, terms)
        return convert_signatures(functions, variables, precision, saved_model)
