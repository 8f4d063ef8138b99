"""One layer of the decoder."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.layers.attention_masks import as_attention_mask, mask_axes
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and feed-forward network, each in a residual block.

    Without `memory`, it is a layer of a decoder-only model, such as a language model, and has no
    cross-attention. The first call decides between the two.

    `call` takes whole target sequences; `step` takes one position and a cache, with the same
    result. Padding at the end of a target row needs no mask: earlier positions never see it.

    Args:
        intermediate_dim: inner size of the feed-forward network.
        num_heads: number of attention heads.
        **options: the other arguments of `TransformerLayer`, such as `dropout`.

    Call arguments:
        inputs: tensor (batch, target_length, hidden_dim).
        memory: tensor (batch, source_length, memory_dim), the encoder's output, or None.
        mask: mask of the self-attention; boolean tensor, True = may be attended to: padding
            (batch, target_length), or attention (batch, target_length, target_length) or (batch,
            num_heads, target_length, target_length), as `attention_mask` of `MultiHeadAttention`.
            None: only the causal mask and the inputs' Keras mask apply. A given mask applies
            together with them.
        inputs_mask: the inputs' Keras mask, under the name that Keras gives it if there is a
            memory.
        memory_mask: mask of the cross-attention; boolean tensor: padding (batch, source_length), or
            attention (batch, target_length, source_length) or (batch, num_heads, target_length,
            source_length), as in `mask`. None: only the memory's Keras mask applies.
        return_attention_scores: whether to return the attention weights too.
        training: whether dropout is active.
        use_causal_mask: whether a position attends only to itself and earlier positions.

    Returns:
        Tensor (batch, target_length, hidden_dim) with the inputs' Keras mask. With
        `return_attention_scores`, a tuple: this tensor; the self-attention's weights before
        dropout, float32 (batch, num_heads, target_length, target_length); and, with a memory, the
        cross-attention's weights, float32 (batch, num_heads, target_length, source_length).

    Raises:
        ValueError: an argument breaks its rule, `inputs` or `memory` is not of rank 3, a mask has a
            wrong shape, or a layer that was built with a memory is called without one, or vice
            versa.

    Example:
        >>> import numpy as np
        >>> x, memory = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
        >>> layer = TransformerDecoderLayer(intermediate_dim=16, num_heads=2)
        >>> tuple(layer(x, memory).shape)
        (1, 3, 8)
        >>> tuple(TransformerDecoderLayer(intermediate_dim=16, num_heads=2)(x).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1; Radford et al. (2018) for decoder-only models;
        Takase et al. (2023) for B2T.
    """

    def build(self, inputs_shape: Shape, memory_shape: Shape | None = None) -> None:
        self.self_attention = self.create_attention("self_attention", inputs_shape)
        self.self_attention_block = self.create_block("self_attention_block")
        self.cross_attention: Any = None
        if memory_shape is not None:
            self.cross_attention = self.create_attention(
                "cross_attention", inputs_shape, to_itself=False
            )
            self.cross_attention_block = self.create_block("cross_attention_block")
            self.cross_attention.build(inputs_shape, memory_shape)
            self.cross_attention_block.build(inputs_shape)
        for layer in (
            self.self_attention,
            self.self_attention_block,
            self.feed_forward,
            self.feed_forward_block,
        ):
            layer.build(inputs_shape)
        self.finish_build()

    def call(
        self,
        inputs: Tensor,
        memory: Tensor = None,
        *,
        mask: Tensor = None,
        inputs_mask: Tensor = None,
        memory_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = True,
    ) -> Tensor:
        self._check_built_for(memory)
        mask = inputs_mask if mask is None else mask
        mask = as_attention_mask("mask", mask, self.scores_shape(inputs))
        memory_mask = as_attention_mask(
            "memory_mask", memory_mask, self.scores_shape(inputs, memory)
        )
        options = {"return_attention_scores": return_attention_scores, "training": training}
        outputs, self_scores, cross_scores = self._run(
            inputs,
            lambda x: self.self_attention(
                x, attention_mask=mask, use_causal_mask=use_causal_mask, **options
            ),
            lambda x: self.cross_attention(x, memory, attention_mask=memory_mask, **options),
            training,
        )
        if not return_attention_scores:
            return outputs
        # Keras does not allow None among the outputs of a layer in a functional model.
        return (outputs, self_scores) if memory is None else (outputs, self_scores, cross_scores)

    def step(
        self,
        inputs: Tensor,
        index: Tensor,
        memory: Any,
        memory_mask: Tensor,
        cache: Any,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """One position of every beam.

        Args:
            inputs: tensor (batch, beams, hidden_dim), the position's inputs.
            index: scalar integer tensor, the position, counted from 0.
            memory: keys and values from `project_memory`, one per sentence, not per beam; None
                for a layer without memory.
            memory_mask: boolean tensor (batch, source_length) or (batch, 1, source_length), or
                None.
            cache: the self-attention's cache, from `start_cache`.
            mask: mask of the cache's entries, as in `MultiHeadAttention.step`.

        Returns:
            outputs: tensor (batch, beams, hidden_dim).
            cache: the given cache with this position written.
        """
        self._check_built_for(memory)
        outputs, cache, _ = self._run(
            inputs,
            lambda x: self.self_attention.step(x, cache, index, mask),
            lambda x: self.cross_attention.attend_memory(x, memory, memory_mask),
            training=False,
        )
        return outputs, cache

    def _run(
        self,
        inputs: Tensor,
        attend_self: Callable[[Tensor], Any],
        attend_memory: Callable[[Tensor], Any],
        training: bool | None,
    ) -> tuple[Tensor, Any, Any]:
        """The outputs, and what each attention returns besides its own outputs."""
        hidden, of_self = self.in_block(self.self_attention_block, inputs, attend_self, training)
        of_memory = None
        if self.cross_attention is not None:
            hidden, of_memory = self.in_block(
                self.cross_attention_block, hidden, attend_memory, training
            )
        return self.feed(hidden, inputs, training), of_self, of_memory

    def start_cache(
        self, batch_size: Tensor, beam_size: Tensor, length: Tensor, *, grows: bool = False
    ) -> Any:
        """An empty self-attention cache; see `MultiHeadAttention.start_cache`."""
        if not self.built:
            raise ValueError(
                f"`{self.name}` must be called, or loaded, before it takes steps. Received: a "
                "layer without weights"
            )
        return self.self_attention.start_cache(batch_size, beam_size, length, grows=grows)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor] | None:
        """The memory's keys and values, for `step`; None for None.

        See `MultiHeadAttention.project_memory`.
        """
        self._check_built_for(memory)
        return None if memory is None else self.cross_attention.project_memory(memory)

    def _check_built_for(self, memory: Any) -> None:
        if self.built and (memory is None) != (self.cross_attention is None):
            built, called = "with", "without"
            if self.cross_attention is None:
                built, called = called, built
            raise ValueError(
                f"`{self.name}` was built {built} `memory`; this cannot change. "
                f"Received: a call {called} `memory`"
            )

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Tensor = None,
        *,
        mask: Tensor = None,
        memory_mask: Tensor = None,
        return_attention_scores: bool = False,
        **_: Any,
    ) -> Any:
        self._check_built_for(memory)
        shape, memory_shape = self.scores_shape(inputs), self.scores_shape(inputs, memory)
        mask_axes("mask", mask, shape)
        mask_axes("memory_mask", memory_mask, memory_shape)
        outputs = keras.KerasTensor(inputs.shape, self.compute_dtype)
        if not return_attention_scores:
            return outputs
        shapes = [shape] if memory is None else [shape, memory_shape]
        return outputs, *(keras.KerasTensor(shape, "float32") for shape in shapes)
