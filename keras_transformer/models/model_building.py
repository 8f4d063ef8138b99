"""Functions that build models and split them across devices."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import keras

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.errors import refuse
from keras_transformer.models.model_layers import ModelLayers
from keras_transformer.models.model_options import ModelKeywords, ModelOptions, TransformerKeywords
from keras_transformer.models.transformer import Transformer


def build_transformer(preset: str = "base", **options: Unpack[TransformerKeywords]) -> Transformer:
    """Build a Transformer as a functional Keras model.

    Args:
        preset: name of a model size: "tiny", "small", "base", "big" or a row of the paper's
            Table 3, such as "C-N2"; see `keras_transformer.models.PRESETS`. It sets the sizes,
            `dropout` and `positions` that are missing or None.
        vocabulary_size: number of tokens, shared by source, target and output.
        **options: other fields of `ModelOptions`, such as `dropout` and `positions`.

    Returns:
        A `Transformer`, a functional `keras.Model` that maps int32 `{"source_ids": (batch,
        source_length), "target_ids": (batch, target_length)}` to float32 logits (batch,
        target_length, vocabulary_size).

    Raises:
        ValueError: the preset is unknown, or a value is invalid.
        UserInputError: the weights do not fit in this machine's memory.

    Example:
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> model.count_params()
        1331712
        >>> ids, scores = model.generate([[7, 8, 2]], beam_size=2, extra_length=5)
        >>> tuple(ids.shape)
        (1, 2, 8)

    Reference: Vaswani et al. (2017), section 3. Residual connections: Wang et al., "DeepNet:
        Scaling Transformers to 1,000 Layers", 2022; Takase et al., "B2T Connection: Serving
        Stability and Performance in Deep Transformers", 2023.
    """
    return Transformer(_with_encoder(preset, **options))


def build_language_model(
    preset: str = "base",
    *,
    word_starts: Sequence[int] | None = None,
    mask_id: int | None = None,
    name: str = "language_model",
    **options: Unpack[ModelKeywords],
) -> Transformer:
    """Build a causal language model as a functional Keras model.

    The model is a decoder-only Transformer: a stack of `TransformerDecoderLayer` without memory.
    Both its `generate` method and `SequenceGenerator` continue prompts.

    Args:
        vocabulary_size: number of tokens.
        num_decoder_layers: number of layers. Defaults to the preset's number of decoder layers.
        word_starts: with `positions="words"`, the ids that start a word (see
            `PositionalEmbedding`).
        mask_id: padding id, such as 0, for which the logits carry a Keras mask, so Keras's own
            losses and metrics skip padding. (This package's losses and metrics use `padding_id`.)
            It must not be the BOS id, which would then be hidden. If None, there is no mask;
            padding at the end of a row does not change the logits of earlier tokens.
        preset: as in `build_transformer`.
        name: name of the model.
        **options: fields of `ModelOptions`, except those for the encoder and the source.

    Returns:
        A `Transformer`, a functional `keras.Model` that maps int32 `{"token_ids": (batch, length)}`
        to float32 logits (batch, length, vocabulary_size); position i predicts token i + 1.

    Raises:
        ValueError: the preset is unknown, or a value is invalid.
        UserInputError: the weights do not fit in this machine's memory.

    Example:
        >>> import numpy as np
        >>> model = build_language_model("tiny", vocabulary_size=100)
        >>> tuple(model({"token_ids": np.array([[1, 7, 8]])}).shape)
        (1, 3, 100)

    Reference: Radford et al., "Improving Language Understanding by Generative Pre-Training", 2018.
    """
    return Transformer(
        ModelOptions.of(
            preset,
            num_encoder_layers=0,
            target_word_starts=word_starts,
            padding_id=mask_id,
            name=name,
            **options,
        )
    )


def with_alignment_head(
    model: keras.Model, alignment_layer: int | None = None, alignment_head: int | None = None
) -> Transformer:
    """Return a model with an alignment head, which shares all other layers.

    Args:
        model: a model from `build_transformer`. If it has a separate alignment head, the head is
            kept.
        alignment_layer, alignment_head: as in `ModelOptions`. By default, the head is separate and
            reads the last decoder layer but one, or the only layer.

    Raises:
        ValueError: the model has no encoder, no such decoder layer, or a head for another layer.

    Example:
        >>> model = build_transformer("tiny", vocabulary_size=100)
        >>> with_alignment_head(model).options.alignment_layer
        3
    """
    transformer = Transformer.of(model)
    options = transformer.options
    head = options.alignment_layer
    if head is not None and options.alignment_head is None:
        if alignment_layer not in (None, head):
            refuse("alignment_layer", f"be {head}, as in the model", alignment_layer)
        return transformer
    number = max(options.num_decoder_layers - 1, 1) if alignment_layer is None else alignment_layer
    options = dataclasses.replace(options, alignment_layer=number, alignment_head=alignment_head)
    return Transformer(ModelLayers.of(transformer).with_alignment_head(options), name=model.name)


def check_model_fits(
    preset: str = "base", *, copies: int = 1, **options: Unpack[TransformerKeywords]
) -> ModelOptions:
    """Reject sizes that `build_transformer` would reject, without building a model.

    Args:
        preset, **options: as in `build_transformer`.
        copies: number of copies of the weights in memory, such as 4 for training with Adam.

    Returns:
        The `ModelOptions` of the model.

    Raises:
        ValueError, UserInputError: see `build_transformer`.

    Example:
        >>> check_model_fits("base", vocabulary_size=32_000, num_encoder_layers=2000)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: A model must have at most 1,000 layers in a stack.
        Received: 2,000
    """
    completed = _with_encoder(preset, **options)
    completed.check_fits(copies)
    return completed


def _with_encoder(preset: str, **options: Unpack[TransformerKeywords]) -> ModelOptions:
    completed = ModelOptions.of(preset, **options)
    check_positive_int("num_encoder_layers", completed.num_encoder_layers)
    return completed


def padded_vocabulary_size(size: int, multiple: int = 8) -> int:
    """Return the smallest multiple of `multiple` that is at least `size`, the number of tokens.

    Matrix units of GPUs and CPUs are fastest with multiples of 8. Use the padded size for the
    model; the tokenizer keeps its own size, and the ids beyond it are unused. Pass the tokenizer's
    size as `vocabulary_size` to the loss and to the search, so that the loss assigns no smoothing
    to these ids and the search never produces them.

    Args:
        size: integer, number of tokens in the tokenizer.
        multiple: integer that divides the padded size.

    Returns:
        An integer from `size` to `size + multiple - 1`.

    Raises:
        ValueError: an argument is not a positive integer.

    Example:
        >>> padded_vocabulary_size(32_003), padded_vocabulary_size(32_000)
        (32008, 32000)
    """
    check_positive_int("size", size)
    check_positive_int("multiple", multiple)
    return -(-size // multiple) * multiple


class VocabularyOptions(TypedDict):
    """Arguments of `build_transformer` that depend on the tokenizers."""

    vocabulary_size: int
    source_vocabulary_size: NotRequired[int]
    padding_id: int


def vocabulary_options(source_tokenizer: Any, tokenizer: Any) -> VocabularyOptions:
    """Return the arguments of `build_transformer` that depend on the two tokenizers.

    Args:
        source_tokenizer, tokenizer: source and target tokenizers, with `vocabulary_size` and
            `special_tokens`; the same object if they share a vocabulary.
    """
    options: VocabularyOptions = {
        "vocabulary_size": padded_vocabulary_size(tokenizer.vocabulary_size),
        "padding_id": tokenizer.special_tokens.pad,
    }
    if source_tokenizer is not tokenizer:
        size = padded_vocabulary_size(source_tokenizer.vocabulary_size)
        options["source_vocabulary_size"] = size
    return options


# The axis along which a weight is split, by layer and weight name. The first matrices of attention
# and of the feed-forward network are split by columns and the second matrices by rows, so
# intermediate results stay on their device.
_COLUMNS = ("query_key_value", "query", "key_value", "key", "value", "expand")
_ROWS = ("output", "contract")
_SPLIT_AXES = {
    **{f"{layer}/kernel": 1 for layer in _COLUMNS},
    **{f"{layer}/bias": 0 for layer in _COLUMNS},
    **{f"{layer}/kernel": 0 for layer in _ROWS},
    "token_embedding/matrix": 0,
    "token_embedding/reverse_matrix": 1,
    "token_embedding/logits_bias": 0,
}


def layout_map(
    model: keras.Model,
    device_mesh: keras.distribution.DeviceMesh,
    model_parallel_dim_name: str = "model",
) -> keras.distribution.LayoutMap:
    """Return the layouts for splitting a model with `keras.distribution.ModelParallel` on JAX.

    Weights are split as in Megatron-LM: the query, key and value projections and the first
    feed-forward matrix by columns, along with their biases; the attention output projection and the
    second feed-forward matrix by rows; embeddings and logits by tokens. Optimizers split their
    moments in the same way. The result is the same as on one device, up to rounding.

    A weight is replicated on every device if its size is not a multiple of the number of devices on
    the axis, since JAX splits weights into equal parts. For embeddings, `padded_vocabulary_size`
    returns a suitable size. Biases after row-split matrices, normalizations and learned positions
    are also replicated, because they are small.

    Keras places each weight when it is created. After you set the distribution, build the model
    again with the same arguments or with `keras.models.clone_model`.

    Args:
        model: a model from `build_transformer` or `build_language_model`. Only the paths and shapes
            of its weights are read; the model is not changed.
        device_mesh: mesh of the devices. `ModelParallel` handles the batch axis.
        model_parallel_dim_name: name of the mesh axis along which weights are split.

    Returns:
        A `keras.distribution.LayoutMap`, keyed by the paths of the weights that are split.

    Raises:
        ValueError: the backend is not JAX, the mesh has no such axis, or no weight of the model can
            be split.

    Example:
        ```python
        mesh = keras.distribution.DeviceMesh((2, 4), ("batch", "model"))  # 8 devices
        model = build_transformer("big", vocabulary_size=32_000)
        layouts = layout_map(model, mesh)
        keras.distribution.set_distribution(
            keras.distribution.ModelParallel(layout_map=layouts, batch_dim_name="batch")
        )
        model = keras.models.clone_model(model)
        ```

    Reference: Shoeybi et al., "Megatron-LM: Training Multi-Billion Parameter Language Models Using
        Model Parallelism", 2019, section 3.
    """
    if keras.backend.backend() != "jax":
        raise ValueError(
            "`layout_map` needs JAX, the backend of `keras.distribution.ModelParallel`. "
            f"Received: KERAS_BACKEND={keras.backend.backend()}"
        )
    axes = dict(zip(device_mesh.axis_names, device_mesh.shape, strict=True))
    if model_parallel_dim_name not in axes:
        rule = "be an axis of `device_mesh`"
        refuse("model_parallel_dim_name", rule, model_parallel_dim_name, axes=list(axes))
    devices = axes[model_parallel_dim_name]
    layouts = keras.distribution.LayoutMap(device_mesh)
    for variable in model.variables:
        axis = _SPLIT_AXES.get("/".join(variable.path.split("/")[-2:]))
        if axis is not None and variable.shape[axis] % devices == 0:
            layout: list[str | None] = [None] * len(variable.shape)
            layout[axis] = model_parallel_dim_name
            layouts[variable.path] = tuple(layout)
    if not layouts:
        rule = (
            "have weights of `build_transformer` or `build_language_model` whose sizes are "
            "multiples of the devices on the axis"
        )
        refuse("model", rule, axis=model_parallel_dim_name, devices=devices)
    return layouts
