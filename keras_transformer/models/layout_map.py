"""Where model parallelism on JAX keeps each weight of a Transformer."""

import keras

# The axis along which a weight is split, by its layer and its name. The first matrix of attention
# and of the feed-forward network is split by columns, the second by rows, so that intermediate
# results stay on their device.
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
    """Return the layouts with which `keras.distribution.ModelParallel` divides a model, on JAX.

    The weights are split as in Megatron-LM: the projections to queries, keys and values and the
    feed-forward network's first matrix by columns, with their biases; attention's output projection
    and the second matrix by rows; embeddings and logits by tokens. An optimizer splits its moments
    in the same way. The result is the same as on one device, up to rounding.

    A weight stays whole on every device if its size is not a multiple of the number of devices on
    the axis, since JAX splits into equal parts; for the embeddings, `padded_vocabulary_size` gives
    a suitable size. Biases after the sums over rows, normalizations and learned positions also stay
    whole: they are small.

    Keras places a weight when it creates it. So build the model again once the distribution is set,
    with the same arguments or with `keras.models.clone_model`.

    Args:
        model: a model from `build_transformer` or `build_language_model`. Only the paths and shapes
            of its weights are read; it is not changed.
        device_mesh: the devices; `ModelParallel` handles the axis for the batch.
        model_parallel_dim_name: name of the mesh axis along which weights are split.

    Returns:
        A `keras.distribution.LayoutMap` from the path of each weight that is split.

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
        raise ValueError(
            "`model_parallel_dim_name` must be an axis of `device_mesh`. Received: "
            f"model_parallel_dim_name={model_parallel_dim_name!r}, axes {list(axes)}"
        )
    devices = axes[model_parallel_dim_name]
    layouts = keras.distribution.LayoutMap(device_mesh)
    for variable in model.variables:
        axis = _SPLIT_AXES.get("/".join(variable.path.split("/")[-2:]))
        if axis is not None and variable.shape[axis] % devices == 0:
            layout: list[str | None] = [None] * len(variable.shape)
            layout[axis] = model_parallel_dim_name
            layouts[variable.path] = tuple(layout)
    if not layouts:
        raise ValueError(
            "`model` must have weights of `build_transformer` or `build_language_model` whose "
            f"sizes are multiples of the devices on the axis. Received: {devices} devices on "
            f"{model_parallel_dim_name!r}"
        )
    return layouts
