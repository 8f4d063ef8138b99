"""Search options: one record for keyword arguments, flags and exported graphs."""

import dataclasses
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar

from keras_transformer.argument_checks import (
    check_bool,
    check_non_negative_int,
    check_non_negative_number,
    check_one_of,
    check_positive_int,
    is_integer,
    is_number,
    python_number,
)
from keras_transformer.errors import UserInputError, explains_search_keywords

# Alpha stays below these, so that the penalty of 10,000 tokens fits into float32.
END_OF_ALPHA, END_OF_POWER = 10, 9
MOST_ALPHAS = 500  # to choose from; each takes memory in every step of a search with all of them
# Divisors of a log-probability for |Y| output tokens, EOS included, by name.
LENGTH_PENALTIES = {"gnmt": "((5 + |Y|) / 6) ^ alpha", "power": "|Y| ^ alpha"}
ENDINGS = ("any", "transformers", "first", "marian")
_LONGEST = 1_000_000  # more tokens than any sentence has, and few enough for a tensor's size
_LARGEST_BEAM = 10_000  # its 20,000 candidates times a vocabulary of 100,000 fit into int32
_LONGEST_NGRAM = 100  # each of its tokens is compared in every step

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class SearchKeywords(TypedDict, total=False):
    """Types of the fields of `SearchOptions`, for functions that take them as `**options`."""

    beam_size: int
    alpha: float
    length_penalty: str
    ending: str
    renormalize: bool
    allow_unknown: bool
    extra_length: int
    min_length: int
    no_repeat_ngram: int
    max_source_length: int
    num_results: int | None


def search_over(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, completed by a model's own.

    A beam smaller than the model's own `num_results` overrides it.
    """
    search = {**own, **given}
    if (search.get("num_results") or 0) > search.get("beam_size", TRANSLATION.beam_size):
        search["num_results"] = given.get("num_results")
    return search


def _check_beam_size(name: str, value: int) -> None:
    check_positive_int(name, value)
    if value > _LARGEST_BEAM:
        raise UserInputError(
            f"`{name}` must be at most {_LARGEST_BEAM:,}. Received: {name}={repr(value)[:30]}"
        )


def _check_alpha(name: str, value: float) -> None:
    # The penalty must neither decrease with the length nor overflow.
    check_non_negative_number(name, value)
    if value >= END_OF_ALPHA:
        raise UserInputError(f"`{name}` must be less than {END_OF_ALPHA}. Received: {name}={value}")


def _check_length_penalty(name: str, value: str) -> None:
    if is_number(value):
        raise ValueError(
            f"`{name}` must be one of {list(LENGTH_PENALTIES)}. Received: {name}={value}: use "
            "`alpha` for the exponent"
        )
    check_one_of(name, value, LENGTH_PENALTIES)


def _check_ending(name: str, value: str) -> None:
    check_one_of(name, value, ENDINGS)


def _check_no_repeat_ngram(name: str, value: int) -> None:
    check_non_negative_int(name, value)
    if value > _LONGEST_NGRAM:
        raise UserInputError(f"`{name}` must be at most {_LONGEST_NGRAM}. Received: {name}={value}")


def _check_extra_length(name: str, value: int) -> None:
    check_positive_int(name, value)
    _check_length(name, value)


def _check_max_source_length(name: str, value: object) -> None:
    if not is_integer(value) or value < 2:
        raise UserInputError(
            f"`{name}` must be an integer that leaves room for a token and the end of the "
            f"sentence. Received: {name}={value!r}"
        )
    _check_length(name, value)


def _check_length(name: str, value: int) -> None:
    if value > _LONGEST:
        raise UserInputError(
            f"`{name}` must be at most {_LONGEST:,}. Received: {name}={repr(value)[:30]}"
        )


def _check_num_results(name: str, value: int | None) -> None:
    if value is not None:
        check_positive_int(name, value)


def _option(default: _T, check: Callable[[str, Any], None], help: str) -> _T:
    """A field with its check and its `--help` text, in which `{}` stands for the default."""
    return dataclasses.field(default=default, metadata={"check": check, "help": help})


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of the search in a `Translator`, a `Parser` or an exported model.

    Args:
        beam_size: number of hypotheses of the beam search, at most 10,000; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0 and less than 10.
        length_penalty: divisor of the log-probability of |Y| tokens, EOS included: `"gnmt"`,
            `((5 + |Y|) / 6) ^ alpha`, or `"power"`, `|Y| ^ alpha`, as in Marian, fairseq and
            Hugging Face Transformers.
        ending: how a beam search ends. With `"any"`, each end among the `2 * beam_size` best
            extensions gives an output, and the search ends when no output can become better. With
            `"transformers"`, as in `generate` of Hugging Face Transformers, an end among the
            `beam_size` best gives an output, at no cost if the length limit forces it, and the
            search ends when `beam_size` outputs are better than its hypotheses at their present
            length. `"first"` is the same, but ends with the first `beam_size` outputs, as in
            CTranslate2 and with `early_stopping=True` of Transformers. With `"marian"`, each output
            also takes a place of the beam, until none is left. `"any"` finds the more probable
            outputs.
        renormalize: whether to leave tokens that are never produced, such as padding, out of the
            probabilities and scores. Marian has no such tokens. By default they keep their share,
            so that a score is the model's own.
        allow_unknown: whether outputs may have the unknown token, as by default. Otherwise it is
            never produced, as in Marian, but keeps its share of the probability.
        extra_length: maximum number of output tokens beyond the number of source tokens, both
            without EOS.
        min_length: minimum number of output tokens, not counting EOS; lowered to the maximum if
            that is smaller.
        no_repeat_ngram: forbid repeated n-grams of this length; 0 allows them.
        max_source_length: maximum number of source tokens, counting EOS. A model with fewer
            positions lowers it.
        num_results: number of outputs for each sentence, at most `beam_size`; None returns all.

    Raises:
        ValueError: an option breaks its rule.

    Example:
        >>> SearchOptions(beam_size=1).alpha
        0.6
        >>> SearchOptions(alpha=-1)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: `alpha` must be a number >= 0. Received: alpha=-1
    """

    beam_size: int = _option(4, _check_beam_size, "default: {}; 1 is greedy search")
    alpha: float = _option(0.6, _check_alpha, "exponent of the length penalty (default: {})")
    length_penalty: str = _option(
        "gnmt",
        _check_length_penalty,
        "divisor of the score of |Y| tokens: gnmt, ((5 + |Y|) / 6) ^ A; power, |Y| ^ A (default: "
        "{})",
    )
    ending: str = _option(
        "any",
        _check_ending,
        "how a beam search ends: any, when no output can become better; transformers, sooner, as "
        "in Hugging Face Transformers; first, soonest, as in CTranslate2; marian, with a beam that "
        "each output narrows (default: {})",
    )
    renormalize: bool = _option(
        False, check_bool, "leave tokens that are never produced out of the probabilities"
    )
    allow_unknown: bool = _option(True, check_bool, "allow the unknown token in outputs")
    extra_length: int = _option(
        50,
        _check_extra_length,
        "maximum number of output tokens beyond the source's (default: {})",
    )
    min_length: int = _option(
        0, check_non_negative_int, "minimum number of output tokens (default: {})"
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
        "maximum number of source tokens with EOS; longer input is cut (default: {})",
    )
    num_results: int | None = _option(
        None,
        _check_num_results,
        "translations per sentence in the n-best signature (default: the beam size)",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            field.metadata["check"](field.name, value)
            object.__setattr__(self, field.name, python_number(value))
        if self.length_penalty == "power" and self.alpha >= END_OF_POWER:
            raise UserInputError(
                f"`alpha` must be less than {END_OF_POWER} with the length penalty power. "
                f"Received: alpha={self.alpha}"
            )
        if self.num_results is not None and self.num_results > self.beam_size:
            raise UserInputError(
                "`num_results` must be at most `beam_size`. "
                f"Received: num_results={self.num_results}, beam_size={self.beam_size}"
            )

    def source_limit(self, max_length: int | None) -> int:
        """Maximum number of source tokens, counting EOS, for a model of `max_length` positions."""
        return min(self.max_source_length, max_length or self.max_source_length)


_constructor = explains_search_keywords(SearchOptions.__init__)
setattr(SearchOptions, "__init__", _constructor)  # noqa: B010  mypy knows no other way

TRANSLATION = SearchOptions()  # section 6.1 of the paper
# Section 6.3 of the paper; a sentence has one tree.
PARSING = SearchOptions(beam_size=21, alpha=0.3, extra_length=300, num_results=1)
EXPORT = SearchOptions(max_source_length=256)


def takes_search_options(
    defaults: SearchOptions | None = TRANSLATION,
) -> Callable[[_Function], _Function]:
    """Decorator that shows a function's `**options` as the keyword arguments of `SearchOptions`.

    Args:
        defaults: the defaults to show; None shows None for each option, if a translator's own
            apply.

    Example:
        >>> @takes_search_options(PARSING)
        ... def search(ids, **options): ...
        >>> str(inspect.signature(search))[:36]
        '(ids, *, beam_size=21, alpha=0.3, le'
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()  # the last one is `**options`
        for field in dataclasses.fields(SearchOptions):
            default = getattr(defaults, field.name, None)
            parameters.append(
                inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
        vars(function)["__signature__"] = signature.replace(parameters=parameters)
        return function

    return decorate


def search_record(options: SearchOptions) -> dict[str, Any]:
    """The options that decide the best output of a search, for a record of scores."""
    values = dataclasses.asdict(options)
    del values["num_results"]
    return values


def search_text(search: Mapping[str, Any]) -> str:
    """A search in a few words, for tables and progress bars.

    Args:
        search: fields of `SearchOptions`, at least `beam_size`, `alpha` and `length_penalty`.

    Example:
        >>> search_text({"beam_size": 5, "alpha": 1.4, "length_penalty": "gnmt"})
        'beam 5, alpha 1.4'
    """
    if search["beam_size"] == 1:
        return "greedy"
    penalty = search["length_penalty"]
    form = "" if penalty == TRANSLATION.length_penalty else f" ({penalty})"
    return f"beam {search['beam_size']}, alpha {search['alpha']:g}{form}"


class HasSearchOptions:
    """Gives an object with `search_options` their fields as read-only attributes."""

    search_options: SearchOptions
    beam_size: int
    alpha: float
    length_penalty: str
    ending: str
    renormalize: bool
    allow_unknown: bool
    extra_length: int
    min_length: int
    no_repeat_ngram: int
    max_source_length: int
    num_results: int | None


for _field in dataclasses.fields(SearchOptions):
    _get = operator.attrgetter(f"search_options.{_field.name}")
    setattr(HasSearchOptions, _field.name, property(_get))
