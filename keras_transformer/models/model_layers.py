"""The layers of a Transformer by role, and the decoder's cache.

All cache classes share these methods:

- `begin_step(shape, index)` returns the cache at position `index`, where all hypotheses of `shape`,
  (batch, beams), write next, and the mask of the entries that each hypothesis may attend to, in
  the form that `MultiHeadAttention.step` accepts;
- `rows()` returns the layers' caches in the form that `TransformerDecoderLayer.step` accepts;
- `with_rows(layers)` returns the cache with the layers' caches replaced after a step;
- `reorder(parents)` returns the cache for the next hypotheses; see `beam_search`.
"""

import dataclasses
import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from keras_transformer.decoding.sentence_loop import reorder
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.layers import (
    PaddingMask,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.alignment_head import AlignmentHead
from keras_transformer.layers.dense import KERNEL_OPTIONS
from keras_transformer.layers.key_value_cache import History, ancestor_mask, start_history
from keras_transformer.layers.positions import PositionsInAttention, positions_class
from keras_transformer.layers.sublayers import RecurrentState
from keras_transformer.models.model_options import (
    RESIDUAL_CONNECTIONS,
    ModelOptions,
    residual_options,
)
from keras_transformer.types import Tensor

# Options that layers accept under the same names.
_OF_BOTH = ("dropout", "dtype")
_OF_EMBEDDINGS = ("hidden_dim", "positions", "max_length", "word_dropout")
_OF_TARGET = ("vocabulary_size", "tie_weights", "use_logits_bias", "zero_id")  # its embedding
_OF_LAYERS = tuple(
    field.name
    for field in dataclasses.fields(ModelOptions)
    if field.name in inspect.signature(TransformerEncoderLayer.__init__).parameters
    and field.name not in (*_OF_BOTH, *_OF_EMBEDDINGS)
)
# Layer options that are not model options.
_OF_ONES_OWN = (
    *(name for name in KERNEL_OPTIONS if name not in _OF_LAYERS),
    *("embeddings_regularizer", "embeddings_constraint", "seed"),
)


class ModelLayers(NamedTuple):
    """The layers of a Transformer, by role.

    Args:
        target_embedding: `PositionalEmbedding` for the target and the logits; the same layer as
            `source_embedding` if the vocabulary is shared.
        decoder_layers: list of `TransformerDecoderLayer`, called without memory if there is no
            encoder.
        decoder_norm, encoder_norm: layer normalization after each stack, or None.
        source_mask: `PaddingMask` for the source; None without an encoder.
        source_embedding: `PositionalEmbedding` for the source; None without an encoder.
        encoder_layers: list of `TransformerEncoderLayer`.
        alignment_head: `AlignmentHead`, or None.
    """

    target_embedding: PositionalEmbedding
    decoder_layers: list[TransformerDecoderLayer]
    decoder_norm: Any = None
    source_mask: Any = None
    source_embedding: Any = None
    encoder_layers: Any = ()
    encoder_norm: Any = None
    alignment_head: Any = None

    @classmethod
    def create(
        cls, options: ModelOptions, states: Mapping[str, dict[str, Any]] | None = None
    ) -> "ModelLayers":
        """Create new layers.

        Args:
            options: options of the model.
            states: additional layer arguments by layer name, as in `layer_states`.
        """

        def new(layer_class: Any, name: str, **own: Any) -> Any:
            return layer_class(**own, **(states or {}).get(name, {}), name=name)

        def embedding(name: str, **own: Any) -> PositionalEmbedding:
            shared = _select(options, (*_OF_EMBEDDINGS, *_OF_BOTH))
            return new(PositionalEmbedding, name, **shared, **own)

        def stack(side: str, layer_class: Any, number: int, own: dict[str, Any]) -> list[Any]:
            shared = {**_select(options, (*_OF_LAYERS, *_OF_BOTH)), **own}
            shared["positions"] = _in_attention(options.positions)
            return [new(layer_class, f"{side}_layer_{n + 1}", **shared) for n in range(number)]

        def final_norm(side: str) -> Any:
            if not options.final_norm:
                return None
            epsilon, name = options.layer_norm_epsilon, f"{side}_norm"
            norm = keras.layers.LayerNormalization
            return new(norm, name, epsilon=epsilon, dtype=options.dtype)

        of_encoder, of_decoder = residual_options(
            options.residual_connection, options.num_encoder_layers, options.num_decoder_layers
        )
        of_decoder["decoder_unit"] = options.decoder_unit
        of_target = {"word_starts": options.target_word_starts, **_select(options, _OF_TARGET)}
        number = options.num_decoder_layers
        if options.is_causal:
            target = embedding("embedding", mask_id=options.padding_id, **of_target)
            layers = stack("decoder", TransformerDecoderLayer, number, of_decoder)
            return cls(target, layers, final_norm("decoder"))
        positions_class(options.positions).check_sides(
            options.source_vocabulary_size, options.source_word_starts, options.target_word_starts
        )
        mask = new(
            PaddingMask,
            "source_mask",
            padding_id=options.padding_id,
            hidden_id=options.hidden_source_id,
        )
        if options.source_vocabulary_size is None:
            source = target = embedding("embedding", num_tables=2, **of_target)
        else:
            size, starts = options.source_vocabulary_size, options.source_word_starts
            source = embedding("source_embedding", vocabulary_size=size, word_starts=starts)
            target = embedding("target_embedding", **of_target)
        encoder = stack("encoder", TransformerEncoderLayer, options.num_encoder_layers, of_encoder)
        decoder = stack("decoder", TransformerDecoderLayer, number, of_decoder)
        norm = final_norm("encoder")
        found = cls(target, decoder, final_norm("decoder"), mask, source, encoder, norm)
        if options.alignment_layer is None:
            return found
        return found.with_alignment_head(options, **(states or {}).get("alignment_head", {}))

    def with_alignment_head(self, options: ModelOptions, **state: Any) -> "ModelLayers":
        """Return the layers with a new alignment head for `options.alignment_layer`."""
        names = ("alignment_layer", "alignment_head", "layer_norm_epsilon", "dtype")
        own = {"key_dim": options.hidden_dim, **_select(options, names), **state}
        return self._replace(alignment_head=AlignmentHead(**own, name="alignment_head"))

    @classmethod
    def of(cls, model: keras.Model) -> "ModelLayers":
        """Find the layers of a functional model by name.

        Raises:
            ValueError: the model does not have these layers.
        """
        by_name = {layer.name: layer for layer in model.layers}

        def stack(side: str) -> list[Any]:
            names = (f"{side}_layer_{number}" for number in itertools.count(1))
            return [by_name[name] for name in itertools.takewhile(by_name.__contains__, names)]

        shared = by_name.get("embedding")
        target = shared or by_name.get("target_embedding")
        found = cls(target, stack("decoder"), by_name.get("decoder_norm"))  # type: ignore[arg-type]
        if "source_mask" in by_name:
            found = found._replace(
                source_mask=by_name["source_mask"],
                source_embedding=shared or by_name.get("source_embedding"),
                encoder_layers=stack("encoder"),
                encoder_norm=by_name.get("encoder_norm"),
                alignment_head=by_name.get("alignment_head"),
            )
        names = {layer.name for layer in found.all()}
        others = [
            name
            for name, layer in by_name.items()
            if name not in names and not isinstance(layer, keras.layers.InputLayer)
        ]
        if others or None in (found.target_embedding, *found.decoder_layers[:1]):
            raise UserInputError(
                "`model` must come from `build_transformer` or `build_language_model`. Received: a "
                f"model with the layers {list(by_name)}"
            )
        return found

    def all(self) -> list[keras.layers.Layer]:
        """Return each layer exactly once."""
        layers = [layer for layer in keras.tree.flatten(tuple(self)) if layer is not None]
        return list({id(layer): layer for layer in layers}.values())

    def options(self, name: str) -> ModelOptions:
        """Return the options with which `create` would create equivalent layers.

        Args:
            name: name of the model.

        Raises:
            ValueError: the layers differ in an option that must be the same for all layers, or use
                an option that `ModelOptions` does not support.
        """
        target = self.target_embedding
        source = None if self.source_embedding is target else self.source_embedding
        embeddings = [each.get_config() for each in (target, source) if each is not None]
        encoder, decoder = (
            [layer.get_config() for layer in stack]
            for stack in (self.encoder_layers, self.decoder_layers)
        )
        for config in embeddings + encoder + decoder:
            for other in _OF_ONES_OWN:
                if config.get(other) is not None:
                    refuse(other, "be None: models have no such option", config[other])
        in_layers = _common("positions", encoder + decoder)
        if in_layers != _in_attention(target.positions):
            rule = "be the same for embeddings and layers"
            refuse("positions", rule, target.positions, in_layers=in_layers)
        norms = [self.decoder_norm] + ([self.encoder_norm] if encoder else [])
        of_layers = {name: _common(name, encoder + decoder) for name in _OF_LAYERS}
        for norm in norms:
            if (norm is None) != (norms[0] is None):
                rule = "be the same for both stacks"
                refuse("final_norm", rule, decoder_norm=norms[0], encoder_norm=norms[-1])
            if norm is not None and norm.epsilon != of_layers["layer_norm_epsilon"]:
                epsilon, rule = of_layers["layer_norm_epsilon"], "be the same for all layers"
                refuse("layer_norm_epsilon", rule, epsilon, **{norm.name: norm.epsilon})
        return ModelOptions(
            **of_layers,
            decoder_unit=_common("decoder_unit", decoder),
            **{name: _common(name, embeddings) for name in _OF_EMBEDDINGS},
            **{name: _common(name, embeddings + encoder + decoder) for name in _OF_BOTH},
            **_select(target, _OF_TARGET),
            **_select_or_none(self.alignment_head, ("alignment_layer", "alignment_head")),
            source_vocabulary_size=None if source is None else source.vocabulary_size,
            source_word_starts=None if source is None else source.word_starts,
            target_word_starts=target.word_starts,
            final_norm=self.decoder_norm is not None,
            num_encoder_layers=len(encoder),
            num_decoder_layers=len(decoder),
            residual_connection=_residual_connection(encoder, decoder),
            padding_id=self.source_mask.padding_id if encoder else target.mask_id,
            hidden_source_id=self.source_mask.hidden_id if encoder else None,
            name=name,
        )


def layer_states(model: keras.Model) -> dict[str, dict[str, Any]]:
    """Return the changes to a model's layers since creation (freezing and quantization)."""
    states = {}
    for layer in model.layers:
        config = layer.get_config()
        state = {name: config[name] for name in ("quantized", "frozen") if config.get(name)}
        if not layer.trainable:
            state["trainable"] = False
        if state and layer.weights:
            states[layer.name] = state
    return states


def _select(owner: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(owner, name) for name in names}


def _select_or_none(owner: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return dict.fromkeys(names) if owner is None else _select(owner, names)


def _in_attention(positions: str) -> str | None:
    """Return the `positions` argument of a stack's layers; None if embeddings add positions."""
    return positions if issubclass(positions_class(positions), PositionsInAttention) else None


def _common(option: str, configs: list[dict[str, Any]]) -> Any:
    """Return the value of an option, which must be the same for all layers."""
    values = [config[option] for config in configs]
    for value in values:
        if isinstance(value, dict):
            value.pop("shared_object_id", None)  # an object id, present while Keras saves a model
    if any(value != values[0] for value in values):
        refuse(option, "be the same for all layers", values)
    return values[0]


def _residual_connection(encoder: list[dict[str, Any]], decoder: list[dict[str, Any]]) -> str:
    """Return the type of the layers' residual connections."""
    plain = {"residual_scale": 1.0, "initial_gain": 1.0, "b2t_connection": False}
    forms = [form for form in RESIDUAL_CONNECTIONS if encoder or form != "encoder_deepnorm"]
    found = [{name: config[name] for name in plain} for config in encoder + decoder]
    for form in forms:
        of_encoder, of_decoder = residual_options(form, len(encoder), len(decoder))
        expected = [{**plain, **of_encoder}] * len(encoder) + [{**plain, **of_decoder}] * len(
            decoder
        )
        if found == expected:
            return form
    raise ValueError(
        "`residual_scale`, `initial_gain` and `b2t_connection` must match a "
        f"`residual_connection`: {', '.join(forms)}. Received: {found}"[:500]
    )


# In a shared cache, each hypothesis scores the entries of all hypotheses for its sentence. With
# larger beams, each hypothesis has its own cache, which the search reorders.
MOST_SHARING = 8


class IndependentCache(NamedTuple):
    """A cache with one row per hypothesis. Hypotheses never replace each other."""

    layers: list[Any]  # `KeyValueCache` objects with batch * beams rows

    def begin_step(self, shape: Any, index: Tensor) -> tuple["IndependentCache", None]:
        return self, None

    def rows(self) -> list[Any]:
        return self.layers

    def with_rows(self, layers: list[Any]) -> "IndependentCache":
        return IndependentCache(layers)

    def reorder(self, parents: Tensor) -> "IndependentCache":
        return self


class SharedCache(NamedTuple):
    """A cache with one row per sentence. Reordering changes only which entries a hypothesis sees.

    Recurrent states are not shared between hypotheses, so they are reordered too.
    """

    ancestors: History  # int32 (batch, beams, length)
    layers: list[Any]  # `KeyValueCache` objects with batch rows, or `RecurrentState` objects

    def begin_step(self, shape: Any, index: Tensor) -> tuple["SharedCache", Tensor]:
        own = ops.broadcast_to(ops.arange(shape[1], dtype="int32"), shape)
        ancestors = self.ancestors.write(own, index)
        return self._replace(ancestors=ancestors), ancestor_mask(ancestors)

    def rows(self) -> list[Any]:
        return self.layers

    def with_rows(self, layers: list[Any]) -> "SharedCache":
        return self._replace(layers=layers)

    def reorder(self, parents: Tensor) -> "SharedCache":
        layers = [
            reorder(layer, parents) if isinstance(layer, RecurrentState) else layer
            for layer in self.layers
        ]
        return self._replace(ancestors=reorder(self.ancestors, parents), layers=layers)


class ReorderedCache(NamedTuple):
    """A cache with one row per hypothesis, which inherits its parent's entries."""

    layers: list[Any]  # `KeyValueCache` objects with arrays (batch, beams, ...)

    def begin_step(self, shape: Any, index: Tensor) -> tuple["ReorderedCache", None]:
        return self, None

    def rows(self) -> list[Any]:
        return keras.tree.map_structure(
            lambda values: ops.reshape(values, (-1, *ops.shape(values)[2:])), self.layers
        )

    def with_rows(self, layers: list[Any]) -> "ReorderedCache":
        shape = ops.shape(keras.tree.flatten(self.layers)[0])[:2]
        return ReorderedCache(_by_sentence(layers, shape))

    def reorder(self, parents: Tensor) -> "ReorderedCache":
        return ReorderedCache(reorder(self.layers, parents))


DecoderCache: TypeAlias = IndependentCache | SharedCache | ReorderedCache


def start_decoder_cache(
    layers: Sequence[TransformerDecoderLayer],
    batch_size: Tensor,
    beam_size: Tensor,
    length: Tensor,
    *,
    grows: bool,
    independent: bool,
) -> DecoderCache:
    """Create an empty cache.

    Args:
        layers: layers of the decoder.
        batch_size, beam_size, length, grows: as in `MultiHeadAttention.start_cache`.
        independent: whether hypotheses never replace each other.
    """

    def start(rows: Tensor, beams: Tensor) -> list[Any]:
        return [layer.start_cache(rows, beams, length, grows=grows) for layer in layers]

    known_size = beam_size if isinstance(beam_size, int) else None
    if independent or known_size == 1:
        return IndependentCache(start(batch_size * beam_size, 1))
    if known_size is not None and known_size > MOST_SHARING:
        own = start(batch_size * beam_size, 1)
        return ReorderedCache(_by_sentence(own, (batch_size, beam_size)))
    ancestors = start_history((batch_size, beam_size), length, "int32", grows=grows)
    return SharedCache(ancestors, start(batch_size, beam_size))


def _by_sentence(layers: list[Any], shape: Any) -> list[Any]:
    """Reshape cache arrays (batch * beams, ...) to (batch, beams, ...); `shape`: (batch, beams)."""
    return keras.tree.map_structure(
        lambda values: ops.reshape(values, (*shape, *ops.shape(values)[1:])), layers
    )
