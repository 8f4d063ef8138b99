"""The scales by which Bergamot's engines round what they multiply a matrix in 8 bits by."""

import collections
import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.tensors import SHARED, TARGET, entries, native_name
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.layers.dense import Dense
from keras_transformer.models import Transformer
from keras_transformer.text.sentence_batches import batches_by_length

_BATCH_SIZE = 32  # of Marian's own recipes; larger batches have larger maxima
_FULL_LENGTH = 64  # logits take 4 bytes for each token of the vocabulary
_DEVIATIONS = 1.1
_LARGEST = 127


def activation_scales(
    translator: TranslationModel, model: Transformer, sentences: Iterable[str]
) -> dict[str, float]:
    """Return the scale of what each matrix is multiplied by, by Marian's names of the matrices.

    The model translates the sentences greedily, in batches, as Marian does with
    `--dump-quantmult`. Each product has a largest absolute value: in the encoder one for a batch,
    in the decoder one for each position of a batch.

    Args:
        translator: the translator.
        model: its model.
        sentences: sentences of the source.

    Returns:
        127 / (mean + 1.1 standard deviations) of the largest values, by names such as
        "encoder_l1_self_Wq"; "Wemb" or "decoder_Wemb" is the matrix of the logits.

    Raises:
        UserInputError: there is no sentence, or one is too long.
    """
    sentences = [sentence for sentence in sentences if sentence.strip()]
    if not sentences:
        raise UserInputError("`calibration` must have a sentence. Received: none")
    outputs = translator.with_search(beam_size=1, num_results=1).translate(sentences)
    source_eos = translator.source_tokenizer.special_tokens.eos
    tokens = translator.tokenizer.special_tokens
    sources = [[*ids, source_eos] for ids in translator.source_tokenizer.encode(sentences)]
    targets = [[tokens.bos, *ids] for ids in translator.tokenizer.encode(outputs)]
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    layers = _names(model)
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
            if _reads_source(names[0]):
                largest = np.max(values * source_mask, keepdims=True)
            else:
                largest = np.max(values * target_mask, axis=0)[target_mask.any(axis=0)]
            for name in names:
                peaks[name].append(largest.ravel())
    return {name: _scale(np.concatenate(found)) for name, found in peaks.items()}


def _scale(peaks: np.ndarray) -> float:
    usual = float(np.mean(peaks) + _DEVIATIONS * np.std(peaks))
    return _LARGEST / (usual or _LARGEST)  # zeros have a scale too


def _names(model: Transformer) -> dict[Any, list[str]]:
    """The layers that multiply by matrices, each with Marian's names of its matrices."""
    tied_all = model.source_embedding is model.target_embedding
    parts = {id(entry.variable): entry.parts for entry in entries(model)}
    found = {
        layer: [native_name(part, tied_all=tied_all) for part in parts[id(layer.kernel)]]
        for layer in model._flatten_layers()
        if isinstance(layer, Dense)
    }
    table = SHARED if tied_all else TARGET
    return found | {model.target_embedding.token_embedding: [native_name(table, tied_all=tied_all)]}


def _reads_source(name: str) -> bool:
    """Whether a matrix is multiplied by vectors of source tokens."""
    return name.startswith("encoder_l") or name.endswith(("_context_Wk", "_context_Wv"))


def _padded(rows: Sequence[Sequence[int]], padding_id: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids as an array, and a mask of what is no padding."""
    ids = keras.utils.pad_sequences(rows, padding="post", value=padding_id)
    return ids, np.arange(ids.shape[1]) < np.array([[len(row)] for row in rows])


@contextlib.contextmanager
def _last_inputs(layers: Iterable[Any]) -> Iterator[dict[Any, Any]]:
    """A context in which the inputs of each layer's last call are kept: layer -> inputs."""
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
