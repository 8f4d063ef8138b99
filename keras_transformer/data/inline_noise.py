"""Adds emoji, addresses, numbers and symbols to sentence pairs to teach a model to copy them."""

import random
import re
import string
from collections.abc import Sequence

from keras_transformer.data.parallel_text import ChangedText

_CONTENT_VERSION = 1  # increment this when the same text and seed give different pairs


class InlineNoise(ChangedText):
    """Parallel text with identical noise added to the start or end of both sides of some pairs.

    Noise is text that a translation should copy but that is rare in training text: emoji, web and
    email addresses, long numbers and runs of symbols. A tokenizer with `byte_fallback` splits much
    of this text into bytes, so the model also sees byte tokens during training. The noise depends
    only on the text and the seed and is the same on every pass.

    Args:
        text: the parallel text; empty sides stay empty.
        share: fraction of pairs that receive noise, in [0, 1).
        seed: integer >= 0.

    Example:
        >>> from keras_transformer.data import SentencePairs
        >>> text = SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"])
        >>> list(InlineNoise(text, share=0.5, seed=1))
        [('➂➂➂ a house', '➂➂➂ ein Haus'), ('a tree', 'ein Baum')]

    Reference:
        Bogoychev et al., "OpusCleaner and OpusTrainer, open source toolkits for training Machine
        Translation and Large language models", 2023, section 3.2.
    """

    changes = f"noise {_CONTENT_VERSION}"

    def changed(self, source: str, target: str, generator: random.Random) -> tuple[str, str]:
        """Return the pair with noise."""
        if not source.strip() or not target.strip():
            return source, target
        noise = draw_noise(generator, source)
        if generator.random() < 0.5:
            return f"{noise} {source}", f"{noise} {target}"
        return f"{source} {noise}", f"{target} {noise}"


def _characters(*ranges: tuple[int, int]) -> list[str]:
    """Return all characters in inclusive ranges of code points."""
    return [chr(code) for first, last in ranges for code in range(first, last + 1)]


# Listed by code point because the Unicode data depends on the Python version.
_EMOJI = _characters(
    (0x1F300, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF), (0x2600, 0x26FF), (0x2702, 0x27B0)
)
_SYMBOLS = [*"=*-_#~.!?+|/<>@&%", *_characters((0x2190, 0x22FF), (0x2500, 0x25FF))]
_ENDINGS = "com", "org", "net", "de", "fr", "co.uk", "io", "eu", "info"


def draw_noise(generator: random.Random, sentence: str) -> str:
    """Draw random emoji, an address, a number or symbols.

    Args:
        generator: random number generator.
        sentence: sentence whose words may be used, untranslated, in addresses.
    """
    return generator.choice([_emoji, _web_address, _mail_address, _number, _run])(
        generator, re.findall("[a-z]{3,12}", sentence.lower())
    )


def _emoji(generator: random.Random, words: Sequence[str]) -> str:
    number = generator.randint(1, 4)
    if generator.random() < 0.3:
        return number * generator.choice(_EMOJI)
    return "".join(generator.choices(_EMOJI, k=number))


def _web_address(generator: random.Random, words: Sequence[str]) -> str:
    start = generator.choice(["https://", "http://", "www.", "https://www."])
    path = "".join(f"/{_name(generator, words)}" for _ in range(generator.randint(0, 2)))
    return f"{start}{_name(generator, words)}.{generator.choice(_ENDINGS)}{path}"


def _mail_address(generator: random.Random, words: Sequence[str]) -> str:
    names = [_name(generator, words) for _ in range(generator.randint(1, 2))]
    domain = f"{_name(generator, words)}.{generator.choice(_ENDINGS)}"
    return f"{generator.choice('._-').join(names)}@{domain}"


def _name(generator: random.Random, words: Sequence[str]) -> str:
    """Draw a word of the sentence, or random letters and digits."""
    if words and generator.random() < 0.5:
        return generator.choice(words)
    characters = string.ascii_lowercase + generator.choice(["", "", string.digits])
    return "".join(generator.choices(characters, k=generator.randint(3, 10)))


def _number(generator: random.Random, words: Sequence[str]) -> str:
    """Draw a number like an identifier or a phone number, which looks the same in all languages."""
    groups = [
        "".join(generator.choices(string.digits, k=generator.randint(2, 5)))
        for _ in range(generator.randint(2, 4))
    ]
    return generator.choice(["", "+"]) + generator.choice(["", "", " ", "-", "/"]).join(groups)


def _run(generator: random.Random, words: Sequence[str]) -> str:
    if generator.random() < 0.5:
        return generator.randint(2, 20) * generator.choice(_SYMBOLS)
    return "".join(generator.choices(_SYMBOLS, k=generator.randint(1, 4)))
