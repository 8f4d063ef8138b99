"""The length penalty of GNMT, by which hypotheses of different lengths are compared."""

from keras_transformer.argument_checks import check_non_negative_number
from keras_transformer.errors import UserInputError

END_OF_ALPHA = 10  # every alpha is less; float32 holds the penalty of 10,000 tokens


def check_alpha(alpha):
    """Require a number in [0, 10): the penalty must not fall with the length, nor overflow."""
    check_non_negative_number("alpha", alpha)
    if alpha >= END_OF_ALPHA:
        raise UserInputError(f"`alpha` must be less than {END_OF_ALPHA}. Received: alpha={alpha}")


def length_penalty(length, alpha):
    """Divisor of a log-probability: `((5 + length) / 6) ** alpha`.

    Args:
        length: number of output tokens, EOS counted; a number, an array or a float tensor.
        alpha: 0 compares plain log-probabilities; the larger, the longer the favored outputs.

    Returns:
        The penalty, of the shape of `length`.

    Example:
        >>> length_penalty(7, 0.5)
        1.4142135623730951

    Reference:
        Wu et al., "Google's Neural Machine Translation System", 2016, equation 14. Toolkits that
        divide by `length ** alpha` instead rank differently.
    """
    return ((5.0 + length) / 6.0) ** alpha
