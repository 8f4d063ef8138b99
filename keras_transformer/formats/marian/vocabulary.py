"""Vocabularies of Marian models: SentencePiece and BPE codes from subword-nmt.

The end of a word is part of its last piece, as in SentencePiece with white space as a suffix.
SentencePiece merges any two adjacent symbols that form a piece, whereas subword-nmt merges only the
pairs in its list. On real text, the results are identical; see docs/lab/exports.md.

Reference: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword
    Units", 2016; https://github.com/rsennrich/subword-nmt.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.configurations import (
    EOS,
    MOST_BYTES,
    MOST_PIECES,
    PAD,
    Architecture,
    read_yaml,
)
from keras_transformer.input_files import read_input, read_lines
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import (
    TAG,
    PieceVocabulary,
    SentencePieceModel,
    bytes_field,
    check_lengths,
    float_field,
    varint_field,
)
from keras_transformer.text.sentencepiece_tokenizer import load_processor
from keras_transformer.text.subword_sampler import SPACE

CODES = ".bpe"
_VERSION = "#version: 0.2"
_END = "</w>"  # end-of-word marker in the codes
_GOES_ON = "@@"  # suffix of vocabulary tokens that do not end a word
_SPECIAL = ("<unk>", "</s>", "<s>", "<pad>")
# Fields and values of sentencepiece_model.proto.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_UNKNOWN, _CONTROL = 2, 3
_BPE = varint_field(3, 2)
_SPACE_AS_SUFFIX = varint_field(24, 1)
# The ids of <unk>, the start token (none), </s> and padding.
_IDS = b"".join(varint_field(40 + place, number) for place, number in enumerate((0, -1, 1, -1)))
_IDENTITY = bytes_field(1, b"identity") + b"".join(varint_field(field, 1) for field in (3, 4, 5))


def read_bpe(path: Path, tokens: Mapping[str, int]) -> tuple[bytes, dict[str, int]]:
    """Convert the BPE codes of one side to a SentencePiece model.

    Args:
        path: file of codes with the header `#version: 0.2` and one merge per line, best first.
        tokens: ids of the vocabulary tokens.

    Returns:
        The bytes of the SentencePiece model, and a dict that maps its pieces to token ids.

    Raises:
        UserInputError: the file is missing or damaged, or a token cannot be a piece.
    """
    merges = _read_merges(path)
    pieces = {_piece(token): number for token, number in tokens.items()}
    if len(pieces) < len(tokens):
        raise UserInputError(f"The vocabulary of {path} must not contain the character {SPACE}.")
    characters = {*"".join(merges).replace(_END, "")}
    characters |= {token[0] for token in pieces if len(token.removesuffix(SPACE)) == 1}
    characters.discard(SPACE)
    # Merge the last character of each word with the end-of-word marker first.
    ranked = [f"{character}{SPACE}" for character in sorted(characters)]
    ranked += [merged.replace(_END, SPACE) for merged in merges]
    ranked += sorted(characters)
    scores: dict[str, float] = {}
    for rank, piece in enumerate(ranked):
        if piece not in _SPECIAL:
            scores.setdefault(piece, -float(rank))
    model = _piece_field("<unk>", 0.0, _UNKNOWN) + _piece_field("</s>", 0.0, _CONTROL)
    model += b"".join(_piece_field(piece, score) for piece, score in scores.items())
    model += bytes_field(_TRAINER, _BPE + _SPACE_AS_SUFFIX + _IDS)
    return model + bytes_field(_NORMALIZER, _IDENTITY), pieces


def _read_merges(path: Path) -> list[str]:
    """Return the result of each merge."""
    lines = read_lines(path, MOST_BYTES)
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    version = lines[0].rstrip(" ")
    if version != _VERSION:
        raise UserInputError(
            f"The codes {path} must start with {_VERSION}. Received: {version[:50]!r}"
        )
    if len(lines) > MOST_PIECES:
        raise UserInputError(f"The codes {path} must have at most {MOST_PIECES:,} merges.")
    merges = []
    for number, line in enumerate(lines[1:], 2):
        merge = line.rstrip(" ").split(" ")
        if len(merge) != 2 or not all(merge) or SPACE in line:
            raise UserInputError(
                f"Line {number} of {path} must be a merge of two symbols. "
                f"Received: {' '.join(merge)[:50]!r}"
            )
        merges.append("".join(merge))
    return merges


def _piece(token: str) -> str:
    if token in _SPECIAL or re.fullmatch(TAG, token):
        return token
    return token.removesuffix(_GOES_ON) if token.endswith(_GOES_ON) else token + SPACE


def _piece_field(text: str, score: float, kind: int | None = None) -> bytes:
    content = bytes_field(1, text.encode("utf-8")) + float_field(2, score)
    return bytes_field(_PIECE, content + (b"" if kind is None else varint_field(3, kind)))


UNK = "<unk>"
_MOST_MODEL_BYTES = 1 << 26  # limit for a SentencePiece model
_MOST_PADDING = 7  # maximum number of matrix rows beyond the vocabulary
_YAML = (".yml", ".yaml", ".json")  # Marian also uses the file suffix
SPM = ".spm"  # suffix of Marian vocabularies that are SentencePiece models
_FACTORS = ".fsv"


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read the piece ids of a Marian vocabulary, which does not include padding.

    Args:
        path: YAML file, `.spm` file (a SentencePiece model) or, with other suffixes, a list with
            one piece per line.

    Raises:
        UserInputError: the file is missing, damaged or in an unsupported format.
    """
    if path.suffix == _FACTORS:
        raise UserInputError(
            f"The vocabulary {path} is not supported: it has factors. Supported are a "
            "SentencePiece model, a .yml file, or a list with one piece per line."
        )
    if path.suffix == SPM:
        pieces = _read_spm(path)
    else:
        pieces = _read_numbers(path) if path.suffix in _YAML else _read_list(path)
    if PAD in pieces and path.suffix != SPM:
        raise UserInputError(
            f"The vocabulary {path} must not contain the piece {PAD}, which comes after it."
        )
    _check_pieces(path, pieces)
    return pieces


def _read_numbers(path: Path) -> dict[str, int]:
    values = read_yaml(path)
    try:
        return {piece: int(number) for piece, number in values.items()}
    except (TypeError, ValueError) as error:
        raise UserInputError(f"{path} is damaged: an id is not a number.") from error


def _read_spm(path: Path) -> dict[str, int]:
    try:
        pieces = spm_pieces(read_input(path, _MOST_MODEL_BYTES))
    except UserInputError as error:
        raise UserInputError(
            f"{path} is not a SentencePiece model, or it is damaged: {error}."
        ) from error
    return {piece: number for number, piece in enumerate(pieces)}


def spm_pieces(model_bytes: bytes) -> list[str]:
    """Return all pieces of a SentencePiece model in id order."""
    model = load_processor(model_bytes)
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def _read_list(path: Path) -> dict[str, int]:
    lines = read_lines(path, MOST_BYTES)
    if len(lines) > MOST_PIECES:
        raise UserInputError(f"The vocabulary {path} must have at most {MOST_PIECES:,} pieces.")
    pieces = {piece: number for number, piece in enumerate(lines)}
    if "" in pieces or len(pieces) < len(lines):
        raise UserInputError(
            f"The vocabulary {path} must not contain an empty line or a line twice."
        )
    return pieces


def with_padding(pieces: Mapping[str, int], pad: int) -> dict[str, int]:
    """Insert a padding id. Ids from `pad` upward are shifted, and a gap before `pad` is filled.

    Both sides of a model use the same padding id, regardless of their vocabulary sizes.

    Example:
        >>> with_padding({"a": 0, "b": 1}, 1)
        {'a': 0, 'b': 2, '<pad>': 1}
        >>> with_padding({"a": 0, "b": 1}, 3)
        {'a': 0, 'b': 1, '<unused2>': 2, '<pad>': 3}
    """
    if pieces.get(PAD) == pad:
        return dict(pieces)
    found = {piece: number + (number >= pad) for piece, number in pieces.items()}
    found |= {f"<unused{number}>": number for number in range(len(pieces), pad)}
    return found | {PAD: pad}


def make_tokenizer(
    spm: Path,
    file: Path,
    pieces: Mapping[str, int],
    size: int,
    architecture: Architecture,
    eos: int,
) -> SentencePieceTokenizer:
    """Create one side's tokenizer from SentencePiece pieces and the vocabulary's ids.

    Args:
        spm: SentencePiece model file, or `.bpe` file with subword-nmt codes.
        file: vocabulary file, for error messages.
        pieces: piece ids, including padding.
        size: number of tokens in the model; up to 7 of them may lack a piece.
        architecture: architecture with the ids of padding and the decoder's first input.
        eos: end-of-sentence id.

    Raises:
        UserInputError: a file is missing or damaged, or does not match the other file or the model.
    """
    _check_ids(file, pieces, size, architecture, eos)
    if spm.suffix == CODES:
        model_bytes, pieces = read_bpe(spm, pieces)
    else:
        model_bytes = read_input(spm, _MOST_MODEL_BYTES)
    by_id = {number: piece for piece, number in pieces.items()}
    vocabulary = PieceVocabulary(
        tuple(by_id[number] for number in range(len(pieces))),
        pad=architecture.pad,
        eos=eos,
        unk=pieces[UNK],
        bos=None if architecture.start == architecture.pad else architecture.start,
        right_to_left=architecture.right_to_left,
    )
    try:
        tokenizer = SentencePieceTokenizer(vocabulary.within(model_bytes))
        known = SentencePieceModel.read(model_bytes).ids.keys()
    except UnicodeEncodeError as error:  # JSON can represent half a surrogate pair
        raise UserInputError(f"The vocabulary {file} contains a piece that is not text.") from error
    except UserInputError as error:
        raise UserInputError(f"{spm}: {error}") from error
    found = len(known & pieces.keys())
    if 2 * found < len(known):
        raise UserInputError(
            f"{spm} and {file} are from different models: the vocabulary contains {found:,} of the "
            f"{len(known):,} pieces of the SentencePiece model."
        )
    return tokenizer


def _check_ids(
    file: Path, pieces: Mapping[str, int], size: int, architecture: Architecture, eos: int
) -> None:
    """Require that the ids match the model, whose vocabulary may be padded."""
    _check_pieces(file, pieces)
    if PAD not in pieces:
        raise UserInputError(f"The vocabulary {file} lacks the piece {PAD}.")
    if not size - _MOST_PADDING <= len(pieces) <= size:
        raise UserInputError(
            f"The vocabulary {file} must have the {size:,} tokens of the model. "
            f"Received: {len(pieces):,} pieces"
        )
    for name, number in {PAD: architecture.pad, EOS: eos}.items():
        if pieces[name] != number:
            raise UserInputError(
                f"The piece {name} in {file} must have the model's id {number}. "
                f"Received: {pieces[name]}"
            )
    if not 0 <= architecture.start < len(pieces):
        raise UserInputError(
            f"The vocabulary {file} lacks the decoder's first input, id {architecture.start}."
        )


def _check_pieces(path: Path, pieces: Mapping[str, int]) -> None:
    check_lengths(path, pieces)
    missing = next((name for name in (UNK, EOS) if name not in pieces), None)
    if missing is not None:
        raise UserInputError(f"The vocabulary {path} lacks the piece {missing}.")
    if sorted(pieces.values()) != list(range(len(pieces))):
        raise UserInputError(f"The ids of the vocabulary {path} must be 0, 1, 2 and so on.")
