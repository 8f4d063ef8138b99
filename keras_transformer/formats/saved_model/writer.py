"""Export a translator as a SavedModel that maps strings to strings wherever TensorFlow runs."""

import importlib.util
from pathlib import Path
from typing import Unpack

from keras_transformer.argument_checks import check_one_of, without_surrogates
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.files import tell, write_directory
from keras_transformer.formats.guarded_generator import (
    check_tensorflow_backend,
    check_terms,
    exported_graph,
    exported_search,
    search_card,
)
from keras_transformer.formats.model_card import TranslationModel, write_model_card
from keras_transformer.formats.saved_model import SAVED_MODEL, Precision
from keras_transformer.formats.saved_model.reader import versions, write_model_server_files
from keras_transformer.installation import pip_install
from keras_transformer.runs.checksums import write_checksums
from keras_transformer.search_options import SearchKeywords, SearchOptions, takes_search_options
from keras_transformer.types import PathLike


@takes_search_options(None)
def export_saved_model(
    translator: TranslationModel,
    directory: PathLike,
    *,
    precision: Precision = "float32",
    jit_compile: bool = False,
    terms: bool = False,
    **options: Unpack[SearchKeywords],
) -> Path:
    """Export a translator as the next version of a SavedModel.

    The SavedModel contains the weights, vocabularies and search. It runs without this package,
    because its graphs use only TensorFlow operations and TensorFlow Text's SentencePiece
    operations. Every input is a batch, which may be empty. The signatures are as follows:

    - `translate` (also `serving_default`): maps `inputs`, strings (batch,), to `outputs`, strings
      (batch,), and `scores`, float32 (batch,), log-probabilities divided by the length penalty;
    - `translate_nbest`: maps `inputs` to `outputs` and `scores` (batch, num_results), best first.
      If the search finds fewer results, the remaining ones are "" with `NO_SCORE`;
    - `translate_ids`: maps `input_ids`, int32 (batch, length) without EOS, and `input_lengths`,
      int32 (batch,), to `output_ids`, `output_lengths`, `scores`;
    - `score`: maps `inputs` and `targets`, strings (batch,), to `log_probs`, float32 (batch,), the
      natural-log probability of the targets, including EOS, without a length penalty;
    - `tokenize`: maps `inputs` to `ids`, int32 (batch, length), and `lengths`, int32 (batch,).

    With `terms`, there are three more:

    - `translate_with_terms`: maps `inputs` and `terms`, strings (batch,), to `outputs` and
      `scores`, as in `translate`. `terms` are the target terms that each output must contain, one
      per line, with `|` between alternative forms. A term in n lines occurs n times. If the terms
      do not fit into the output limit or the vocabulary cannot write them, the output is "" with
      `NO_SCORE`;
    - `translate_ids_with_terms`: maps the inputs of `translate_ids` and `terms`, the int32 array of
      `decoding.RequiredTerms`, to the outputs of `translate_ids` and `vocabularies`, strings
      (batch,), which identify the tokenizers. A model server that combines requests pads arrays
      with their first element, so it must be -1: start each row with a form of -1;
    - `tokenizers`: maps `inputs`, "source" or "target", to `models`, SentencePiece models in
      URL-safe base64.

    If every model has an alignment head (see `ModelOptions`), the signatures that translate have
    another output, `alignments`: with strings, the links of words in Pharaoh format, such as "0-0
    2-1", in the shape of `outputs`; with ids, float32 (batch, output, source), the weight of each
    source token, with EOS last, for each output token. They are those of `Translator.align`. There
    are also `tokenizers` and another signature:

    - `align_ids`: maps `input_ids`, `input_lengths`, `target_ids` and `target_lengths` to
      `alignments`.

    The translation of an empty string is empty. Invalid UTF-8 is replaced with U+FFFD. Sources that
    are too long are truncated, and targets longer than any possible output get `NO_SCORE`. Each
    result is independent of the rest of its batch.

    The version also contains a model card and warm-up requests that the model server runs before
    serving the model. `directory` contains `models.config` and `batching.config` for the model
    server. These files are written only if they are missing, so you can edit them.

    Args:
        translator: translator to export. If it has a shortlist, the export searches only among the
            shortlist's candidates.
        directory: model directory, such as `exports/NAME`; created if missing.
        precision: number format of weights and computations, independent of training. bfloat16
            halves the size and was 1.3 times as fast on a processor with AVX512-BF16. Most
            translations stay the same (943 of the 1,000 in Multi30k's test_2016_flickr, with 40.6
            BLEU compared with 40.3).
        jit_compile: whether XLA compiles the searches on the machine that runs the export, for use
            with a GPU. The first request of each shape then waits a few seconds for compilation. To
            limit the number of shapes, the number of sentences in a request is rounded up to a
            power of 2, and the length to a multiple of 8 tokens.
        terms: whether to include the signatures for translations with terms. They make the graphs
            larger, so that the model takes about 1.6 times as long to load.
        **options: fields of `SearchOptions`. Defaults come from the translator, except that
            `max_source_length` defaults to 256 and `num_results` to `beam_size`.

    Returns:
        The path of the version: `directory/1`, or one more than the largest existing number. The
        version is written atomically.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: Keras uses a backend other than TensorFlow, `jit_compile` is True and the
            translator has a shortlist, or `terms` is True and the model writes from right to left.
        CannotWrite: the disk is full, or the operating system reports another error.

    Example:

    ```python
    translator = Translator.load("runs/en_de")
    export_saved_model(translator, "exports/en_de")  # Path("exports/en_de/1")
    ```
    """
    check_tensorflow_backend("A SavedModel")
    check_one_of("precision", precision, SAVED_MODEL.precisions)
    check_terms(translator, terms)
    if jit_compile and translator.shortlist is not None:
        raise UserInputError(
            "`jit_compile` must be False for a translator with a shortlist: the number of "
            "candidates differs between requests."
        )
    if str(directory) != without_surrogates(str(directory)):  # used in `models.config`
        refuse("directory", "be a path in UTF-8", str(directory))
    search = exported_search(translator, **options)

    def write(version: Path) -> None:
        from keras_transformer.data.tensorflow_files import tensorflow_writing

        with tensorflow_writing(directory):
            _save(translator, version, search, precision, jit_compile, terms)
            _write_warmup(version, translator, search, terms)
        write_model_card(
            version,
            translator,
            kind=SAVED_MODEL.kind,
            options=search_card(translator, search, jit_compile=jit_compile, terms=terms),
            precision=precision,
        )
        write_model_server_files(Path(directory), version)
        write_checksums(version)

    def next_version() -> str:
        taken = versions(Path(directory))
        return str(int(taken[-1].name) + 1 if taken else 1)

    return write_directory(directory, next_version, write)


def _save(
    translator: TranslationModel,
    path: Path,
    options: SearchOptions,
    precision: str,
    jit_compile: bool,
    terms: bool,
) -> None:
    """Write the SavedModel itself."""
    import tensorflow as tf

    from keras_transformer.formats.saved_model.tensorflow_signatures import TranslationSignatures

    models, generator = exported_graph(translator, options, precision, jit_compile)
    tokenizers = translator.source_tokenizer, translator.tokenizer
    module = TranslationSignatures(models, generator, *tokenizers, jit_compile, terms)
    tf.saved_model.save(module, str(path), signatures=module.by_name())


def _write_warmup(
    version: Path, translator: TranslationModel, options: SearchOptions, terms: bool
) -> None:
    if importlib.util.find_spec("tensorflow_serving") is None:
        tell(
            "The export has no warm-up requests for the model server: they need "
            f"{pip_install('serving')}."
        )
        return
    from keras_transformer.formats.saved_model.tensorflow_warmup import write_warmup_requests

    write_warmup_requests(version, translator, options, terms)
