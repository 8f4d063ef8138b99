"""Sampling texts of any length, and SentencePiece's trainer with clear error messages."""

import io
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TypeVar

import sentencepiece

from keras_transformer.argument_checks import check_no_string, check_positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.text.sentence_batches import without_surrogates

# SentencePiece's scale: 0 information, 1 warnings, 2 errors.
_LOG_ERRORS_ONLY = 2
# SentencePiece's default silently leaves out training lines above 4,192 bytes.
_LONGEST_LINE_BYTES = 1 << 20
# Unigram training sums floats per thread. A fixed number gives the same result on any machine.
_TRAINING_THREADS = 16
_T = TypeVar("_T")


def train_model(
    lines: Iterable[str],
    *,
    vocab_size: int,
    model_type: str,
    byte_fallback: bool,
    normalization_rule_name: str,
    remove_extra_whitespaces: bool,
    character_coverage: float,
    user_defined_symbols: list[str],
) -> bytes:
    """Run SentencePiece's trainer with its options of the same names. Returns the model."""
    model = io.BytesIO()
    checked = _CheckedLines(lines)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(checked),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            normalization_rule_name=normalization_rule_name,
            remove_extra_whitespaces=remove_extra_whitespaces,
            character_coverage=character_coverage,
            user_defined_symbols=user_defined_symbols,
            **{f"{name}_id": value for name, value in asdict(SpecialTokens()).items()},
            max_sentence_length=_LONGEST_LINE_BYTES,
            num_threads=_TRAINING_THREADS,
            minloglevel=_LOG_ERRORS_ONLY,
        )
    except RuntimeError as error:
        if checked.fault is not None:
            raise checked.fault from None
        message = _explain(str(error), vocab_size)
        if message is None:
            raise
        raise UserInputError(message) from error
    return model.getvalue()


class _CheckedLines:
    """The lines in a form that SentencePiece accepts; keeps the error that ended them, if any.

    The trainer's own error has only the error's message.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.fault: BaseException | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for number, line in enumerate(self._lines):
                if not isinstance(line, str):
                    raise ValueError(
                        f"`lines` must be strings. Received: lines[{number}]={repr(line)[:100]}"
                    )
                yield without_surrogates(line)
        except BaseException as error:
            self.fault = error
            raise


def _explain(message: str, vocabulary_size: int) -> str | None:
    """A clear version of the trainer's message, or None if the input is not at fault."""
    if "!sentences_.empty()" in message or "(all_chars_count) > (0)" in message:
        return "There is no text to train a vocabulary from"
    received = f"Received: vocabulary_size={vocabulary_size}"
    if "insert_id" in message:
        return f"`vocabulary_size` is too small for the special tokens. {received}"
    least = re.search(r"required_chars\. \d+ vs (\d+)", message)
    if least:
        return (
            "`vocabulary_size` is too small for the characters of the text, which need at least "
            f"{least.group(1)}. {received}"
        )
    most = re.search(r"set it to a value <= (\d+)", message)
    if most:
        return (
            "`vocabulary_size` is too large for the text, which yields at most "
            f"{most.group(1)}. {received}"
        )
    return None


def sample_lines(lines: Iterable[str], most: int, seed: int = 0) -> list[str]:
    """Draw at most `most` lines, each with the same probability, in the order of the text.

    The lines are read once, and only the sample is kept in memory. Use this for texts larger than
    memory, as `SentencePieceTokenizer.train` keeps all of its lines in memory.

    Args:
        lines: the lines; blank lines are left out.
        most: number of lines to draw; a shorter text is returned whole.
        seed: random seed; the result depends only on the arguments.

    Returns:
        The drawn lines.

    Raises:
        ValueError: `most` is not a positive integer, or `lines` is a string.

    Example:
        >>> sample_lines(["one", "", "two", "three"], most=3)
        ['one', 'two', 'three']

    Reference:
        Vitter, 1985, Random Sampling with a Reservoir, algorithm R.
    """
    check_positive_int("most", most)
    check_no_string("lines", lines)
    sample, _ = draw_some(filter(str.strip, lines), most, random.Random(seed))
    return [line for _, line in sorted(sample)]


def draw_some(
    items: Iterable[_T], most: int, generator: random.Random
) -> tuple[list[tuple[int, _T]], int]:
    """Draw at most `most` items in one pass; returns `(number, item)` pairs and the item count."""
    sample: list[tuple[int, _T]] = []  # a reservoir of equally likely items
    seen = 0
    for seen, item in enumerate(items, start=1):
        if len(sample) < most:
            sample.append((seen, item))
        elif (place := generator.randrange(seen)) < most:
            sample[place] = (seen, item)
    return sample, seen
