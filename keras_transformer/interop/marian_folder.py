"""A Marian model on disk, in Hugging Face's form or in Marian's own."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.files.json_files import read_record
from keras_transformer.files.tensor_files import open_tensors
from keras_transformer.interop.marian_architecture import (
    Architecture,
    read_hugging_face,
    read_native,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.piece_vocabulary import PieceVocabulary
from keras_transformer.types import PathLike

MODEL_YML = "special:model.yml"
_MOST_BYTES = 1 << 26  # of a vocabulary
_MOST_PADDING = 7  # rows of a matrix beyond the vocabulary
_DEEPEST = 20  # collections of a YAML within each other
PAD, UNK, EOS = "<pad>", "<unk>", "</s>"


@dataclasses.dataclass(frozen=True)
class MarianFolder:
    """What a folder holds, without its tensors.

    Attributes:
        path: the folder.
        architecture: the `Architecture`.
        tensors_path: the file of the tensors.
        source_tokenizer, tokenizer: the tokenizers of both sides.
        is_native: whether the tensors have Marian's own names.
    """

    path: Path
    architecture: Architecture
    tensors_path: Path
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    is_native: bool


def open_marian(directory: PathLike) -> MarianFolder:
    """Read all but the tensors of a folder.

    Args:
        directory: a Hugging Face folder (config.json, model.safetensors or pytorch_model.bin,
            source.spm, target.spm, vocab.json), or one of Marian (model.npz, decoder.yml,
            vocab.yml, source.spm, target.spm).

    Raises:
        UserInputError: a file is missing or damaged, or the model has an option that this package
            lacks.
    """
    path = Path(directory)
    if not path.is_dir():
        raise UserInputError(f"There is no folder {path} with a model of Marian.")
    if (path / "config.json").exists():
        return _open_hugging_face(path)
    if list(path.glob("*.npz")) or (path / "decoder.yml").exists():
        return _open_native(path)
    raise UserInputError(
        f"The folder {path} holds no model of Marian: neither config.json nor decoder.yml and a "
        "model.npz."
    )


def _open_hugging_face(path: Path) -> MarianFolder:
    architecture = read_hugging_face(path)
    tensors = [path / name for name in ("model.safetensors", "pytorch_model.bin")]
    found = next((file for file in tensors if file.exists()), None)
    if found is None:
        raise UserInputError(f"The folder {path} lacks model.safetensors or pytorch_model.bin.")
    pieces = read_record(path / "vocab.json", dict[str, int])
    target_path = path / "target_vocab.json"  # of a target with a vocabulary of its own
    target_pieces = read_record(target_path, dict[str, int]) if target_path.exists() else pieces
    options = architecture.options
    target_size = options["vocabulary_size"]
    sides = (
        ("source.spm", path / "vocab.json", pieces, options["source_vocabulary_size"]),
        (
            "target.spm",
            target_path if target_path.exists() else path / "vocab.json",
            target_pieces,
            target_size,
        ),
    )
    tokenizers = [
        _tokenizer(path / spm, file, vocabulary, size or target_size, architecture)
        for spm, file, vocabulary, size in sides
    ]
    source_tokenizer, tokenizer = tokenizers
    return MarianFolder(path, architecture, found, source_tokenizer, tokenizer, is_native=False)


def _open_native(path: Path) -> MarianFolder:
    decoder_path = path / "decoder.yml"
    decoder = _read_yaml(decoder_path) if decoder_path.exists() else {}
    model = _named(path, decoder, "models", "*.npz", "model.npz")
    vocabulary_path = _named(path, decoder, "vocabs", "*vocab.yml", "vocab.yml")
    numbers = _read_yaml(vocabulary_path)
    try:
        pieces = {piece: int(number) for piece, number in numbers.items()}
    except (TypeError, ValueError) as error:
        raise UserInputError(f"{vocabulary_path} is damaged: an id is no number.") from error
    if PAD in pieces:
        raise UserInputError(
            f"The vocabulary {vocabulary_path} must not have the piece {PAD}, which comes after it."
        )
    with open_tensors(model) as tensors:
        if MODEL_YML not in tensors.names:
            raise UserInputError(f"The file {model} lacks Marian's configuration, {MODEL_YML}.")
        content = tensors.read(MODEL_YML).astype("uint8").tobytes().rstrip(b"\0")
    config = _parse_yaml(model, content)
    eos = pieces.get(EOS, 0)
    architecture = read_native(model, config, decoder, len(pieces), eos)
    pieces[PAD] = len(pieces)
    size = architecture.options["vocabulary_size"]
    tokenizers = [
        _tokenizer(path / name, vocabulary_path, pieces, size, architecture)
        for name in ("source.spm", "target.spm")
    ]
    source_tokenizer, tokenizer = tokenizers
    return MarianFolder(path, architecture, model, source_tokenizer, tokenizer, is_native=True)


def _named(path: Path, decoder: Mapping[str, Any], key: str, pattern: str, usual: str) -> Path:
    """The file that decoder.yml names first, or the only one of its kind."""
    named = decoder.get(key)
    if isinstance(named, list) and named and isinstance(named[0], str):
        if not named[0].isprintable():
            raise UserInputError(f"{path / 'decoder.yml'} is damaged: `{key}` names no file.")
        # Models are moved: the name counts, not the folder.
        return path / Path(named[0]).name
    found = sorted(path.glob(pattern))
    if len(found) != 1:
        raise UserInputError(
            f"The folder {path} must have one file {usual}. Received: "
            f"{', '.join(file.name for file in found) or 'none'}"
        )
    return found[0]


def _tokenizer(
    spm: Path, file: Path, pieces: Mapping[str, int], size: int, architecture: Architecture
) -> SentencePieceTokenizer:
    """The tokenizer of one side: SentencePiece's pieces with the vocabulary's ids."""
    by_id = {number: piece for piece, number in pieces.items()}
    missing = next((name for name in (PAD, UNK, EOS) if name not in pieces), None)
    if missing is not None:
        raise UserInputError(f"The vocabulary {file} lacks the piece {missing}.")
    if sorted(by_id) != list(range(len(pieces))):
        raise UserInputError(f"The ids of the vocabulary {file} must be 0, 1, 2 and so on.")
    if not size - _MOST_PADDING <= len(pieces) <= size:
        raise UserInputError(
            f"The vocabulary {file} must have the {size:,} tokens of the model. "
            f"Received: {len(pieces):,} pieces"
        )
    expected = {PAD: architecture.pad, EOS: architecture.eos}
    for name, number in expected.items():
        if pieces[name] != number:
            raise UserInputError(
                f"The piece {name} in {file} must have the model's id {number}. "
                f"Received: {pieces[name]}"
            )
    if architecture.start not in by_id:
        raise UserInputError(
            f"The vocabulary {file} lacks the decoder's first input, id {architecture.start}."
        )
    vocabulary = PieceVocabulary(
        tuple(by_id[number] for number in range(len(pieces))),
        pad=architecture.pad,
        eos=architecture.eos,
        unk=pieces[UNK],
        bos=None if architecture.start == architecture.pad else architecture.start,
    )
    model_bytes = read_input(spm, _MOST_BYTES)
    try:
        return SentencePieceTokenizer(vocabulary.within(model_bytes))
    except UnicodeEncodeError as error:  # JSON can spell half a character
        raise UserInputError(f"The vocabulary {file} has a piece that is no text.") from error
    except UserInputError as error:
        raise UserInputError(f"{spm}: {error}") from error


def _read_yaml(path: Path) -> dict[str, Any]:
    return _parse_yaml(path, read_input(path, _MOST_BYTES))


def _parse_yaml(path: Path, content: bytes) -> dict[str, Any]:
    """The mapping in a YAML text, all of its values as texts; it may be hostile."""
    try:
        import yaml
    except ImportError as error:
        raise UserInputError(
            f"Reading Marian's files needs the package PyYAML: {pip_install('interop')}"
        ) from error
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    depth = 0
    try:
        for event in yaml.parse(content, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            # Deep nesting crashes PyYAML, and a few lines of aliases mean a billion values.
            if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
                raise ValueError("it is no configuration and no vocabulary")
        value = yaml.load(content, Loader=loader)  # makes texts alone
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserInputError(f"{path} is damaged: its YAML cannot be read.") from error
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise UserInputError(f"{path} is damaged: it must hold names and values.")
    return value
