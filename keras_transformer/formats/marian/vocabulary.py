"""Marian's vocabularies: the ids of pieces, and SentencePiece tokenizers with these ids."""

from collections.abc import Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.formats.marian.architecture import EOS, PAD, Architecture
from keras_transformer.formats.marian.bpe_codes import CODES, read_bpe
from keras_transformer.formats.marian.yaml_texts import MOST_BYTES, MOST_PIECES, read_yaml
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.piece_vocabulary import PieceVocabulary
from keras_transformer.text.sentencepiece_model import SentencePieceModel

UNK = "<unk>"
_MOST_MODEL_BYTES = 1 << 26  # of a SentencePiece model
_MOST_PADDING = 7  # rows of a matrix beyond the vocabulary
_YAML = (".yml", ".yaml", ".json")  # as Marian tells its formats apart
SPM = ".spm"  # a SentencePiece model as Marian's own vocabulary
_FACTORS = ".fsv"


def read_vocabulary(path: Path) -> dict[str, int]:
    """Read the ids of the pieces in a Marian vocabulary, which has no padding.

    Args:
        path: YAML; a SentencePiece model, `.spm`; with other endings a list with a piece in each
            line.

    Raises:
        UserInputError: the file is missing or damaged, or its format is not supported.
    """
    if path.suffix == _FACTORS:
        raise UserInputError(
            f"The vocabulary {path} is not supported: it has factors. A SentencePiece model, a "
            ".yml file, or a list with a piece in each line, is."
        )
    if path.suffix == SPM:
        pieces = _read_spm(path)
    else:
        pieces = _read_numbers(path) if path.suffix in _YAML else _read_list(path)
    if PAD in pieces and path.suffix != SPM:
        raise UserInputError(
            f"The vocabulary {path} must not have the piece {PAD}, which comes after it."
        )
    _check_pieces(path, pieces)
    return pieces


def _read_numbers(path: Path) -> dict[str, int]:
    try:
        return {piece: int(number) for piece, number in read_yaml(path).items()}
    except (TypeError, ValueError) as error:
        if isinstance(error, UserInputError):
            raise
        raise UserInputError(f"{path} is damaged: an id is no number.") from error


def _read_spm(path: Path) -> dict[str, int]:
    try:
        pieces = spm_pieces(read_input(path, _MOST_MODEL_BYTES))
    except (RuntimeError, TypeError) as error:
        raise UserInputError(f"{path} is no SentencePiece model, or damaged.") from error
    return {piece: number for number, piece in enumerate(pieces)}


def spm_pieces(model_bytes: bytes) -> list[str]:
    """All pieces of a SentencePiece model in the order of their ids."""
    from sentencepiece import SentencePieceProcessor

    model = SentencePieceProcessor(model_proto=model_bytes)
    return [model.id_to_piece(number) for number in range(model.get_piece_size())]


def _read_list(path: Path) -> dict[str, int]:
    try:
        text = read_input(path, MOST_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{path} is damaged: it is not UTF-8.") from error
    if text.count("\n") > MOST_PIECES:
        raise UserInputError(f"The vocabulary {path} must have at most {MOST_PIECES:,} pieces.")
    # Pieces may contain anything that Python takes for the end of a line.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    pieces = {piece: number for number, piece in enumerate(lines)}
    if "" in pieces or len(pieces) < len(lines):
        raise UserInputError(f"The vocabulary {path} must not have an empty line or a line twice.")
    return pieces


def with_padding(pieces: Mapping[str, int], pad: int) -> dict[str, int]:
    """Insert padding into the ids: ids from `pad` on move up, and a gap before `pad` is filled.

    Both sides of a model have the same padding id, whatever the sizes of their vocabularies.

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
    """Make the tokenizer of one side: SentencePiece's pieces with the vocabulary's ids.

    Args:
        spm: file of the SentencePiece model, or of subword-nmt's codes, `.bpe`.
        file: file of the vocabulary, for errors.
        pieces: the ids of the pieces, including padding.
        size: number of the model's tokens; up to 7 of them may have no piece.
        architecture: gives the ids of padding and of the decoder's first input.
        eos: id of the end of a sentence.

    Raises:
        UserInputError: a file is missing or damaged, or the files do not match each other or the
            model.
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
    except UnicodeEncodeError as error:  # JSON can spell half a character
        raise UserInputError(f"The vocabulary {file} has a piece that is no text.") from error
    except UserInputError as error:
        raise UserInputError(f"{spm}: {error}") from error
    found = len(known & pieces.keys())
    if 2 * found < len(known):
        raise UserInputError(
            f"{spm} and {file} are not of one model: the vocabulary has {found:,} of the "
            f"{len(known):,} pieces of the SentencePiece model."
        )
    return tokenizer


def _check_ids(
    file: Path, pieces: Mapping[str, int], size: int, architecture: Architecture, eos: int
) -> None:
    """Require the ids of the model, whose vocabulary may be padded."""
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
    missing = next((name for name in (UNK, EOS) if name not in pieces), None)
    if missing is not None:
        raise UserInputError(f"The vocabulary {path} lacks the piece {missing}.")
    if sorted(pieces.values()) != list(range(len(pieces))):
        raise UserInputError(f"The ids of the vocabulary {path} must be 0, 1, 2 and so on.")
