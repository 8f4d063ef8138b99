"""The attention weights of one pair as arrays."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_transformer.inference.graph_compilation import pad_ids
from keras_transformer.models import Transformer
from keras_transformer.types import Tensor


def recorded_attention(
    model: keras.Model,
    source_ids: Sequence[int] | None,
    target_ids: Sequence[int],
    *,
    padding_id: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The attention weights of one pair, from the pass that gives the model's logits.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one.
        source_ids: ids of the source, S of them; None for a language model.
        target_ids: ids that the decoder reads, T of them, starting with BOS.
        padding_id: id that may fill up both.

    Returns:
        float32 arrays of the encoder (layers, heads, S, S), of the decoder (layers, heads, T, T)
        and of the attention to the encoder's output (layers, heads, T, S). Those that the model
        lacks are (0, 0, 0, 0).
    """
    transformer = Transformer.of(model)

    def padded(ids: Sequence[int]) -> Tensor:
        return ops.convert_to_tensor(pad_ids([ids], padding_id, transformer.max_length))

    source = None if source_ids is None else padded(source_ids)
    scores = transformer.attention_scores(source, padded(target_ids))
    sources = len(source_ids or ())
    return (
        _weights(scores.encoder, sources, sources),
        _weights(scores.decoder, len(target_ids), len(target_ids)),
        _weights(scores.cross, len(target_ids), sources),
    )


def _weights(layers: list[Tensor], rows: int, columns: int) -> np.ndarray:
    """One attention of every layer, without padding: (layers, heads, rows, columns)."""
    if not layers:
        return np.zeros((0, 0, 0, 0), "float32")
    found = np.stack([ops.convert_to_numpy(scores)[0] for scores in layers])
    return np.ascontiguousarray(found[:, :, :rows, :columns], dtype="float32")
