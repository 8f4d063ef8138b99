"""Attention weights of every layer and head for a source and its translation."""

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int, check_one_of
from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError, refuse
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.row_generator import pad_ids
from keras_transformer.inference.translator import Translator
from keras_transformer.models import Transformer
from keras_transformer.parsing import Tree, clean
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import Tensor

Kind: TypeAlias = Literal["encoder", "decoder", "cross", "alignment"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross", "alignment")
_BYTE = 255


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionMaps:
    """The attention weights of a model for one sentence pair. Every row of a map sums to 1.

    Args:
        source_tokens: the S source tokens: pieces, then EOS.
        target_tokens: the T decoder inputs: BOS, then pieces.
        output_tokens: the T tokens that the decoder should predict at each position: pieces, then
            EOS.
        encoder: encoder self-attention, float32 (layers, heads, S, S).
        decoder: decoder self-attention, float32 (layers, heads, T, T).
        cross: attention to the encoder output, float32 (layers, heads, T, S).
        alignment: the alignment head of a model with guided alignment, float32 (1, 1, T, S);
            otherwise empty, as is the attention that a language model does not have.

    Each row contains the attention from one position to all positions: `cross[layer, head, i, j]`
    is the weight of source token j when `output_tokens[i]` is predicted.

    Example:
        >>> weights = np.array([[[[0.5, 0.5], [0.0, 1.0]]]], "float32")  # one layer, one head
        >>> maps = AttentionMaps(
        ...     ["▁a", "</s>"], ["<s>", "▁b"], ["▁b", "</s>"], weights, weights, weights
        ... )
        >>> maps.entropies("cross").round(3), maps.mean_distances("cross")
        (array([[0.347]]), array([[0.25]]))
    """

    source_tokens: list[str]
    target_tokens: list[str]
    output_tokens: list[str]
    encoder: np.ndarray
    decoder: np.ndarray
    cross: np.ndarray
    alignment: np.ndarray = dataclasses.field(default_factory=lambda: _weights([], 0, 0))

    @property
    def kinds(self) -> list[Kind]:
        """The kinds of attention in the model. For a language model, only "decoder"."""
        return [kind for kind in KINDS if getattr(self, kind).size]

    def weights(self, kind: Kind) -> np.ndarray:
        """Return the attention map of a kind, such as "cross"; see the class.

        Raises:
            ValueError: `kind` is unknown.
            UserInputError: the model lacks this kind of attention.
        """
        check_one_of("kind", kind, KINDS)
        if kind not in self.kinds:
            refuse("kind", f"be a kind of attention in the model, one of {self.kinds}", kind)
        return getattr(self, kind)

    def entropies(self, kind: Kind) -> np.ndarray:
        """Measure how widely each head spreads its attention.

        Args:
            kind: "encoder", "decoder", "cross" or "alignment".

        Returns:
            float64 (layers, heads): the entropy of a row in nats, averaged over the rows; 0 if each
            row puts all its weight on one position.
        """
        weights = self.weights(kind).astype("float64")
        logarithms = np.log(np.where(weights > 0, weights, 1))
        return -(weights * logarithms).sum(axis=-1).mean(axis=-1)

    def mean_distances(self, kind: Kind) -> np.ndarray:
        """Measure the mean attention distance of each head.

        Args:
            kind: "encoder", "decoder", "cross" or "alignment".

        Returns:
            float64 (layers, heads): |i - j| in tokens for row i and column j, weighted by the
            attention in a row and averaged over the rows.
        """
        weights = self.weights(kind).astype("float64")
        rows, columns = np.indices(weights.shape[-2:])
        return (weights * abs(rows - columns)).sum(axis=-1).mean(axis=-1)

    def to_json(self) -> dict[str, Any]:
        """Convert the maps to JSON-compatible values, for the HTML page and the JSON API.

        Returns:
            The lists of tokens by name, and "maps", with an entry for each kind of attention in the
            model: "layers", "heads", "rows" and "columns" are the sizes. "weights" is base64 with
            one byte per weight, in this order of axes: `round(255 * sqrt(weight))`, which keeps two
            digits of small weights. "entropies" and "mean_distances" are (layers, heads).
        """
        return {
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "output_tokens": list(self.output_tokens),
            "maps": {kind: self._map(kind) for kind in self.kinds},
        }

    def _map(self, kind: Kind) -> dict[str, Any]:
        weights = self.weights(kind)
        layers, heads, rows, columns = weights.shape
        levels = np.rint(_BYTE * np.sqrt(weights.clip(0, 1))).astype("uint8")
        return {
            "layers": layers,
            "heads": heads,
            "rows": rows,
            "columns": columns,
            "weights": base64.b64encode(levels.tobytes()).decode("ascii"),
            "entropies": self.entropies(kind).round(4).tolist(),
            "mean_distances": self.mean_distances(kind).round(4).tolist(),
        }


def attention_maps(
    translator: "Translator | Parser", source: str, target: str | None = None, *, index: int = 0
) -> AttentionMaps:
    """Compute the attention of every layer and head for one sentence pair.

    The weights come from the same layers and forward pass as the model's probabilities.

    Args:
        translator: a `Translator` or `Parser`.
        source: the source sentence.
        target: the translation, or a bracketed tree for a parser; defaults to the best search
            result, with the tokens found by the search. (For a parser, the tree may be repaired and
            is encoded again.)
        index: index of the model in an ensemble, counted from 0.

    Returns:
        The `AttentionMaps` of the pair.

    Raises:
        UserInputError: `index` is out of range, `target` is not a tree, a sentence is too long, or
            the model produces values that are not finite.

    Example:

    ```python
    maps = attention_maps(Translator.load("runs/en_de"), "A small house.")
    maps.cross.shape  # (6, 8, 6, 5): layers, heads, output tokens, source tokens
    ```
    """
    models = [translator.model] if isinstance(translator, Parser) else translator.models
    check_index("index", index, len(models))
    rows: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
    if isinstance(translator, Parser):
        trees = translator.parse([source]) if target is None else [_tree(target)]
        rows = translator.encode_pairs([source], trees)
    elif target is None:
        rows = translator.translate_ids([source])
    else:
        rows = translator.encode_pairs([source], [target])
    (source_row,), (target_row,) = rows
    source_ids = [*source_row, translator.source_tokenizer.special_tokens.eos]
    source_tokens = translator.source_tokenizer.pieces(source_ids)
    return _maps(models[index], translator.tokenizer, target_row, source_ids, source_tokens)


def text_attention_maps(
    model: keras.Model, tokenizer: SentencePieceTokenizer, text: str
) -> AttentionMaps:
    """Compute the attention of every layer and head of a language model for a text.

    Args:
        model: a model from `build_language_model`, or a reloaded model.
        tokenizer: the tokenizer used to train the model.
        text: the input text.

    Returns:
        The `AttentionMaps` of the text, with decoder attention only.

    Raises:
        ValueError: the model is not a language model.
        UserInputError: the text is too long, or the model produces values that are not finite.

    Example:
        >>> from keras_transformer.models import build_language_model
        >>> tokenizer = SentencePieceTokenizer.train(["a small house"], vocabulary_size=20)
        >>> model = build_language_model("tiny", vocabulary_size=20, num_decoder_layers=1)
        >>> maps = text_attention_maps(model, tokenizer, "a house")
        >>> maps.kinds, maps.decoder.shape[:2], maps.target_tokens[0]
        (['decoder'], (1, 4), '<s>')
    """
    transformer = Transformer.of(model)
    if not transformer.is_causal:
        refuse("model", "be a language model, without an encoder", transformer.name)
    (row,) = tokenizer.encode([text])
    positions = transformer.max_length
    if positions is not None and len(row) >= positions:
        raise UserInputError(
            f"`text` must fit into the model's {positions} positions, BOS counted. "
            f"Received: {len(row)} tokens"
        )
    return _maps(model, tokenizer, row)


def check_index(name: str, index: int, count: int) -> None:
    """Require a valid index into `count` layers, heads or models."""
    check_non_negative_int(name, index)
    if index >= count:
        refuse(name, f"be less than {count}", index)


def _tree(text: str) -> Tree | None:
    """Read a tree from text and remove function tags and traces, as in parser training."""
    try:
        return clean(Tree.fromstring(text))
    except ValueError as error:
        raise UserInputError(f"`target` must be a bracketed tree: {error}") from error


def _maps(
    model: keras.Model,
    tokenizer: SentencePieceTokenizer,
    row: Sequence[int],
    source_ids: Sequence[int] | None = None,
    source_tokens: Sequence[str] = (),
) -> AttentionMaps:
    """Compute the maps of a model for a row of ids, with a source if the model has an encoder."""
    special = tokenizer.special_tokens
    target_ids, output_ids = [special.bos, *row], [*row, special.eos]
    transformer = Transformer.of(model)

    def padded(ids: Sequence[int]) -> Tensor:
        return ops.convert_to_tensor(pad_ids([ids], special.pad, transformer.max_length))

    source = None if source_ids is None else padded(source_ids)
    scores = transformer.attention_scores(source, padded(target_ids))
    sources, targets = len(source_ids or ()), len(target_ids)
    arrays = (
        _weights(scores.encoder, sources, sources),
        _weights(scores.decoder, targets, targets),
        _weights(scores.cross, targets, sources),
        _weights(scores.alignment, targets, sources),
    )
    if not all(np.isfinite(weights).all() for weights in arrays):
        raise UserInputError(f"The {SCORES_NOT_FINITE}")
    pieces = tokenizer.pieces
    return AttentionMaps(list(source_tokens), pieces(target_ids), pieces(output_ids), *arrays)


def _weights(layers: Sequence[Tensor], rows: int, columns: int) -> np.ndarray:
    """Stack one kind of attention over all layers, without padding: (layers, heads, rows, columns).

    Without layers, the result has the shape (0, 0, 0, 0).
    """
    if not layers:
        return np.zeros((0, 0, 0, 0), "float32")
    found = np.stack([ops.convert_to_numpy(scores)[0] for scores in layers])
    return np.ascontiguousarray(found[:, :, :rows, :columns], dtype="float32")
