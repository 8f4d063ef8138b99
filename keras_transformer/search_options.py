"""What a search does: one record, from keyword arguments and flags to an exported graph."""

import dataclasses
import inspect
import operator

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_non_negative_number,
    check_positive_int,
)
from keras_transformer.errors import UserInputError

END_OF_ALPHA = 10  # every alpha is less; float32 holds the penalty of 10,000 tokens
_LONGEST_NGRAM = 100  # each of its tokens is compared in every step


def _check_alpha(name, value):
    # The penalty must not fall with the length, nor overflow.
    check_non_negative_number(name, value)
    if value >= END_OF_ALPHA:
        raise UserInputError(f"`{name}` must be less than {END_OF_ALPHA}. Received: {name}={value}")


def _check_no_repeat_ngram(name, value):
    check_non_negative_int(name, value)
    if value > _LONGEST_NGRAM:
        raise UserInputError(f"`{name}` must be at most {_LONGEST_NGRAM}. Received: {name}={value}")


def _check_max_source_length(name, value):
    if not isinstance(value, int) or value < 2:
        raise UserInputError(
            f"`{name}` must be an integer that leaves room for a token and the end of the "
            f"sentence. Received: {name}={value!r}"
        )


def _option(default, check, help):
    """A field with its rule, and what `--help` says of it: `{}` stands for the default."""
    return dataclasses.field(default=default, metadata={"check": check, "help": help})


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What a search does, be it in a `Translator`, a `Parser` or an exported model.

    Args:
        beam_size: number of hypotheses of the beam search; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0 and less than 10.
        extra_length: most output tokens beyond the source's own number, EOS counted in neither.
        min_length: least number of output tokens, EOS not counted. A sentence whose limit is less
            has that.
        no_repeat_ngram: no output has the same so many tokens in a row twice; 0: it may.
        max_source_length: most tokens of a source, EOS counted. Models with fewer positions have
            that limit.
        num_results: how many outputs of a sentence are wanted, at most `beam_size`; None: all.

    Raises:
        ValueError: an option breaks its rule.

    Example:
        >>> SearchOptions(beam_size=1).alpha
        0.6
        >>> SearchOptions(alpha=-1)
        Traceback (most recent call last):
        ValueError: `alpha` must be a number >= 0. Received: alpha=-1
    """

    beam_size: int = _option(4, check_positive_int, "default: {}; 1 is greedy search")
    alpha: float = _option(0.6, _check_alpha, "exponent of the length penalty (default: {})")
    extra_length: int = _option(
        50,
        check_positive_int,
        "most output tokens beyond the source's own number (default: {})",
    )
    min_length: int = _option(
        0, check_non_negative_int, "least number of output tokens (default: {})"
    )
    no_repeat_ngram: int = _option(
        0,
        _check_no_repeat_ngram,
        "never produce the same N tokens in a row twice in one translation; at most "
        f"{_LONGEST_NGRAM} (default: {{}}, off)",
    )
    max_source_length: int = _option(
        1024,
        _check_max_source_length,
        "most source tokens, end of sentence counted; longer input is cut (default: {})",
    )
    num_results: int | None = _option(
        None,
        lambda name, value: value is None or check_positive_int(name, value),
        "translations of each sentence in the n-best signature (default: the beam size)",
    )

    def __post_init__(self):
        for field in dataclasses.fields(self):
            field.metadata["check"](field.name, getattr(self, field.name))
        if self.num_results is not None and self.num_results > self.beam_size:
            raise UserInputError(
                "`num_results` must be at most `beam_size`. "
                f"Received: num_results={self.num_results}, beam_size={self.beam_size}"
            )

    def source_limit(self, max_length):
        """Most tokens of a source, EOS counted, of a model with so many positions, or None."""
        return min(self.max_source_length, max_length or self.max_source_length)


TRANSLATION = SearchOptions()  # the paper's, section 6.1
PARSING = SearchOptions(beam_size=21, alpha=0.3, extra_length=300)  # the paper's, section 6.3
EXPORT = SearchOptions(max_source_length=256)


def takes_search_options(defaults=TRANSLATION):
    """Decorator: shows a function's `**options` as the keyword arguments of `SearchOptions`.

    Args:
        defaults: the `SearchOptions` that hold where none are given; None: those of a translator.

    Example:
        >>> @takes_search_options(PARSING)
        ... def search(ids, **options): ...
        >>> str(inspect.signature(search))[:36]
        '(ids, *, beam_size=21, alpha=0.3, ex'
    """

    def decorate(function):
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()  # the last one is `**options`
        for field in dataclasses.fields(SearchOptions):
            default = getattr(defaults, field.name, None)
            parameters.append(
                inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
        function.__signature__ = signature.replace(parameters=parameters)
        return function

    return decorate


class HasSearchOptions:
    """Gives an object with `search_options`, a `SearchOptions`, its fields as attributes."""


for _field in dataclasses.fields(SearchOptions):
    _get = operator.attrgetter(f"search_options.{_field.name}")
    setattr(HasSearchOptions, _field.name, property(_get))
