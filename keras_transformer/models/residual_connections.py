"""Forms of residual connections, against the early plateau of post-norm training."""

from typing import Any

from keras_transformer.errors import refuse

# The name of each form.
RESIDUAL_CONNECTIONS = ("plain", "deepnorm", "encoder_deepnorm", "b2t")


def residual_options(
    form: str, num_encoder_layers: int, num_decoder_layers: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of encoder and decoder layers that give a form.

    Args:
        form: "plain", the paper's; "deepnorm", which depends on the number of encoder layers N and
            decoder layers M; "encoder_deepnorm", the same with a plain decoder; or "b2t".
        num_encoder_layers: N; 0 for a language model.
        num_decoder_layers: M.

    Returns:
        Two dictionaries of arguments of `TransformerEncoderLayer` and `TransformerDecoderLayer`.

    Example:
        >>> _, of_decoder = residual_options("deepnorm", 6, 6)
        >>> {name: round(value, 3) for name, value in of_decoder.items()}
        {'residual_scale': 2.06, 'initial_gain': 0.343}

    Raises:
        ValueError: `form` is "encoder_deepnorm" without an encoder.

    Reference: Wang et al., "DeepNet: Scaling Transformers to 1,000 Layers", 2022, figure 2 (its
        alpha is the scale, its beta the gain); Takase et al., "B2T Connection: Serving Stability
        and Performance in Deep Transformers", 2023.
    """
    if form == "plain":
        return {}, {}
    if form == "b2t":
        return {"b2t_connection": True}, {"b2t_connection": True}
    if not num_encoder_layers:
        if form == "encoder_deepnorm":
            refuse("residual_connection", "be different for a model without an encoder", form)
        return {}, _scaled((2 * num_decoder_layers) ** 0.25, (8 * num_decoder_layers) ** -0.25)
    depth = (num_encoder_layers**4 * num_decoder_layers) ** (1 / 16)
    of_encoder = _scaled(0.81 * depth, 0.87 / depth)
    if form == "encoder_deepnorm":
        return of_encoder, {}
    return of_encoder, _scaled((3 * num_decoder_layers) ** 0.25, (12 * num_decoder_layers) ** -0.25)


def _scaled(residual_scale: float, initial_gain: float) -> dict[str, Any]:
    return {"residual_scale": residual_scale, "initial_gain": initial_gain}
