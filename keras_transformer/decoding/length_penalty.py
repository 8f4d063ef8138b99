"""Length penalties for comparing hypotheses of different lengths."""

from keras_transformer.types import Tensor


def length_penalty(length: Tensor, alpha: float, form: str = "gnmt") -> Tensor:
    """Divisor of a log-probability: `((5 + length) / 6) ** alpha`, or `length ** alpha`.

    Args:
        length: number of output tokens, EOS included; a number, an array or a float tensor.
        alpha: exponent; 0 for plain log-probabilities, larger values favor longer outputs.
        form: "gnmt" for the first formula, "power" for the second, which ranks differently.

    Returns:
        The penalty, with the shape of `length`.

    Example:
        >>> length_penalty(7, 0.5)
        1.4142135623730951
        >>> length_penalty(9, 0.5, "power")
        3.0

    Reference:
        Wu et al., "Google's Neural Machine Translation System", 2016, equation 14.
    """
    return (length if form == "power" else (5.0 + length) / 6.0) ** alpha
