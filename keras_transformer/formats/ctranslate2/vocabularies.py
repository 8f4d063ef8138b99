"""The vocabularies beside a model of CTranslate2, and tokenizers with their ids."""

import dataclasses
from pathlib import Path
from typing import Self

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.files.json_files import read_record
from keras_transformer.formats.format import cannot_import
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.piece_vocabulary import PieceVocabulary
from keras_transformer.text.tokenizer_files import SOURCE_TOKENIZER, TOKENIZER

_MOST_BYTES = 1 << 26
_MOST_TOKENS = 1_000_000
_PADS = ("<blank>", "<pad>")
_ONE_FOR_BOTH = ("sentencepiece.model", "sentencepiece.bpe.model", "spm.model", TOKENIZER)
_OF_SIDES = (("source.spm", "target.spm"), (SOURCE_TOKENIZER, TOKENIZER))


class CTranslate2Config(msgspec.Struct, kw_only=True):
    """The part of config.json that counts here; the defaults are those without such a file."""

    bos_token: str = "<s>"
    eos_token: str = "</s>"
    unk_token: str = "<unk>"
    decoder_start_token: str | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: float | None = None


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The tokenizers of both sides, and the ids that a model needs.

    Attributes:
        source_tokenizer, tokenizer: the tokenizers, one object if the vocabulary is shared.
        is_shared: whether both sides have one vocabulary.
        source_size, target_size: numbers of tokens, with padding if the files lack it.
        pad, start: ids of padding, on both sides, and of the decoder's first input.
        source_eos: id of the end of a source sentence.
        adds_padding: whether padding is added to the target's vocabulary.
    """

    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    is_shared: bool
    source_size: int
    target_size: int
    pad: int
    start: int
    source_eos: int
    adds_padding: bool

    @classmethod
    def read(
        cls, folder: Path, config: CTranslate2Config, source_rows: int, target_rows: int
    ) -> Self:
        """Read the vocabularies and the SentencePiece models of a folder.

        Args:
            folder: the folder.
            config: the content of config.json.
            source_rows, target_rows: numbers of rows of the tables of embeddings.

        Raises:
            UserInputError: a file is missing or damaged, or does not fit the tables.
        """
        if config.add_source_bos:
            reason = "`add_source_bos` must be false. Received: add_source_bos=True"
            raise cannot_import(folder, reason)
        source = _tokens(folder, "source", config, source_rows)
        target = _tokens(folder, "target", config, target_rows)
        is_shared = source == target
        pad = _padding(source, target)
        adds_padding = pad >= len(target)
        source, target = (_with_padding(tokens, pad) for tokens in (source, target))
        start = config.decoder_start_token or config.bos_token
        if start not in target:
            reason = f"the target's vocabulary lacks the decoder's first token, {start[:50]!r}."
            raise cannot_import(folder, reason)
        models = _sentencepiece_models(folder, source, target, config)
        tokenizer = _tokenizer(folder, models[1], target, config, pad, start)
        if is_shared and models[0] == models[1]:
            source_tokenizer = tokenizer
        else:
            first = start if start in source else None
            source_tokenizer = _tokenizer(folder, models[0], source, config, pad, first)
        return cls(
            source_tokenizer=source_tokenizer,
            tokenizer=tokenizer,
            is_shared=is_shared,
            source_size=len(source),
            target_size=len(target),
            pad=pad,
            start=target.index(start),
            source_eos=source.index(config.eos_token),
            adds_padding=adds_padding,
        )


def _tokens(folder: Path, side: str, config: CTranslate2Config, rows: int) -> list[str]:
    """The tokens of a side in the order of their ids."""
    names = [f"{name}_vocabulary.{end}" for name in (side, "shared") for end in ("json", "txt")]
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise UserInputError(f"The folder {folder} lacks {names[0]} or {names[2]}.")
    if path.suffix == ".json":
        tokens = read_record(path, list[str])
    else:
        try:
            text = read_input(path, _MOST_BYTES).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserInputError(f"{path} is damaged: it is not UTF-8.") from error
        tokens = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if config.unk_token not in tokens:
        tokens = [*tokens, config.unk_token]  # as CTranslate2 does
    if len(tokens) > _MOST_TOKENS or len(set(tokens)) < len(tokens):
        raise UserInputError(f"The vocabulary {path} must not have a token twice.")
    if len(tokens) != rows:
        raise UserInputError(
            f"The vocabulary {path} must have the {rows:,} tokens of the model. "
            f"Received: {len(tokens):,} tokens"
        )
    if config.eos_token not in tokens:
        raise UserInputError(f"The vocabulary {path} lacks the token {config.eos_token[:50]!r}.")
    return tokens


def _padding(source: list[str], target: list[str]) -> int:
    """The id of padding on both sides: one that they have, or the first behind both."""
    for name in _PADS:
        if name in source and name in target and source.index(name) == target.index(name):
            return source.index(name)
    return max(len(source), len(target))


def _with_padding(tokens: list[str], pad: int) -> list[str]:
    """The tokens with padding among them; a gap before it is filled."""
    if pad < len(tokens):
        return tokens
    gap = [f"<unused{number}>" for number in range(len(tokens), pad)]
    return [*tokens, *gap, "<padding>"]


def _sentencepiece_models(
    folder: Path, source: list[str], target: list[str], config: CTranslate2Config
) -> tuple[bytes, bytes]:
    """The SentencePiece models of both sides; without files, those of tokens between spaces."""
    for place in (folder, folder.parent):
        for names in _OF_SIDES:
            if all((place / name).exists() for name in names):
                found = [read_input(place / name, _MOST_BYTES) for name in names]
                return found[0], found[1]
        for name in _ONE_FOR_BOTH:
            if (place / name).exists():
                content = read_input(place / name, _MOST_BYTES)
                return content, content
    special = {config.bos_token, config.eos_token, config.unk_token, *_PADS}
    one, other = (
        _words_model([token for token in tokens if token not in special])
        for tokens in (source, target)
    )
    return one, other


def _words_model(tokens: list[str]) -> bytes:
    """A SentencePiece model whose pieces are tokens that stand between spaces."""
    from keras_transformer.text.sentencepiece_training import train_model

    return train_model(
        tokens,
        vocab_size=len(tokens) + 4,
        model_type="word",
        byte_fallback=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=True,
        character_coverage=1.0,
        user_defined_symbols=[],
    )


def _tokenizer(
    folder: Path,
    model_bytes: bytes,
    tokens: list[str],
    config: CTranslate2Config,
    pad: int,
    start: str | None,
) -> SentencePieceTokenizer:
    """The tokenizer of one side: SentencePiece's pieces with the vocabulary's ids."""
    own = PieceVocabulary.left_out(model_bytes)
    if own != model_bytes:  # one of this package, with ids of its own
        return SentencePieceTokenizer(model_bytes)
    try:
        plain = SentencePieceTokenizer(model_bytes)
        names = plain.pieces(range(plain.vocabulary_size))
        if names[4:] == tokens[4 : len(names)]:  # an export of this package
            return plain
    except UserInputError:
        pass  # it has no ids for the special tokens: the vocabulary has
    pieces = _as_pieces(tokens, model_bytes, config)
    vocabulary = PieceVocabulary(
        tuple(pieces),
        pad=pad,
        eos=tokens.index(config.eos_token),
        unk=tokens.index(config.unk_token),
        bos=None if start is None else tokens.index(start),
    )
    try:
        return SentencePieceTokenizer(vocabulary.within(model_bytes))
    except UserInputError as error:
        raise UserInputError(f"The SentencePiece model of {folder}: {error}") from error


def _as_pieces(tokens: list[str], model_bytes: bytes, config: CTranslate2Config) -> list[str]:
    """The tokens as SentencePiece spells them: words between spaces have a mark before them."""
    from keras_transformer.text.sentencepiece_model import SentencePieceModel

    model = SentencePieceModel.read(model_bytes)
    if model.model_type != "word":
        return tokens
    return [f"\u2581{token}" if f"\u2581{token}" in model.ids else token for token in tokens]
