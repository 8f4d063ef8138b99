"""Search options, shared by keyword arguments, flags, JSON, files and exported graphs."""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, TypeVar

from keras_transformer.argument_checks import (
    check_bool,
    check_non_negative_int,
    check_non_negative_number,
    check_one_of,
    check_positive_int,
    check_positive_number,
    is_integer,
    is_number,
    python_number,
)
from keras_transformer.errors import refuse, refuse_keywords

# Exclusive upper bounds of alpha, so that the penalty for 10,000 tokens fits in float32.
END_OF_ALPHA, END_OF_POWER = 10, 9
MOST_ALPHAS = 500  # to choose from; all are tried together, and each needs memory in every step
# Divisors of the log-probability of |Y| output tokens, including EOS, by name.
LENGTH_PENALTIES = {"gnmt": "((5 + |Y|) / 6) ^ alpha", "power": "|Y| ^ alpha"}
ENDINGS = ("any", "transformers", "first", "marian")
_LONGEST = 1_000_000  # more tokens than in any sentence, but few enough for a tensor's size
_LARGEST_BEAM = 10_000  # 20,000 candidates times a vocabulary of 100,000 fit in int32
_LONGEST_NGRAM = 100  # every step compares each token of the n-gram
_LARGEST_PENALTY = 100  # with this penalty, repetitions hardly ever occur
# Other libraries' names for features that are not options here.
_OTHER_NAMES = {"do_sample": "SequenceGenerator.sample", "stop_token_ids": "special_tokens"}

_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., Any])


class PageInput(NamedTuple):
    """The input for an option on the web app's page.

    Args:
        label: text before the input.
        hint: text below the input.
        choices: display text for each value; None for numbers.
        max: maximum value; None for the maximum of the option.
        of: kind of runs with this option, such as "translation"; None for all kinds.
    """

    label: str
    hint: str
    choices: Mapping[str, str] | None = None
    max: float | None = None
    of: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """Everything about a search option except its name, type and default.

    Args:
        help: help text of the flag, in which `{}` stands for the default.
        check: function that raises an error naming the option if a value has the wrong type. It
            also determines the flag's type and the range in JSON.
        choices: allowed values, if they can be listed.
        most: maximum value.
        below: exclusive upper bound.
        most_own: maximum value in a run's own record, larger than in any released model. This limit
            keeps decoding time to minutes instead of hours.
        verbs: subcommands with a flag for the option; "export" also adds the option to exports.
        shown: placeholder for the value in `--help`.
        transformers, ctranslate2: name of the option with the same values in that library.
        theirs: other names in other libraries; an error about one of these suggests the option.
        in_json: description in the app's JSON API; None if the API does not support the option.
        on_page: input on the app's page.
    """

    help: str
    check: Callable[[str, Any], None]
    choices: Collection[str] = ()
    most: int | None = None
    below: float | None = None
    most_own: int | None = None
    verbs: Collection[str] = ()
    shown: str = "N"
    transformers: str | None = None
    ctranslate2: str | None = None
    theirs: Collection[str] = ()
    in_json: str | None = None
    on_page: PageInput | None = None

    def require(self, name: str, value: Any) -> None:
        """Raise a `ValueError` unless the value is allowed."""
        self.check(name, value)
        if self.most is not None and value > self.most:
            refuse(name, f"be at most {self.most:,}", value)
        if self.below is not None and value >= self.below:
            refuse(name, f"be less than {self.below}", value)


def _option(default: _T, help: str, check: Callable[[str, Any], None], **facts: Any) -> _T:
    """Return a field of `SearchOptions`. The arguments are the fields of `Option`."""
    option = Option(help=help, check=check, **facts)
    return dataclasses.field(default=default, metadata={"option": option})


def _check_length_penalty(name: str, value: str) -> None:
    if is_number(value):
        raise ValueError(
            f"`{name}` must be one of {list(LENGTH_PENALTIES)}. Received: {name}={value}: use "
            "`alpha` for the exponent"
        )
    check_one_of(name, value, LENGTH_PENALTIES)


def _check_ending(name: str, value: str) -> None:
    check_one_of(name, value, ENDINGS)


def _check_max_source_length(name: str, value: object) -> None:
    if not is_integer(value) or value < 2:
        rule = "be an integer that leaves room for a token and the end of the sentence"
        refuse(name, rule, value)


def _check_num_results(name: str, value: int | None) -> None:
    if value is not None:
        check_positive_int(name, value)


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions`, for functions that accept them as `**options`.

    Type checkers cannot derive this class from the dataclass.
    """

    beam_size: int
    alpha: float
    length_penalty: str
    ending: str
    renormalize: bool
    allow_unknown: bool
    extra_length: int
    min_length: int
    no_repeat_ngram: int
    repetition_penalty: float
    max_repeats: int
    max_source_length: int
    num_results: int | None


class _ExplainsNames:
    """Rejects another library's search options with an error that suggests ours."""

    def __new__(cls, *_: Any, **options: Any) -> Any:
        refuse_keywords(f"{cls.__name__}.__init__", options, OUR_SEARCH_KEYWORDS)
        return super().__new__(cls)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions(_ExplainsNames):
    """Search options of a `Translator`, a `Parser` or an exported model.

    Args:
        beam_size: beam size, at most 10,000; 1 is greedy decoding.
        alpha: exponent of the length penalty, at least 0 and less than 10.
        length_penalty: divisor of the log-probability of |Y| tokens, including EOS: `"gnmt"`,
            `((5 + |Y|) / 6) ^ alpha`, or `"power"`, `|Y| ^ alpha`, as in Marian, fairseq and
            Hugging Face Transformers.
        ending: how beam search ends. With `"any"`, each EOS among the `2 * beam_size` best
            extensions finishes an output, and the search ends when no output can improve. With
            `"transformers"`, as in `generate` in Hugging Face Transformers, an EOS among the
            `beam_size` best finishes an output, at no cost if the length limit forces it, and the
            search ends when `beam_size` outputs score better than the hypotheses at their current
            length. `"first"` is the same, but ends with the first `beam_size` outputs, as in
            CTranslate2 and in Transformers with `early_stopping=True`. With `"marian"`, as in
            Marian, an output cut off by the length limit has no EOS: neither its probability nor
            its length includes one. Each output shrinks the beam by one hypothesis until none is
            left. `"any"` considers every EOS and finds more probable outputs.
        renormalize: whether to exclude tokens that are never produced, such as padding, from the
            probabilities and scores. Marian has no such tokens. By default, these tokens keep
            their share of the probability, so scores are the model's own.
        allow_unknown: whether outputs may contain the unknown token, which is the default. If
            False, it is never produced, as in Marian, but keeps its share of the probability.
        extra_length: maximum number of output tokens beyond the number of source tokens, both
            without EOS.
        min_length: minimum number of output tokens, not counting EOS; reduced to the maximum if
            that is smaller.
        no_repeat_ngram: length of n-grams that must not be repeated; 0 allows all repetitions.
        repetition_penalty: factor, greater than 0 and at most 100, for the log-probability of
            tokens that the output, including its prefix, already contains. Values above 1 make them
            less likely; 1 has no effect. Beam search in Hugging Face Transformers applies the same
            penalty; its greedy decoding and sampling apply the factor to logits, as in CTranslate2.
            Scores include the penalty.
        max_repeats: guard against loops: how many times in a row an n-gram of 1 to 8 tokens can
            occur, in addition to repetitions in the source; 0 means no limit. Values of 8 or more
            do not slow down decoding.
        max_source_length: maximum number of source tokens, counting EOS. A model with fewer
            positions lowers the maximum.
        num_results: number of outputs per sentence, at most `beam_size`. Defaults to all.

    Raises:
        ValueError: an option is invalid.

    Example:
        >>> SearchOptions(beam_size=1).alpha
        0.6
        >>> SearchOptions(alpha=-1)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: `alpha` must be a number >= 0. Received: alpha=-1
    """

    beam_size: int = _option(
        4,
        "beam size (default: {}); 1 is greedy decoding",
        check_positive_int,
        most=_LARGEST_BEAM,
        most_own=100,
        verbs=("translate", "evaluate", "parse", "export"),
        transformers="num_beams",
        ctranslate2="beam_size",
        in_json="Beam size; 1 is greedy decoding.",
        on_page=PageInput(
            "Beam size",
            "How many drafts the search compares. Larger: slower, often better. 1: fastest.",
        ),
    )
    alpha: float = _option(
        0.6,
        "exponent of the length penalty (default: {})",
        check_non_negative_number,  # the penalty must not decrease with length, nor overflow
        below=END_OF_ALPHA,
        verbs=("translate", "evaluate", "parse", "export"),
        shown="A",
        transformers="length_penalty",
        ctranslate2="length_penalty",
        in_json="Exponent of the length penalty.",
        on_page=PageInput(
            "Shorter or longer (alpha)",
            "0 favors short translations. Larger numbers favor longer ones.",
            max=END_OF_ALPHA - 0.1,
        ),
    )
    length_penalty: str = _option(
        "gnmt",
        "divisor of the score of |Y| tokens: gnmt, ((5 + |Y|) / 6) ^ A; power, |Y| ^ A (default: "
        "{})",
        _check_length_penalty,
        choices=tuple(LENGTH_PENALTIES),
        verbs=("translate", "evaluate", "parse", "export"),
        in_json="Divisor of a score: ((5 + length) / 6)^alpha, or length^alpha.",
        on_page=PageInput(
            "Strength of alpha (length penalty)",
            "How scores are divided by the length: by ((5 + length) / 6)^alpha, or by "
            "length^alpha.",
            {"gnmt": "gnmt: milder", "power": "power: stronger"},
        ),
    )
    ending: str = _option(
        "any",
        "when beam search ends: any, when no output can improve; transformers, sooner, as in "
        "Hugging Face Transformers; first, soonest, as in CTranslate2; marian, when outputs have "
        "used up the beam (default: {})",
        _check_ending,
        choices=ENDINGS,
        verbs=("translate", "evaluate", "export"),
        theirs=("early_stopping",),
        in_json="When the search ends: when no output can improve; sooner, as in Hugging Face "
        "Transformers; with the first outputs, as in CTranslate2; or when finished outputs fill "
        "the beam, as in Marian.",
        on_page=PageInput(
            "End of the search (ending)",
            "A longer search is slower and finds more probable translations.",
            {
                "any": "any: when nothing can be better",
                "transformers": "transformers: sooner, as in Hugging Face",
                "first": "first: soonest, as in CTranslate2",
            },
            of="translation",
        ),
    )
    renormalize: bool = _option(
        False, "exclude tokens that are never produced from the probabilities", check_bool
    )
    allow_unknown: bool = _option(True, "allow the unknown token in outputs", check_bool)
    extra_length: int = _option(
        50,
        "maximum number of output tokens beyond the length of the source (default: {})",
        check_positive_int,
        most=_LONGEST,
        most_own=1_000,
        verbs=("translate", "evaluate", "parse", "export"),
        theirs=("max_length", "max_new_tokens"),
        in_json="Maximum number of output tokens beyond the number of source tokens.",
        on_page=PageInput(
            "Longest translation (extra length)",
            "How many more tokens a translation can have than the sentence.",
        ),
    )
    min_length: int = _option(
        0,
        "minimum number of output tokens (default: {})",
        check_non_negative_int,
        most_own=100,
        verbs=("translate", "export"),
        theirs=("min_new_tokens",),
    )
    no_repeat_ngram: int = _option(
        0,
        "never repeat a sequence of N tokens in a translation; at most "
        f"{_LONGEST_NGRAM} (default: {{}}, off)",
        check_non_negative_int,
        most=_LONGEST_NGRAM,
        verbs=("translate", "export"),
        transformers="no_repeat_ngram_size",
        ctranslate2="no_repeat_ngram_size",
    )
    repetition_penalty: float = _option(
        1.0,
        "factor for the log-probability of tokens already in a translation; values above "
        f"1 make them less likely; at most {_LARGEST_PENALTY} (default: {{}}, off)",
        check_positive_number,
        most=_LARGEST_PENALTY,
        verbs=("translate", "export"),
        shown="R",
        transformers="repetition_penalty",
        ctranslate2="repetition_penalty",
        in_json="Factor for the log-probability of tokens that an output already contains; values "
        "above 1 make them less likely.",
        on_page=PageInput(
            "Repeated words (repetition penalty)",
            "1 has no effect. Larger numbers reduce repetition in translations.",
        ),
    )
    max_repeats: int = _option(
        0,
        "prevent loops: allow the same 1 to 8 tokens at most N times in a row, plus repetitions in "
        "the source (default: {}, off)",
        check_non_negative_int,
        most=_LONGEST,
        verbs=("translate", "export"),
    )
    max_source_length: int = _option(
        1024,
        "maximum number of source tokens including EOS; longer input is truncated (default: {})",
        _check_max_source_length,
        most=_LONGEST,
        verbs=("export",),
    )
    num_results: int | None = _option(
        None,
        "number of translations per sentence in the n-best signature (default: the beam size)",
        _check_num_results,
        most_own=100,
        theirs=("num_return_sequences",),
    )

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            option.require(name, value)
            object.__setattr__(self, name, python_number(value))
        if self.length_penalty == "power" and self.alpha >= END_OF_POWER:
            rule = f"be less than {END_OF_POWER} with the length penalty power"
            refuse("alpha", rule, self.alpha)
        if self.num_results is not None and self.num_results > self.beam_size:
            refuse(
                "num_results", "be at most `beam_size`", self.num_results, beam_size=self.beam_size
            )

    def source_limit(self, max_length: int | None) -> int:
        """Return the source token limit, counting EOS, for a model with `max_length` positions."""
        return min(self.max_source_length, max_length or self.max_source_length)


OPTIONS: dict[str, Option] = {
    field.name: field.metadata["option"] for field in dataclasses.fields(SearchOptions)
}
# Names in other libraries -> our names. They are not aliases; see `refuse_keywords`.
OUR_SEARCH_KEYWORDS = _OTHER_NAMES | {
    theirs: ours
    for ours, option in OPTIONS.items()
    for theirs in (option.transformers, *option.theirs)
    if theirs is not None and theirs not in OPTIONS
}
TRANSLATION = SearchOptions()  # section 6.1 of the paper
# Section 6.3 of the paper; there is one tree per sentence.
PARSING = SearchOptions(beam_size=21, alpha=0.3, extra_length=300, num_results=1)
EXPORT = SearchOptions(max_source_length=256)


def options_for(verb: str) -> tuple[str, ...]:
    """Return the names of the search options that have flags for a subcommand.

    Example:
        >>> options_for("evaluate")
        ('beam_size', 'alpha', 'length_penalty', 'ending', 'extra_length')
    """
    return tuple(name for name, option in OPTIONS.items() if verb in option.verbs)


def names_in(library: Literal["transformers", "ctranslate2"]) -> dict[str, str]:
    """Map our option names to another library's names for the options with the same values."""
    found = {name: getattr(option, library) for name, option in OPTIONS.items()}
    return {ours: theirs for ours, theirs in found.items() if theirs is not None}


def search_over(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the given options into a model's own options.

    The model's own `num_results` is dropped if it exceeds the beam size.
    """
    search = {**own, **given}
    if (search.get("num_results") or 0) > search.get("beam_size", TRANSLATION.beam_size):
        search["num_results"] = given.get("num_results")
    return search


def changed_search(own: SearchOptions, given: Mapping[str, Any]) -> SearchOptions:
    """Return a model's own options, overridden by the given ones; see `search_over`."""
    return SearchOptions(**search_over(dataclasses.asdict(own), given))


def explains_search_keywords(function: _Function) -> _Function:
    """Decorator that rejects another library's search options with an error that suggests ours."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        refuse_keywords(function.__qualname__, keywords, OUR_SEARCH_KEYWORDS)
        return function(*arguments, **keywords)

    explained: Any = call
    return explained


def takes_search_options(
    defaults: SearchOptions | None = TRANSLATION,
) -> Callable[[_Function], _Function]:
    """Decorator that replaces `**options` in a signature with the fields of `SearchOptions`.

    Args:
        defaults: defaults to show; if None, each default is shown as None, for functions that use a
            translator's own options by default.

    Example:
        >>> @takes_search_options(PARSING)
        ... def search(ids, **options): ...
        >>> str(inspect.signature(search))[:36]
        '(ids, *, beam_size=21, alpha=0.3, le'
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *parameters, _ = signature.parameters.values()  # the last one is `**options`
        parameters += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=getattr(defaults, name, None)
            )
            for name in OPTIONS
        ]
        vars(function)["__signature__"] = signature.replace(parameters=parameters)
        return function

    return decorate


def search_record(options: SearchOptions) -> dict[str, Any]:
    """Return the options that determine the best output, for a record of scores."""
    values = dataclasses.asdict(options)
    del values["num_results"]
    return values


def search_text(search: Mapping[str, Any]) -> str:
    """Describe search options in a few words, for tables and progress bars.

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


if TYPE_CHECKING:
    _OptionAttributes = SearchOptions  # gives type checkers the attributes
else:
    _OptionAttributes = type(
        "_OptionAttributes",
        (),
        {name: property(operator.attrgetter(f"search_options.{name}")) for name in OPTIONS},
    )


class HasSearchOptions(_OptionAttributes):
    """A mixin that exposes the fields of `search_options` as read-only attributes."""

    search_options: SearchOptions
