"""Layer diagnostics in layers.csv: attention, gradients and updates of each layer."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.files import write_all, writing
from keras_transformer.layers.windowed_attention import Window
from keras_transformer.models import Transformer
from keras_transformer.training.callbacks.step_callback import Logs, StepCallback
from keras_transformer.types import PathLike, Tensor

COLUMNS = (
    "step",
    "part",
    "weight_norm",
    "gradient_norm",
    "update",
    "attention_entropy",
    "lowest_head_entropy",
)


class LayerDiagnostics(StepCallback):
    """Measures each part of a Transformer on one batch at the end of each epoch.

    The measurements help explain why training makes no progress: which attention is still uniform,
    where gradients vanish, and which weights barely change. Each epoch appends a row per part to a
    CSV file:

    - `step`: number of updates done.
    - `part`: name from `model_parts`, such as "decoder_layer_2.cross_attention".
    - `weight_norm`: Euclidean norm of the part's trainable weights.
    - `gradient_norm`: Euclidean norm of the gradient of the batch's loss, without dropout.
    - `update`: norm of the weight change since the last row, divided by the earlier weight norm. In
      the first row, it is the change since training started, or empty if training was resumed.
    - `attention_entropy`: only for attention, the entropy of a position's weights divided by the
      entropy of equal weights on the same positions. 1 means uniform attention, and 0 means
      attention to a single position. The value is averaged over heads and over real tokens that can
      attend to at least two positions. The cell is empty for functional models not built by
      `build_transformer` or `build_language_model`.
    - `lowest_head_entropy`: the same value for the head with the lowest entropy.

    A measurement takes about as long as a training step on the batch and does not affect training.
    If the optimizer keeps a moving average, the average is measured.

    Args:
        batch: `(inputs, labels, weights)` from a `BatchReader`; weights are 0 at padding. `inputs`
            contains `source_ids` and `target_ids`, or a language model's `token_ids`.
        path: output file; rows are appended if it exists. None (for processes other than the chief)
            writes nothing. On JAX, all processes must measure.

    Raises:
        ValueError: `fit` is called on a model that is not from `training.training_model`.

    Example:

    ```python
    training_model.fit(batches, callbacks=[LayerDiagnostics(reader.batch(0), "layers.csv")])
    ```

    Reference: Liu et al., "Understanding the Difficulty of Training Transformers", 2020, for
    gradients and updates by layer; Zhai et al., "Stabilizing Transformer Training by Preventing
    Attention Entropy Collapse", 2023, for the entropy.
    """

    def __init__(self, batch: Any, path: PathLike | None) -> None:
        super().__init__()
        self.batch = batch
        self.path = None if path is None else Path(path)
        self._before: dict[str, np.ndarray] = {}
        self._transformer: Transformer | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        if not hasattr(self.model, "gradients"):
            raise ValueError(
                "`LayerDiagnostics` needs a model from `training.training_model`. "
                f"Received: {self.model}"
            )
        # After a resume, the weights at the time of the last row are unknown.
        self._before = {} if self.first_step else self._weights()
        try:
            self._transformer = Transformer.of(self.model)
        except ValueError:  # a model with different layers
            self._transformer = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        rows = self.rows()
        if self.path is None:
            return
        with writing(self.path), open(self.path, "ab", buffering=0) as file:
            if file.tell() == 0:
                write_all(file, (",".join(COLUMNS) + "\n").encode())
            lines = (",".join(str(row.get(name, "")) for name in COLUMNS) for row in rows)
            write_all(file, "".join(line + "\n" for line in lines).encode())

    def rows(self) -> list[dict[str, Any]]:
        """Measure and return a record per part, with the `COLUMNS` that apply to the part."""
        gradients = self._gradients()
        entropies = self._entropies()
        now, before = self._weights(), self._before
        self._before = now
        rows = []
        for part, weights in now.items():
            numbers = {
                "weight_norm": _norm(weights),
                "gradient_norm": _norm(gradients[part]),
            }
            if part in before:
                change = _norm(weights - before[part])
                numbers["update"] = change / max(_norm(before[part]), 1e-30)
            if part in entropies:
                heads = entropies[part]
                numbers["attention_entropy"] = heads.mean()
                numbers["lowest_head_entropy"] = heads.min()
            formatted = {name: f"{value:.6g}" for name, value in numbers.items()}
            rows.append({"step": self.step, "part": part, **formatted})
        return rows

    def _weights(self) -> dict[str, np.ndarray]:
        """Copy the weights of each part into a float64 vector."""
        return {name: _vector(weights) for name, weights in model_parts(self.model).items()}

    def _gradients(self) -> dict[str, np.ndarray]:
        found = self.model.gradients(self.batch)
        of = {
            id(weight): np.zeros(weight.shape) if gradient is None else gradient
            for weight, gradient in zip(self.model.trainable_weights, found, strict=True)
        }
        return {
            name: _vector([of[id(weight)] for weight in weights])
            for name, weights in model_parts(self.model).items()
        }

    def _entropies(self) -> dict[str, np.ndarray]:
        """Return the relative entropy of each head, by part: (num_heads,)."""
        model = self._transformer
        if model is None:
            return {}
        inputs, _, target_weights = keras.utils.unpack_x_y_sample_weight(self.batch)
        source_ids = inputs.get("source_ids")
        scores = model.attention_scores(
            None if source_ids is None else ops.convert_to_tensor(source_ids),
            ops.convert_to_tensor(inputs["token_ids" if source_ids is None else "target_ids"]),
        )
        targets = np.asarray(target_weights) > 0
        found: dict[str, np.ndarray] = {}
        sources = np.asarray(source_ids) != model.padding_id  # unused for a language model
        for layer, weights in zip(model.encoder_layers, scores.encoder, strict=True):
            band = _band(layer, weights, is_causal=False)
            found[f"{layer.name}.attention"] = relative_entropies(
                weights, sources, band & sources[:, None, :]
            )
        for layer, weights in zip(model.decoder_layers, scores.decoder, strict=False):
            band = _band(layer, weights, is_causal=True)
            found[f"{layer.name}.self_attention"] = relative_entropies(weights, targets, band)
        for layer, weights in zip(model.decoder_layers, scores.cross, strict=False):
            found[f"{layer.name}.cross_attention"] = relative_entropies(
                weights, targets, sources[:, None, :]
            )
        return found


def relative_entropies(
    weights: Tensor | np.ndarray, is_real: np.ndarray, is_visible: np.ndarray
) -> np.ndarray:
    """Measure how widely each head spreads its attention, from 0 (one position) to 1 (uniform).

    Args:
        weights: (batch, num_heads, rows, columns); each row sums to 1.
        is_real: boolean (batch, rows); True for rows to include.
        is_visible: boolean, broadcastable to (batch, rows, columns); True if the masks allow
            weights above 0.

    Returns:
        float64 (num_heads,): the entropy of a row divided by the entropy of equal weights on the
        visible columns, averaged over real rows with at least two visible columns, or 0 without
        such rows.
    """
    weights = np.asarray(ops.convert_to_numpy(weights), "float64")
    entropies = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=-1)
    visible = np.broadcast_to(is_visible, (len(weights), *weights.shape[2:])).sum(axis=-1)
    counts = (is_real & (visible > 1))[:, None, :]
    most = np.log(np.maximum(visible, 2))[:, None, :]
    totals = np.where(counts, entropies / most, 0).sum(axis=(0, 2))
    return totals / max(counts.sum(), 1)


def _band(layer: Any, weights: Tensor, *, is_causal: bool) -> np.ndarray:
    """Return a mask of the positions visible to self-attention: (1, length, length)."""
    length = weights.shape[-1]
    size = layer.attention_window or 2 * length + 1
    return ops.convert_to_numpy(Window.of(size, is_causal=is_causal).band(length))


def _vector(arrays: list[Any]) -> np.ndarray:
    parts = [np.asarray(ops.convert_to_numpy(array), "float64").ravel() for array in arrays]
    return np.concatenate(parts)


def _norm(vector: np.ndarray) -> float:
    return float(np.linalg.norm(vector))


# Names of the sublayers in an encoder or decoder layer, in forward-pass order.
_SUBLAYERS = (
    "attention",
    "attention_block",
    "self_attention",
    "ssru",
    "self_attention_block",
    "cross_attention",
    "cross_attention_block",
    "feed_forward",
    "feed_forward_block",
)


def model_parts(model: keras.Model) -> dict[str, list[keras.Variable]]:
    """Group the trainable weights by part: embeddings, sublayers and layer normalizations.

    Args:
        model: a new or reloaded model from `build_transformer` or `build_language_model`. The parts
            of any other functional model are its layers.

    Returns:
        Lists of variables in forward-pass order, keyed by names such as
        "decoder_layer_2.cross_attention". The normalization of a sublayer is named after the
        sublayer with the suffix "_norm". Each trainable weight belongs to one part.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = build_transformer("tiny", vocabulary_size=100, num_encoder_layers=1)
        >>> list(model_parts(model))[:4]  # doctest: +NORMALIZE_WHITESPACE
        ['embedding', 'encoder_layer_1.attention', 'encoder_layer_1.attention_norm',
         'encoder_layer_1.feed_forward']
    """
    parts: dict[str, list[keras.Variable]] = {}
    for layer in model.layers:
        sublayers = {f"{layer.name}.{_part(name)}": part for name, part in _sublayers(layer)}
        for name, part in (sublayers or {layer.name: layer}).items():
            if part.trainable_weights:
                parts[name] = list(part.trainable_weights)
    return parts


def _sublayers(layer: keras.layers.Layer) -> list[tuple[str, Any]]:
    found = [(name, getattr(layer, name, None)) for name in _SUBLAYERS]
    return [(name, part) for name, part in found if isinstance(part, keras.layers.Layer)]


def _part(name: str) -> str:
    return name.removesuffix("_block") + "_norm" if name.endswith("_block") else name
