"""What an export's search does: options that are part of the exported model."""

import dataclasses

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.decoding.constraints import check_no_repeat_ngram
from keras_transformer.decoding.length_penalty import check_alpha
from keras_transformer.errors import UserInputError

# Far beyond any sentence, and far below what overflows a tensor's size.
MOST = 1_000_000


@dataclasses.dataclass(frozen=True)
class SearchOptions:
    """The search of an exported model; the defaults are the paper's.

    Args:
        beam_size: number of hypotheses kept; 1 is greedy search.
        alpha: exponent of the length penalty, at least 0.
        extra_length: most output tokens beyond the source's own number.
        min_length: least number of output tokens, end of sentence not counted.
        no_repeat_ngram: no output has the same so many tokens in a row twice; 0: it may.
        max_source_length: most source tokens, end of sentence counted; what is longer is cut.
        num_results: how many translations an n-best list has, at most `beam_size`; None: all.

    Raises:
        ValueError: an option is no number of its kind.
        UserInputError: a number is too small or too large.
    """

    beam_size: int = 4
    alpha: float = 0.6
    extra_length: int = 50
    min_length: int = 0
    no_repeat_ngram: int = 0
    max_source_length: int = 256
    num_results: int | None = None

    def __post_init__(self):
        for name in ("beam_size", "extra_length", "max_source_length"):
            check_positive_int(name, getattr(self, name))
            if getattr(self, name) > MOST:
                raise UserInputError(
                    f"`{name}` must be at most {MOST}. Received: {name}={getattr(self, name)}"
                )
        check_non_negative_int("min_length", self.min_length)
        check_no_repeat_ngram(self.no_repeat_ngram)
        check_alpha(self.alpha)
        if self.max_source_length < 2:
            raise UserInputError(
                "`max_source_length` must leave room for a token and the end of the sentence. "
                f"Received: max_source_length={self.max_source_length}"
            )
        if self.num_results is None:
            object.__setattr__(self, "num_results", self.beam_size)
        check_positive_int("num_results", self.num_results)
        if self.num_results > self.beam_size:
            raise UserInputError(
                "`num_results` must be at most `beam_size`. "
                f"Received: num_results={self.num_results}, beam_size={self.beam_size}"
            )

    @classmethod
    def of(cls, translator, **options):
        """The options of an export of a `Translator`: its own, but for those that are given.

        Args:
            translator: a `Translator`.
            **options: fields of this class; None is as if not given.
        """
        names = ("beam_size", "alpha", "extra_length", "min_length", "no_repeat_ngram")
        values = {name: getattr(translator, name) for name in names}
        values |= {name: value for name, value in options.items() if value is not None}
        most = translator.max_length
        if most is not None:
            wanted = values.get("max_source_length", cls.max_source_length)
            values["max_source_length"] = min(wanted, most)
        return cls(**values)
