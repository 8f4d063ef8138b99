"""The `Transformer`, a functional Keras model that exposes its layers and its forward pass."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import keras
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.decoding.next_tokens import NEVER
from keras_transformer.decoding.sequence_generator import SequenceGenerator, stepwise
from keras_transformer.errors import refuse
from keras_transformer.layers import PaddingMask, PositionalEmbedding, TransformerDecoderLayer
from keras_transformer.layers.attention_masks import (
    same_segment,
    segments_by_end,
    segments_by_start,
)
from keras_transformer.layers.key_value_cache import unknown_zero
from keras_transformer.losses import TokenModel
from keras_transformer.models.model_layers import ModelLayers, layer_states, start_decoder_cache
from keras_transformer.models.model_options import ModelOptions
from keras_transformer.search_options import SearchKeywords, SearchOptions, takes_search_options
from keras_transformer.types import SpecialTokens, Tensor


class AttentionScores(NamedTuple):
    """Attention weights before dropout, with one float32 tensor per layer.

    Args:
        encoder: encoder self-attention, (batch, num_heads, source_length, source_length); empty for
            a language model.
        decoder: decoder self-attention, (batch, num_heads, target_length, target_length); empty for
            a decoder with SSRUs.
        cross: cross-attention, (batch, num_heads, target_length, source_length); empty for a
            language model.
        alignment: the alignment head, (batch, 1, target_length, source_length); empty without one.
    """

    encoder: list[Tensor]
    decoder: list[Tensor]
    cross: list[Tensor]
    alignment: Sequence[Tensor] = ()


class StepWeights(NamedTuple):
    """Matrices used in every step of a decoding loop."""

    cast: list[tuple[keras.Variable, Tensor]]  # variables and their values in the compute dtype
    output_matrix: Tensor  # (hidden_dim, logits), in the layout that matmul expects
    logit_tokens: Tensor | None = None  # (logits,), the token of each logit; None means all tokens

    def in_place(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager in which the variables have their cast values."""
        if not self.cast:
            return contextlib.nullcontext()
        scope = keras.StatelessScope()
        for update in self.cast:
            scope.add_update(update)  # Keras casts a `state_mapping` to the variables' dtypes
        return scope


@keras.saving.register_keras_serializable("keras_transformer")
class Transformer(TokenModel):
    """A Transformer as a functional `keras.Model`; without an encoder, a language model.

    `build_transformer` and `build_language_model` build one with a preset's sizes. The model maps
    int32 `{"source_ids": (batch, source_length), "target_ids": (batch, target_length)}`, or for a
    language model `{"token_ids": (batch, length)}`, to float32 logits (batch, target_length,
    vocabulary_size); position i predicts token i + 1. Saving, loading and cloning use the
    model's options. Frozen and quantized layers stay frozen and quantized.

    Args:
        inputs: `ModelOptions`, or layers by role. `of` and Keras instead pass the inputs of a graph
            of these layers, along with its `outputs` and a name, as for any functional model.
        states: additional layer arguments, as in `get_config`.

    Attributes:
        options: `ModelOptions` of the model.
        target_embedding: `PositionalEmbedding` for the target and the logits.
        decoder_layers, decoder_norm: list of `TransformerDecoderLayer`, and the layer normalization
            after them or None.
        source_mask, source_embedding: `PaddingMask` and `PositionalEmbedding` for the source; None
            for a language model. The embedding is `target_embedding` if the vocabulary is shared.
        encoder_layers, encoder_norm: list of `TransformerEncoderLayer`, empty for a language model,
            and the layer normalization after them or None.
        alignment_head: `AlignmentHead` for word alignments, or None.

    Raises:
        ValueError: the options contradict each other.
        UserInputError: the weights do not fit in this machine's memory.

    Example:
        >>> from keras_transformer.models import ModelOptions
        >>> model = Transformer(ModelOptions.of("tiny", vocabulary_size=20))
        >>> model.options.hidden_dim, len(model.encoder_layers)
        (128, 4)
        >>> ids, scores = model.generate([[7, 8, 9, 2], [7, 8, 2, 0]], extra_length=5)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))
    """

    source_mask: Any
    source_embedding: Any
    target_embedding: PositionalEmbedding
    encoder_layers: Sequence[Any]
    decoder_layers: Sequence[TransformerDecoderLayer]
    encoder_norm: Any
    decoder_norm: Any
    alignment_head: Any
    _generator: SequenceGenerator | None = None

    # `keras.models.clone_model` keeps the class of a model only if its arguments have these names.
    def __init__(
        self,
        inputs: Any,
        outputs: Any = None,
        name: str | None = None,
        *,
        states: Mapping[str, dict[str, Any]] | None = None,
        trainable: bool = True,
    ) -> None:
        own = self.__dict__  # bypasses Keras, which tracks layers through the graph
        if outputs is not None:
            super().__init__(inputs=inputs, outputs=outputs, name=name, trainable=trainable)
            own.update(ModelLayers.of(self)._asdict())
            return

        # Layers
        layers = inputs
        if not isinstance(inputs, (ModelOptions, ModelLayers)):
            refuse("options", "be `ModelOptions`", inputs)
        if isinstance(inputs, ModelOptions):
            inputs.check_fits()
            layers = ModelLayers.create(inputs, states)
            own["options"], name = inputs, inputs.name
        own.update(layers._asdict())

        # Graph
        ids = self._symbolic_ids()
        logits = self.logits(ids.get("source_ids"), list(ids.values())[-1])
        super().__init__(inputs=ids, outputs=logits, name=name)

    @classmethod
    def of(cls, model: keras.Model) -> "Transformer":
        """Return a functional model with a Transformer's layers as a `Transformer`.

        Args:
            model: a `Transformer`, which is returned unchanged, or a model with the same layers,
                found by name, such as a model from `training.training_model` or from a file that
                specifies Keras's `Functional` class.

        Returns:
            A `Transformer` with the layers, graph and weights of `model`.

        Raises:
            ValueError: the model does not have the layers of a `Transformer`.
        """
        if isinstance(model, cls):
            return model
        if not isinstance(model, keras.Model):
            refuse("model", "be a Keras model", model)
        ModelLayers.of(model)  # rejects other models, which may lack a graph
        return cls(model.input, model.output, name=model.name)

    @classmethod
    def from_layers(
        cls,
        target_embedding: PositionalEmbedding,
        decoder_layers: Sequence[TransformerDecoderLayer],
        decoder_norm: Any = None,
        *,
        source_mask: Any = None,
        source_embedding: Any = None,
        encoder_layers: Sequence[Any] = (),
        encoder_norm: Any = None,
        name: str = "transformer",
    ) -> "Transformer":
        """Create a model from your own layers, which it shares with other models that contain them.

        Args:
            target_embedding, decoder_layers, decoder_norm: see the attributes; without an encoder,
                the layers are called without memory.
            source_embedding, encoder_layers, encoder_norm: see the attributes; omit them for a
                language model.
            source_mask: see the attributes. Defaults to masking `source_embedding.mask_id`.
            name: name of the model.

        Returns:
            A `Transformer` that supports `generate`. It has `options` if they fully describe its
            layers. It can be saved if it has `options`, or if its layers have the same names as
            in `build_transformer`.

        Raises:
            ValueError: the embedding, a decoder layer or a normalization has the wrong class, the
                encoder is incomplete, or the padding id is missing.

        Example:
            >>> from keras_transformer.layers import TransformerEncoderLayer
            >>> embedding = PositionalEmbedding(vocabulary_size=10, hidden_dim=4)
            >>> layer = TransformerDecoderLayer(intermediate_dim=8, num_heads=2)
            >>> model = Transformer.from_layers(embedding, [layer])
            >>> tuple(model({"token_ids": ops.convert_to_tensor([[1, 2, 3]])}).shape)
            (1, 3, 10)

        With an encoder that shares the embedding:

            >>> embedding = PositionalEmbedding(vocabulary_size=10, hidden_dim=4, mask_id=0)
            >>> model = Transformer.from_layers(
            ...     embedding,
            ...     [TransformerDecoderLayer(intermediate_dim=8, num_heads=2)],
            ...     source_embedding=embedding,
            ...     encoder_layers=[TransformerEncoderLayer(intermediate_dim=8, num_heads=2)],
            ... )
            >>> ids, scores = model.generate([[5, 6, 2], [7, 2, 0]], beam_size=1, extra_length=3)
            >>> tuple(ids.shape)
            (2, 1, 6)
        """
        if not isinstance(target_embedding, PositionalEmbedding):
            refuse("target_embedding", "be a `PositionalEmbedding`", target_embedding)
        others = [e for e in decoder_layers if not isinstance(e, TransformerDecoderLayer)]
        if others or not decoder_layers:
            refuse("decoder_layers", "be one or more `TransformerDecoderLayer`", decoder_layers)
        for role, norm in (("decoder_norm", decoder_norm), ("encoder_norm", encoder_norm)):
            if norm is not None and not isinstance(norm, keras.layers.Layer):
                refuse(role, "be a layer, such as `keras.layers.LayerNormalization`, or None", norm)
        if (source_embedding is None) == bool(encoder_layers):
            rule = "be given together with `encoder_layers`"
            refuse("source_embedding", rule, source_embedding, encoder_layers=encoder_layers)
        for role, layer in (("source_mask", source_mask), ("encoder_norm", encoder_norm)):
            if source_embedding is None and layer is not None:
                refuse(role, "be None without an encoder", layer)
        if source_embedding is not None and source_mask is None:
            padding_id = getattr(source_embedding, "mask_id", None)
            if padding_id is None:
                rule = "be given, or `mask_id` of `source_embedding`, to define the padding"
                refuse("source_mask", rule, None)
            source_mask = PaddingMask(padding_id=padding_id, name="source_mask")
        layers = ModelLayers(
            target_embedding,
            list(decoder_layers),
            decoder_norm,
            source_mask,
            source_embedding,
            encoder_layers,
            encoder_norm,
        )
        return cls(layers, name=name)

    @functools.cached_property
    def options(self) -> ModelOptions:
        """The options of the model. Raises a ValueError if options cannot describe the model."""
        layers = {name: getattr(self, name) for name in ModelLayers._fields}
        return ModelLayers(**layers).options(self.name)

    @property
    def is_causal(self) -> bool:
        """Whether this is a language model, which has only a decoder."""
        return self.source_mask is None

    @property
    def dtype_policy(self) -> keras.DTypePolicy:
        """The layers' dtype policy, which `compile` uses to decide whether to scale the loss."""
        return self.target_embedding.dtype_policy

    @property
    def hidden_dim(self) -> int:
        """The width of the model."""
        return self.target_embedding.hidden_dim

    @property
    def padding_id(self) -> int | None:
        """The padding id of source rows; for a language model, the masked id or None."""
        return self.target_embedding.mask_id if self.is_causal else self.source_mask.padding_id

    @property
    def vocabulary_size(self) -> int:
        """Number of target tokens, which is the size of the logits."""
        return self.target_embedding.vocabulary_size

    @property
    def source_vocabulary_size(self) -> int:
        """Size of the source vocabulary, or of the prompt vocabulary."""
        return (self.source_embedding or self.target_embedding).vocabulary_size

    @property
    def max_length(self) -> int | None:
        """Maximum length of a sequence, or None if it is unlimited."""
        return self.target_embedding.kind.limit

    def rematerialized_call(self, layer_call: Any, *args: Any, **kwargs: Any) -> Any:
        """Return `layer_call` unchanged: `keras.RematScope` recomputes each layer separately."""
        return layer_call

    def encode(self, source_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Run the forward pass through the encoder.

        Args:
            source_ids: integer tensor (batch, source_length), padded.

        Returns:
            memory: tensor (batch, source_length, hidden_dim).
            memory_mask: boolean tensor (batch, 1, source_length), True at real tokens.
        """
        return self._encode(source_ids)

    def decode(
        self, target_ids: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Run the forward pass through the decoder over full sequences.

        Args:
            target_ids: integer tensor (batch, target_length), starting with BOS.
            memory, memory_mask: from `encode`; None for a language model.

        Returns:
            float32 logits (batch, target_length, vocabulary_size); position i predicts token i + 1.
        """
        return self._to_logits(self._hidden(target_ids, memory, memory_mask))

    def logits(self, source_ids: Tensor | None, target_ids: Tensor) -> Tensor:
        """Same as `decode`, but from ids on both sides; `source_ids` is None for a language model.

        Raises:
            ValueError: `source_ids` is given to a language model.
        """
        if not self.is_causal:
            return self.decode(target_ids, *self.encode(source_ids))
        if source_ids is not None:
            raise ValueError(
                "`source_ids` must be None for a model without an encoder. "
                f"Received: source_ids {_received(source_ids)}"
            )
        return self.decode(target_ids)

    def packed(self, special_tokens: SpecialTokens | None = None) -> keras.Model:
        """Return a model with the same layers for packed rows of several sentence pairs.

        Use it for training and evaluation with batches that have a fixed shape and little padding,
        such as from `data.plan_batches(..., packing=True)`. Attention is limited to each pair, and
        positions restart in each pair. The logits are the same as with each pair in its own row.

        Args:
            special_tokens: `SpecialTokens` of the tokenizers. Sources end with EOS, and targets
                start with BOS. Defaults to the default ids.

        Returns:
            A functional model with the same inputs, outputs and weights as this one.

        Example:
            >>> import numpy as np
            >>> from keras_transformer.models import build_transformer
            >>> packed = build_transformer("tiny", vocabulary_size=10).packed()
            >>> source_ids = np.array([[5, 6, 2, 7, 2, 0]])  # "5 6" and "7"
            >>> target_ids = np.array([[1, 8, 1, 8, 9, 0]])  # "8" and "8 9"
            >>> tuple(packed({"source_ids": source_ids, "target_ids": target_ids}).shape)
            (1, 6, 10)
        """
        tokens = special_tokens or SpecialTokens()
        ids = self._symbolic_ids()
        target_ids = list(ids.values())[-1]
        targets = segments_by_start(target_ids, tokens.bos)
        memory = memory_mask = None
        if not self.is_causal:
            sources = segments_by_end(ids["source_ids"], tokens.eos)
            memory, mask = self._encode(ids["source_ids"], segments=sources)
            memory_mask = ops.logical_and(mask, same_segment(targets, sources))
        hidden = self._hidden(target_ids, memory, memory_mask, segments=targets)
        packed = keras.Model(ids, self._to_logits(hidden), name=self.name)
        packed.packed_tokens = tokens  # compared with the batches' tokens by `TrainingRun`
        return packed

    def guided(self, weight: float) -> keras.Model:
        """Return a model with the same layers whose loss includes word alignments.

        Args:
            weight: factor of the alignment loss.

        Returns:
            A functional model with the same outputs and weights, and another input: `links`,
            float32 (batch, target_length, source_length), from batches with `data.WordLinks`. The
            cross-entropy between the links and the alignment head is added to the loss.

        Raises:
            ValueError: the model has no alignment head with weights of its own.

        Reference: Garg et al., "Jointly Learning to Align and Translate with Transformer Models",
        2019.
        """
        head = self.alignment_head
        if head is None or head.alignment_head is not None:
            rule = "be set, without `alignment_head`, for guided training"
            layer = None if head is None else head.alignment_layer
            refuse("alignment_layer", rule, layer)
        ids = self._symbolic_ids()
        links = keras.Input((None, None), dtype="float32", name="links")
        memory, memory_mask = self.encode(ids["source_ids"])
        hidden = self._hidden(ids["target_ids"], memory, memory_mask, links=weight * links)
        return keras.Model({**ids, "links": links}, self._to_logits(hidden), name=self.name)

    def cross_attention(
        self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None
    ) -> Tensor:
        """Return how much each target position attends to each source position.

        Args:
            source_ids: integer tensor (batch, source_length), padded.
            target_ids: integer tensor (batch, target_length), starting with BOS.
            layer: zero-based index of the decoder layer. Defaults to the model's alignment head;
                without one, to the second-to-last layer, or the only layer.

        Returns:
            float32 tensor (batch, target_length, source_length), averaged over the heads; each row
            sums to 1. The row at position i is for token i + 1, as in the logits. An alignment head
            also sees this token.

        Raises:
            ValueError: `layer` is not less than the number of decoder layers, or the model has no
                encoder.

        Reference: Garg et al., "Jointly Learning to Align and Translate with Transformer Models",
        2019, section 3, for the second-to-last layer.
        """
        if self.is_causal:
            raise ValueError(
                "A model without an encoder has no attention to a source. "
                f"Received: source_ids {_received(source_ids)}"
            )
        if layer is None and self.alignment_head is not None:
            return self._alignment(target_ids, *self.encode(source_ids))
        num_layers = len(self.decoder_layers)
        layer = max(num_layers - 2, 0) if layer is None else layer
        check_non_negative_int("layer", layer)
        if layer >= num_layers:
            refuse("layer", f"be less than the decoder's {num_layers}", layer)
        scores = self._cross_attention(layer, target_ids, *self.encode(source_ids))
        return ops.mean(scores, axis=1)

    def attention_scores(self, source_ids: Tensor | None, target_ids: Tensor) -> AttentionScores:
        """Return the attention weights for a batch, from the same forward pass as the logits.

        Args:
            source_ids: integer tensor (batch, source_length), padded; None for a language model.
            target_ids: integer tensor (batch, target_length), starting with BOS.

        Returns:
            The `AttentionScores` of the batch.

        Raises:
            ValueError: the model has an encoder, but `source_ids` is None.
        """
        encoder: list[Any] = []
        decoder: list[Any] = []
        if self.is_causal:
            if self.options.decoder_unit == "attention":
                self._hidden(target_ids, None, None, decoder)
            return AttentionScores([], [scores for (scores,) in decoder], [])
        if source_ids is None:
            refuse("source_ids", "be given for a model with an encoder", None)
        memory, memory_mask = self._encode(source_ids, encoder)
        self._hidden(target_ids, memory, memory_mask, decoder)
        own = [scores for *both, _ in decoder for scores in both]
        cross = [scores for *_, scores in decoder]
        alignment = []
        if self.alignment_head is not None:
            weights = self._alignment(target_ids, memory, memory_mask)
            alignment.append(ops.expand_dims(weights, axis=1))
        return AttentionScores([scores for (scores,) in encoder], own, cross, alignment)

    def start(
        self, source_ids: Tensor, *, beam_size: Any, length: Any, independent: bool = False
    ) -> tuple[tuple[Any, ...], Any]:
        """Encode the sources and return the initial state of stepwise decoding.

        Args:
            source_ids: integer tensor (batch, source_length), padded; for a language model, the
                prompts, of which only the batch size is used.
            beam_size: int or scalar tensor, the number of hypotheses per sentence.
            length: int or scalar tensor, the number of positions that fit in the cache; None for a
                growing cache (see `layers.key_value_cache`).
            independent: whether hypotheses never replace each other, as in sampling.

        Returns:
            memory_state: constant state per sentence: the mask and every layer's projected memory;
                empty for a language model.
            cache: the embedding's counters and the `DecoderCache`; reorder both of them with the
                hypotheses.
        """
        memory_state: tuple[Any, ...] = ()
        if not self.is_causal:
            memory, memory_mask = self.encode(source_ids)
            projected = [layer.project_memory(memory) for layer in self.decoder_layers]
            memory_state = (memory_mask, projected)
        batch_size, grows = ops.shape(source_ids)[0], length is None
        counts = self.target_embedding.start_cache(batch_size, beam_size)
        cache = start_decoder_cache(
            self.decoder_layers,
            batch_size,
            beam_size,
            unknown_zero(source_ids) if grows else length,
            grows=grows,
            independent=independent,
        )
        return memory_state, (counts, cache)

    def step_weights(
        self, logit_tokens: Tensor | None = None, *, cast_layers: bool = True
    ) -> StepWeights:
        """Return the matrices for `step`. Call this once before a decoding loop.

        Args:
            logit_tokens: int32 (logits,), the tokens whose logits `step` computes, or None for all.
            cast_layers: whether to cast the layers' matrices in addition to the logits matrix.

        Raises:
            ValueError: `logit_tokens` are given, but the logits matrix is quantized.
        """
        cast = [
            (variable, ops.cast(variable, layer.compute_dtype))
            for layer in self.decoder_layers
            for variable in layer.variables
            if cast_layers
            and len(variable.shape) == 2
            and keras.backend.is_float_dtype(variable.dtype)
            and variable.dtype != layer.compute_dtype
        ]
        matrix = self.target_embedding.token_embedding.output_matrix(logit_tokens)
        return StepWeights(cast, matrix, logit_tokens)

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        memory_state: tuple[Any, ...],
        cache: Any,
        weights: StepWeights | None = None,
        is_candidate: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Run the decoder at one position for every hypothesis.

        Args:
            token_ids: integer tensor (batch, beam_size), the tokens at position `index`.
            index: scalar integer tensor, the zero-based position; BOS is at position 0.
            memory_state, cache: state from `start` or from the previous step.
            weights: result of `step_weights`, shared by all steps; computed here if None.
            is_candidate: bool tensor (batch, logits), the logits allowed for each sentence; all
                other logits become -inf. None allows all logits.

        Returns:
            logits: float32 tensor (batch, beam_size, logits) for position `index + 1`, for all
                tokens or for the tokens in `weights`.
            cache: the given cache, updated with this position.
        """
        memory_mask, memories = memory_state or (None, [None] * len(self.decoder_layers))
        counts, layer_caches = cache
        hidden, counts = self.target_embedding.step(
            token_ids, index, counts, table=self._target_table
        )
        layer_caches, mask = layer_caches.begin_step(ops.shape(token_ids), index)
        rows = []
        with weights.in_place() if weights else contextlib.nullcontext():
            for layer, memory, row in zip(
                self.decoder_layers, memories, layer_caches.rows(), strict=True
            ):
                hidden, row = layer.step(hidden, index, memory, memory_mask, row, mask)
                rows.append(row)
        logits = self._to_logits(hidden, *(weights[1:] if weights else ()))
        if is_candidate is not None:
            logits = ops.where(ops.expand_dims(is_candidate, 1), logits, NEVER)
        return logits, (counts, layer_caches.with_rows(rows))

    @takes_search_options()
    def generate(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        special_tokens: SpecialTokens | None = None,
        vocabulary_size: int | None = None,
        **options: Unpack[SearchKeywords],
    ) -> tuple[Tensor, Tensor]:
        """Return the best outputs for each source, or for each prompt of a language model.

        The search is compiled on the first call, as in `SequenceGenerator`, which also supports
        sampling and constraints. The model caches the compiled search until the special tokens or
        `vocabulary_size` change.

        Args:
            source_ids: integer tensor (batch, source_length) with tokens, EOS and padding. For a
                language model, the prompts, (batch, prompt_length), with tokens and padding.
            prefix_ids: integer tensor (batch, prefix_length) with the tokens that outputs must
                start with, and padding, or None. A language model does not accept a prefix.
            special_tokens: `SpecialTokens` of the tokenizer that the model was trained with.
                Defaults to the default ids.
            vocabulary_size: number of target tokens, if the model's vocabulary is padded.
            **options: fields of `SearchOptions`, such as `beam_size`, `alpha` and `extra_length`.
                `max_source_length` has no effect.

        Returns:
            A tuple `(ids, scores)`, sorted best first: int32 (batch, num_results, length) with EOS
            and padding, and float32 (batch, num_results). See `SequenceGenerator.search`.

        Raises:
            ValueError: see `SequenceGenerator`.

        Example:
            >>> from keras_transformer.models import build_language_model
            >>> model = build_language_model("tiny", vocabulary_size=20)
            >>> ids, _ = model.generate([[7, 8, 9]], beam_size=1, extra_length=5)
            >>> [int(token) for token in ids[0, 0, :3]]
            [7, 8, 9]
        """
        tokens = special_tokens or SpecialTokens()
        kept = self._generator
        if kept is None or (kept.special_tokens, kept.vocabulary_size) != (tokens, vocabulary_size):
            kept = self._generator = SequenceGenerator(self, tokens, vocabulary_size)
        return kept.search(source_ids, prefix_ids, options=SearchOptions(**options))

    def get_config(self) -> dict[str, Any]:
        try:
            options = self.options.to_config()
        except ValueError as error:  # Keras then saves the layers, which are found by name
            try:
                ModelLayers.of(self)
            except ValueError:
                raise error from None
            return super().get_config()
        states = layer_states(self)
        return {**options, **({"layers": states} if states else {})}

    def get_compile_config(self) -> dict[str, Any]:
        """Same as in Keras, but empty if the model has adapters, which are merged when it is saved.

        The saved optimizer contains the moments of the adapters.
        """
        has_adapters = any(getattr(each, "lora_enabled", False) for each in self._flatten_layers())
        return {} if has_adapters else super().get_compile_config()

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "Transformer":
        if "input_layers" in config:
            return super().from_config(config, custom_objects)
        options = ModelOptions(**{name: v for name, v in config.items() if name != "layers"})
        return cls(options, states=config.get("layers"))

    @property
    def _target_table(self) -> int:
        """The index of the embedding's table for the target, which is the last table."""
        return self.target_embedding.num_tables - 1

    def _symbolic_ids(self) -> dict[str, keras.KerasTensor]:
        """Create the inputs of a graph, by name. The last or only input is for the target."""
        names = ["token_ids"] if self.is_causal else ["source_ids", "target_ids"]
        return {name: keras.Input((None,), dtype="int32", name=name) for name in names}

    def _encode(
        self,
        source_ids: Tensor,
        scores: list[Any] | None = None,
        segments: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        mask = allowed = self.source_mask(source_ids)
        if segments is not None:
            allowed = ops.logical_and(mask, same_segment(segments, segments))
        options = {} if segments is None else {"segments": segments}  # custom layers may lack it
        hidden = self.source_embedding(source_ids, **options)
        hidden = _through(self.encoder_layers, hidden, scores=scores, mask=allowed)
        return self.encoder_norm(hidden) if self.encoder_norm else hidden, mask

    def _hidden(
        self,
        target_ids: Tensor,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        scores: list[Any] | None = None,
        *,
        num_layers: int | None = None,
        segments: Tensor | None = None,
        links: Tensor | None = None,
    ) -> Tensor:
        """Return the output of the decoder's layers, or of the first `num_layers` layers."""
        mask = None if segments is None else same_segment(segments, segments)
        hidden = self.target_embedding(target_ids, table=self._target_table, segments=segments)
        layers, masks = self.decoder_layers[:num_layers], {"mask": mask, "memory_mask": memory_mask}
        head = self.alignment_head if num_layers is None else None
        place = 0 if head is None else head.alignment_layer
        hidden = _through(layers[:place], hidden, memory, scores=scores, **masks)
        if head is not None:
            hidden = head(hidden, memory, memory_mask=memory_mask, links=links)
        return _through(layers[place:], hidden, memory, scores=scores, **masks)

    def _cross_attention(
        self, layer: int, target_ids: Tensor, memory: Tensor, memory_mask: Tensor
    ) -> Tensor:
        """Return a layer's cross-attention (batch, heads, target_length, source_length)."""
        hidden = self._hidden(target_ids, memory, memory_mask, num_layers=layer)
        *_, scores = self.decoder_layers[layer](
            hidden, memory, memory_mask=memory_mask, return_attention_scores=True
        )
        return scores

    def _alignment(self, target_ids: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Return the alignment head's attention, in the rows of `cross_attention`."""
        head, number = self.alignment_head, self.alignment_head.alignment_layer
        if head.alignment_head is not None:
            scores = self._cross_attention(number - 1, target_ids, memory, memory_mask)
            return scores[:, head.alignment_head - 1]
        hidden = self._hidden(target_ids, memory, memory_mask, num_layers=number)
        weights = head.attend(hidden, memory, memory_mask)
        # The row of the last token's successor, EOS, is read at the last token.
        return ops.concatenate([weights[:, 1:], weights[:, -1:]], axis=1)

    def _to_logits(
        self,
        hidden: Tensor,
        output_matrix: Tensor | None = None,
        logit_tokens: Tensor | None = None,
    ) -> Tensor:
        if self.decoder_norm:
            hidden = self.decoder_norm(hidden)
        if output_matrix is None:
            return self.target_embedding(hidden, reverse=True)
        embedding = self.target_embedding.token_embedding
        return embedding.logits(hidden, output_matrix, logit_tokens)


stepwise.register(keras.Model, Transformer.of)


def _through(
    layers: Sequence[Any], hidden: Tensor, *inputs: Any, scores: list[Any] | None, **masks: Any
) -> Tensor:
    """Apply layers one after another. Append their attention weights to `scores` if given."""
    for layer in layers:
        if scores is None:
            hidden = layer(hidden, *inputs, **masks)
        else:
            hidden, *found = layer(hidden, *inputs, return_attention_scores=True, **masks)
            scores.append(found)
    return hidden


def _received(ids: Tensor | None) -> str:
    return "None" if ids is None else f"of shape {tuple(ops.convert_to_tensor(ids).shape)}"
