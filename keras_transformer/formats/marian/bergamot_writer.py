"""Export a translator for the Bergamot engines, with optional 8-bit matrices."""

import collections
import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import UserInputError, reject
from keras_transformer.files import whole_file, write_bytes
from keras_transformer.formats.marian import BERGAMOT, BergamotPrecision
from keras_transformer.formats.marian.binary_file import ACTIVATION_SCALE, write_marian_binary
from keras_transformer.formats.marian.configurations import write_yaml
from keras_transformer.formats.marian.tensors import entries
from keras_transformer.formats.marian.writer import (
    decoder,
    native_arrays,
    native_model,
    native_pieces,
    write_vocabularies,
)
from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.layers.dense import Dense
from keras_transformer.models import Transformer
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.text.sentence_encoding import batches_by_length
from keras_transformer.types import PathLike

_BATCH_SIZE = 32  # as in Marian's own recipes; larger batches have larger maxima
_FULL_LENGTH = 64  # logits take 4 bytes per vocabulary token
_DEVIATIONS = 1.1
_LARGEST = 127


def activation_scales(
    translator: TranslationModel, model: Transformer, sentences: Iterable[str]
) -> dict[str, np.ndarray]:
    """Return the input scale of each matrix, keyed by Marian's names.

    The model translates the sentences in batches with greedy decoding, like Marian with
    `--dump-quantmult`. The largest absolute input of each matrix product is recorded for every
    batch in the encoder and for every position of a batch in the decoder.

    Args:
        translator: translator with the model.
        model: the translator's model.
        sentences: source sentences.

    Returns:
        Names such as "encoder_l1_self_Wq_QuantMultA" mapped to arrays (1, 1): 127 / (mean + 1.1
        standard deviations) of the recorded values. "Wemb" or "decoder_Wemb" is the logit matrix,
        and "none" is the logit matrix with a shortlist.

    Raises:
        UserInputError: there are no sentences, or a sentence is too long.
    """
    sentences = [sentence for sentence in sentences if sentence.strip()]
    if not sentences:
        raise UserInputError("`calibration` must contain a sentence. Received: none")
    outputs = translator.with_search(beam_size=1, num_results=1).translate(sentences)
    source_eos = translator.source_tokenizer.special_tokens.eos
    tokens = translator.tokenizer.special_tokens
    sources = [[*ids, source_eos] for ids in translator.source_tokenizer.encode(sentences)]
    targets = [[tokens.bos, *ids] for ids in translator.tokenizer.encode(outputs)]
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    layers = _names(model)
    (logits,) = (name for names in layers.values() for name in names if "Wemb" in name)
    peaks: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    for batch in batches_by_length(
        range(len(sentences)), lengths, _BATCH_SIZE, full_length=_FULL_LENGTH
    ):
        source_ids, source_mask = _padded([sources[i] for i in batch], tokens.pad)
        target_ids, target_mask = _padded([targets[i] for i in batch], tokens.pad)
        with _last_inputs(layers) as inputs:
            model({"source_ids": source_ids, "target_ids": target_ids})
        for layer, names in layers.items():
            vectors = keras.ops.cast(inputs[layer], "float32")
            values = keras.ops.convert_to_numpy(keras.ops.max(keras.ops.abs(vectors), -1))
            # These inputs are source tokens: in the encoder, or for cross-attention keys and
            # values.
            if names[0].startswith("encoder_l") or names[0].endswith("_context_Wk"):
                largest = np.max(values * source_mask, keepdims=True)
            else:
                largest = np.max(values * target_mask, axis=0)[target_mask.any(axis=0)]
            for name in names:
                peaks[name].append(largest.ravel())
    scales = {}
    for name, found in peaks.items():
        values = np.concatenate(found)
        usual = float(np.mean(values) + _DEVIATIONS * np.std(values))
        scale = _LARGEST / (usual or _LARGEST)  # zeros also need a scale
        scales[f"{name}{ACTIVATION_SCALE}"] = np.array([[scale]], "float32")
    return scales | {_WITH_SHORTLIST: scales[f"{logits}{ACTIVATION_SCALE}"]}


def _names(model: Transformer) -> dict[Any, list[str]]:
    """Map each layer with matrix products to Marian's names for its matrices.

    An alignment head of its own has no counterpart in Marian.
    """
    names = {id(entry.weight.variable): [own for _, own in entry.names] for entry in entries(model)}
    tokens = model.target_embedding.token_embedding
    dense = (layer for layer in model._flatten_layers() if isinstance(layer, Dense))
    found = {each: names[id(each.kernel)] for each in dense if id(each.kernel) in names}
    return found | {tokens: names[id(tokens.matrix)]}


def _padded(rows: Sequence[Sequence[int]], padding_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ids as a padded array and a mask of the real tokens."""
    ids = keras.utils.pad_sequences(rows, padding="post", value=padding_id)
    return ids, np.arange(ids.shape[1]) < np.array([[len(row)] for row in rows])


@contextlib.contextmanager
def _last_inputs(layers: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    """Context manager that maps each layer to the inputs of its last call."""
    found: dict[Any, Any] = {}

    def keeping(layer: Any) -> Any:
        call = layer.call

        @functools.wraps(call)
        def keep_and_call(inputs: Any, *args: Any, **options: Any) -> Any:
            found[layer] = inputs
            return call(inputs, *args, **options)

        return keep_and_call

    try:
        for layer in layers:
            layer.call = keeping(layer)
        yield found
    finally:
        for layer in layers:
            del layer.call


_MATRIX = re.compile(r"Wemb|_W\w?$")  # matches names of tensors that marian-conv writes in 8 bits
_WITH_SHORTLIST = "none" + ACTIVATION_SCALE  # input scale of the logits
# Suffixes of the model and configuration files.
_ENDINGS = {
    "float32": ("bin", "yml"),
    "int8": ("intgemm.alphas.bin", "intgemm8bitalpha.yml"),
}


def export_bergamot(
    translator: TranslationModel,
    directory: PathLike,
    *,
    precision: BergamotPrecision = "float32",
    calibration: Iterable[str] | None = None,
) -> Path:
    """Export a translator's model to Bergamot, the engine of Firefox Translations.

    The files are model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm) and config.*.yml.
    Name the directory after the language pair, such as `enpt`, because the file names include it.

    Args:
        translator: translator with a single model, on any backend. Marian must support the model,
            as for `export_marian` with `native=True`.
        directory: output directory; must be empty or must not exist.
        precision: number format of matrices and embeddings. With `"int8"`, the engine also rounds
            the inputs of matrix products to 8 bits.
        calibration: a few hundred representative sentences, required for `"int8"`. The model
            translates them to determine the input scale of each matrix: the mean of the largest
            inputs plus 1.1 standard deviations becomes 127.

    Returns:
        The path of the output directory.

    Raises:
        ValueError: `precision` is unknown.
        UserInputError: Marian does not support an option of the model, sizes are incompatible with
            int8, the directory is not empty, or `calibration` is missing, empty or given for
            `"float32"`.

    Example:

    ```python
    translator = Translator.load("runs/enpt")
    export_bergamot(translator, "firefox/enpt", precision="int8", calibration=sentences)
    ```

    Reference: Bogoychev et al., "TranslateLocally: Blazing-fast translation running on the local
        CPU", 2021; for the scales, Marian's `scripts/alphas/extract_stats.py`.
    """
    check_one_of("precision", precision, BERGAMOT.precisions)
    if (precision == "int8") != (calibration is not None):
        given = "None" if calibration is None else "sentences"
        raise UserInputError(
            "`calibration` (`--calibration FILE`) must be sentences for int8, and None for "
            f"float32. Received: precision={precision!r}, calibration={given}"
        )
    model = bergamot_model(translator, precision)
    arrays, in_8_bits = native_arrays(translator, model), set()
    if calibration is not None:
        arrays |= activation_scales(translator, model, calibration)
        in_8_bits = {name for name in arrays if _MATRIX.search(name)}
    pair, (of_model, of_config) = Path(directory).resolve().name, _ENDINGS[precision]
    names = [f"{side}vocab.{pair}.spm" for side in ("", "src", "trg")]

    def write(path: Path) -> None:
        model_name = f"model.{pair}.{of_model}"
        config = decoder(translator, model_name, write_vocabularies(path, translator, names))
        if in_8_bits:
            config["gemm-precision"] = "int8shiftAlphaAll"
        with whole_file(path / model_name) as file:
            write_marian_binary(file, arrays, in_8_bits)
        write_bytes(path / f"config.{of_config}", write_yaml(config))

    return write_checked_directory(directory, write)


def bergamot_model(translator: TranslationModel, precision: BergamotPrecision) -> Transformer:
    """Return the only model. Raise a UserInputError if Bergamot's engines do not support it."""
    if translator.tokenizer.right_to_left:
        raise UserInputError(
            "Bergamot does not support right-to-left models. Use `export marian --native`."
        )
    model = native_model(translator)
    if precision == "int8":
        _check_sizes(model, len(native_pieces(translator.tokenizer)))
    return model


def _check_sizes(model: Transformer, vocabulary_size: int) -> None:
    """Refuse matrices that intgemm cannot multiply or that no Bergamot model contains."""
    for name, value, divisor in (
        ("hidden_dim", model.hidden_dim, 64),
        ("intermediate_dim", model.encoder_layers[0].intermediate_dim, 64),
        ("vocabulary_size", vocabulary_size, 8),
    ):
        if value % divisor:
            reject(
                f"int8 needs a `{name}` that is a multiple of {divisor}; float32 does not",
                **{name: value},
            )
    if not model.target_embedding.tie_weights:
        reject("int8 needs `tie_weights=True`; float32 does not", tie_weights=False)
