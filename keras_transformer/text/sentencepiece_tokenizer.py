"""A SentencePiece vocabulary shared by source and target: training, loading, encoding, decoding."""

import functools
import hashlib
import re

from keras_transformer.argument_checks import (
    check_no_string,
    check_one_of,
    check_positive_int,
)
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.files.whole_files import write_bytes
from keras_transformer.text.sentencepiece_loading import load_processor, special_tokens_of
from keras_transformer.text.sentencepiece_training import train_model
from keras_transformer.text.subword_sampler import SPACE, SubwordSampler

MODEL_TYPES = ("bpe", "unigram")
NORMALIZATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")

_RESERVED_SYMBOL = re.compile("<pad>|<s>|</s>|<unk>|<0x[0-9A-Fa-f]{2}>")

_MOST_BYTES = 1 << 26  # of a model; one of 256,000 pieces has some 5 million


class SentencePieceTokenizer:
    """Subword tokenizer on the `sentencepiece` library; needs no TensorFlow.

    Args:
        model_bytes: a serialized SentencePiece model with padding, begin-of-sentence,
            end-of-sentence and unknown tokens.

    Raises:
        UserInputError: the bytes are no SentencePiece model, its scores are not finite, or one of
            the four tokens is missing or is another one's as well.

    Example:
        >>> lines = ["a small house", "a small tree", "the house and the tree"]
        >>> tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=40)
        >>> tokenizer.decode(tokenizer.encode(["the small house"]))
        ['the small house']

    Reference:
        Kudo and Richardson, 2018, SentencePiece: https://arxiv.org/abs/1808.06226
    """

    output = "text"  # what `decode` gives

    def __init__(self, model_bytes):
        self.model_bytes = bytes(model_bytes)
        self._processor = load_processor(self.model_bytes)
        self.special_tokens = special_tokens_of(self._processor)
        self.vocabulary_size = self._processor.get_piece_size()
        self.fingerprint = hashlib.sha256(self.model_bytes).hexdigest()

    @classmethod
    def train(
        cls,
        lines,
        path=None,
        *,
        vocabulary_size,
        model_type="bpe",
        byte_fallback=False,
        normalization="nmt_nfkc",
        character_coverage=1.0,
        user_defined_symbols=(),
    ):
        """Train a tokenizer; the same lines and settings give the same bytes.

        Args:
            lines: iterable of strings, source and target lines together.
            path: file to write the model to, or None.
            vocabulary_size: number of ids, the special ones included.
            model_type: `"bpe"` or `"unigram"`.
            byte_fallback: spell an unknown character in bytes instead of the unknown token;
                takes 256 ids.
            normalization: what SentencePiece does to the text first. `"nmt_nfkc"` folds widths,
                ligatures and control characters and joins spaces; `"identity"` leaves every
                character and space as it is.
            character_coverage: share of the characters that get an id of their own.
            user_defined_symbols: strings that always become one token each.

        Returns:
            A `SentencePieceTokenizer`.

        Raises:
            UserInputError: no text, or `vocabulary_size` does not suit the text.
        """
        check_positive_int("vocabulary_size", vocabulary_size)
        check_one_of("model_type", model_type, MODEL_TYPES)
        check_one_of("normalization", normalization, NORMALIZATIONS)
        _check_coverage(character_coverage)
        check_symbols("user_defined_symbols", user_defined_symbols)
        check_no_string("lines", lines)
        model_bytes = train_model(
            lines,
            vocab_size=vocabulary_size,
            model_type=model_type,
            byte_fallback=byte_fallback,
            normalization_rule_name=normalization,
            remove_extra_whitespaces=normalization != "identity",
            character_coverage=character_coverage,
            user_defined_symbols=list(user_defined_symbols),
        )
        tokenizer = cls(model_bytes)
        if path is not None:
            tokenizer.save(path)
        return tokenizer

    @classmethod
    def load(cls, path):
        """Load the SentencePiece model file `path`, of at most 64 MB."""
        model_bytes = read_input(path, _MOST_BYTES)
        try:
            return cls(model_bytes)
        except UserInputError as error:
            raise UserInputError(f"{path}: {error}") from error

    def save(self, path):
        """Write the model to `path`, whole or not at all."""
        write_bytes(path, self.model_bytes)

    def encode(self, sentences):
        """Turn sentences into token ids, without begin or end of sentence.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of int, one a sentence.
        """
        check_no_string("sentences", sentences)
        return self._processor.encode(list(sentences), out_type=int)

    def sample(self, sentences, *, alpha, seed):
        """Turn sentences into token ids by a segmentation drawn at random, for training.

        The model then sees a word in several segmentations, each of which decodes to the same
        text. The result depends on the arguments alone, in every process and on every machine.

        Args:
            sentences: list of strings.
            alpha: number in [0, 1]. For a BPE vocabulary the probability of dropping a merge: 0 is
                `encode`, 1 gives characters, the paper takes 0.1. For a unigram vocabulary the
                power that the probabilities of segmentations are raised to: 0 draws them all
                alike, 1 as the vocabulary weighs them, the paper takes 0.2.
            seed: integer >= 0.

        Returns:
            A list of lists of int, one a sentence.

        Raises:
            UserInputError: the model is neither a BPE nor a unigram one.

        Example:
            >>> tokenizer = SentencePieceTokenizer.train(["houses and trees"], vocabulary_size=20)
            >>> ids = tokenizer.sample(["trees and houses"], alpha=0.5, seed=1)
            >>> tokenizer.decode(ids)
            ['trees and houses']

        Reference:
            [BPE-Dropout](https://arxiv.org/abs/1910.13267);
            [Subword Regularization](https://arxiv.org/abs/1804.10959) for unigram vocabularies.
        """
        check_no_string("sentences", sentences)
        return self._sampler.sample(list(sentences), alpha=alpha, seed=seed)

    def decode(self, ids):
        """Turn token ids back into sentences; padding, begin and end of sentence leave no trace.

        Args:
            ids: list of sequences of int, or an int array `(sentences, length)`.

        Returns:
            A list of strings. The unknown token reads " ⁇ ".
        """
        rows = [[int(token) for token in row] for row in ids]
        # The library takes an empty list for one sentence, not for none.
        return self._processor.decode(rows) if rows else []

    def pieces(self, ids):
        """The vocabulary's own spelling of the sequence of ids `ids`, such as `["▁house", "s"]`."""
        return [self._processor.id_to_piece(int(token)) for token in ids]

    @functools.cached_property
    def word_starts(self):
        """The ids that a word begins with: the pieces that begin with a space, and EOS.

        A tuple of int, fit for `build_transformer(positions="words", source_word_starts=...)`.
        Where the numbers of words must be those of the text, as for a parser, train the tokenizer
        with `normalization="identity"`: else a no-break space parts a word, and a word of
        zero-width characters is lost.
        """
        pieces = self.pieces(range(self.vocabulary_size))
        spaces = [number for number, piece in enumerate(pieces) if piece.startswith(SPACE)]
        return (self.special_tokens.eos, *spaces)

    @functools.cached_property
    def _sampler(self):
        return SubwordSampler(self._processor, self.model_bytes)


def check_symbols(name, symbols):
    """Require user-defined symbols that differ from each other and from what a model has anyway."""
    symbols = list(symbols)
    reserved = [symbol for symbol in symbols if _RESERVED_SYMBOL.fullmatch(symbol)]
    if reserved or len(set(symbols)) < len(symbols):
        raise UserInputError(
            f"`{name}` must be different from each other and from <pad>, <s>, </s>, <unk> and "
            f"bytes like <0x41>. Received: {name}={symbols}"
        )


def _check_coverage(character_coverage):
    # SentencePiece's own bounds, which it reports as a failed assertion.
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            "`character_coverage` must be a number in [0.98, 1]. "
            f"Received: character_coverage={character_coverage!r}"
        )
