"""Reader for CTranslate2's `model.bin` and vocabularies, which may be malicious.

Integers are little-endian. A file contains its version, the name and revision of its specification,
a sequence of variables (name, shape, type, length, contents) and aliases of variables.

Reference: `src/models/model.cc` of CTranslate2.
"""

import contextlib
import dataclasses
import functools
import io
import itertools
import math
import os
import re
from pathlib import Path
from typing import Self

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import cannot_import
from keras_transformer.input_files import MOST_BYTES, read_input, read_lines, read_record
from keras_transformer.runs.tensor_files import (
    MOST_TENSORS,
    StoredTensor,
    TensorFile,
    opened,
    row_strides,
    stored_tensor,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import (
    PieceVocabulary,
    SentencePieceModel,
    check_lengths,
)
from keras_transformer.text.sentencepiece_tokenizer import (
    SOURCE_TOKENIZER,
    TOKENIZER,
    load_processor,
)

_NEWEST = 6
_MOST_AXES = 8
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_OF_SIZE = {4: "float32", 1: "int8", 2: "int16"}  # before version 4, which added the type
_ITEM_SIZES = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
SCALE = "_scale"  # suffix of the name of an integer matrix's divisor
# OpenNMT-tf names used in version 1, applied in this order.
_RENAMED = (
    (r"^transformer/|:0$", ""),
    (r"^decoder/dense/", "decoder/projection/"),
    (r"w_embs", "embeddings/weight"),
    (r"^encoder/(layer_\d+)/multi_head/", r"encoder/\1/self_attention/"),
    (r"^decoder/(layer_\d+)/multi_head/", r"decoder/\1/attention/"),
    (r"masked_multi_head", "self_attention"),
    (r"conv1d_(\d+)", r"linear_\1"),
    (r"conv1d", "linear_0"),
    (r"kernel", "weight"),
    (r"LayerNorm", "layer_norm"),
)


class CTranslate2File(TensorFile):
    """An open file, created by `open_ctranslate2`.

    Integers with a scale (8 and 16 bits) are read as float32. `names` includes aliases but excludes
    the scales of other variables.

    Attributes:
        specification: name of the model type, such as "TransformerSpec"; empty in version 1.
    """

    def __init__(
        self,
        path: Path,
        specification: str,
        file: io.BufferedReader,
        variables: dict[str, StoredTensor],
    ) -> None:
        scales = {f"{name}{SCALE}" for name in variables}
        super().__init__(path, file, {n: v for n, v in variables.items() if n not in scales})
        self.specification = specification

    def is_same(self, name: str, other: str) -> bool:
        """Return whether two names refer to the same variable."""
        return self._find(name) == self._find(other)

    def scalar(self, name: str, default: float) -> float:
        """Return the value of a scalar variable, or the default if the variable is missing."""
        if name not in self.names:
            return default
        if self.shape(name):
            raise UserInputError(f"The variable {name[:100]!r} of {self.path} must be one number.")
        return float(self.read(name))


def open_ctranslate2(path: Path) -> contextlib.AbstractContextManager[CTranslate2File]:
    """Check that the declared contents fit the file size, and open it without reading variables.

    Raises:
        UserInputError: the file cannot be read, is damaged or has an unsupported newer version.
    """
    fault = f"The file {path} is not a CTranslate2 model, or it is damaged"
    return opened(path, fault, functools.partial(_read, path))


def _read(path: Path, file: io.BufferedReader) -> CTranslate2File:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    version = _integer(file, 4)
    if not 1 <= version <= _NEWEST:
        raise ValueError(f"it has version {version}; versions from 1 to {_NEWEST} are supported")
    specification = ""
    if version >= 2:
        specification = _text(file)
        _integer(file, 4)  # the revision
    variables: dict[str, StoredTensor] = {}
    for _ in range(_number(file)):
        name = _text(file)
        if version == 1:
            name = _renamed(name)
        if name in variables:
            raise ValueError(f"the variable {name[:100]!r} occurs twice")
        variables[name] = _variable(file, name, version, size)
    origins: dict[str, str] = {}
    for _ in range(_number(file) if version >= 3 else 0):
        alias, name = _text(file), _text(file)
        if name not in variables:
            raise ValueError(f"the alias {alias[:100]!r} does not refer to a variable")
        variables[alias], origins[alias] = variables[name], name
    for name, variable in variables.items():
        origin = origins.get(name, name)
        scale = variables.get(f"{name}{SCALE}") or variables.get(f"{origin}{SCALE}")
        if scale is not None and variable.dtype in ("int8", "int16"):
            variables[name] = dataclasses.replace(variable, scale=scale)
    return CTranslate2File(path, specification, file, variables)


def _variable(file: io.BufferedReader, name: str, version: int, size: int) -> StoredTensor:
    """Read the description of a variable and skip its contents."""
    axes = _integer(file, 1)
    if axes > _MOST_AXES:
        raise ValueError(f"a variable has {axes} axes")
    shape = tuple(_integer(file, 4) for _ in range(axes))
    number = _integer(file, 1)
    length = _integer(file, 4)
    dtype = _OF_SIZE.get(number) if version < 4 else dict(enumerate(_TYPES)).get(number)
    if dtype is None:
        raise ValueError(f"a variable has the type {number}")
    items = length if version < 4 else length // _ITEM_SIZES[dtype]
    if math.prod(shape) != items:
        raise ValueError(f"a variable of shape {shape} has {items:,} numbers")
    end = file.tell() + items * _ITEM_SIZES[dtype]
    if end > size:
        raise ValueError(f"the variable {name[:100]!r} does not fit into the file")
    variable = stored_tensor(name, dtype, shape, row_strides(shape), file.tell(), end)
    file.seek(end)
    return variable


def _renamed(name: str) -> str:
    for pattern, new in _RENAMED:
        name = re.sub(pattern, new, name)
    return name


def _integer(file: io.BufferedReader, size: int) -> int:
    content = file.read(size)
    if len(content) < size:
        raise EOFError("it ends early")
    return int.from_bytes(content, "little")


def _number(file: io.BufferedReader) -> int:
    number = _integer(file, 4)
    if number > MOST_TENSORS:
        raise ValueError(f"it has {number:,} variables, more than {MOST_TENSORS:,}")
    return number


def _text(file: io.BufferedReader) -> str:
    length = _integer(file, 2)
    content = file.read(length)
    if len(content) < length:
        raise EOFError("it ends early")
    return content.rstrip(b"\0").decode("utf-8")


_MOST_MODEL_BYTES = 1 << 26  # maximum size of a SentencePiece model
_PADS = ("<blank>", "<pad>")
_ONE_FOR_BOTH = ("sentencepiece.model", "sentencepiece.bpe.model", "spm.model", TOKENIZER)
_OF_SIDES = (("source.spm", "target.spm"), (SOURCE_TOKENIZER, TOKENIZER))
_VOCABULARIES = [
    f"{name}_vocabulary.{end}" for name in ("source", "target", "shared") for end in ("json", "txt")
]
# The model files that are read.
FILES = {"model.bin", "config.json", *_VOCABULARIES, *_ONE_FOR_BOTH, *itertools.chain(*_OF_SIDES)}


class CTranslate2Config(msgspec.Struct, kw_only=True):
    """The fields of config.json that are used here. Without the file, the defaults apply."""

    bos_token: str = "<s>"
    eos_token: str = "</s>"
    unk_token: str = "<unk>"
    decoder_start_token: str | None = None
    add_source_bos: bool = False
    add_source_eos: bool = False
    layer_norm_epsilon: float | None = None


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The tokenizers of both sides and the special ids that a model needs.

    Attributes:
        source_tokenizer, tokenizer: the two tokenizers; one object if the vocabulary is shared.
        is_shared: whether both sides share one vocabulary.
        source_size, target_size: vocabulary sizes, including padding even if the files omit it.
        pad, start: ids of padding (on both sides) and of the decoder's first input.
        source_eos: end-of-sentence id of the source.
        adds_padding: whether padding is added to the target vocabulary.
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
        """Read the vocabularies and SentencePiece models of a folder.

        Args:
            folder: model folder.
            config: contents of config.json.
            source_rows, target_rows: numbers of rows in the embedding tables.

        Raises:
            UserInputError: a file is missing, is damaged or does not match the tables.
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
    """Return one side's tokens in id order."""
    names = [f"{name}_vocabulary.{end}" for name in (side, "shared") for end in ("json", "txt")]
    path = next((folder / name for name in names if (folder / name).exists()), None)
    if path is None:
        raise UserInputError(f"The folder {folder} lacks {names[0]} or {names[2]}.")
    if path.suffix == ".json":
        tokens = read_record(path, list[str])
    else:
        tokens = read_lines(path, MOST_BYTES)
    check_lengths(path, tokens)
    if config.unk_token not in tokens:
        tokens = [*tokens, config.unk_token]  # like CTranslate2
    if len(set(tokens)) < len(tokens):
        raise UserInputError(f"The vocabulary {path} must not contain a token twice.")
    if len(tokens) != rows:
        raise UserInputError(
            f"The vocabulary {path} must have the {rows:,} tokens of the model. "
            f"Received: {len(tokens):,} tokens"
        )
    if config.eos_token not in tokens:
        raise UserInputError(f"The vocabulary {path} lacks the token {config.eos_token[:50]!r}.")
    return tokens


def _padding(source: list[str], target: list[str]) -> int:
    """Return the padding id for both sides: an existing id or the first id after all tokens."""
    for name in _PADS:
        if name in source and name in target and source.index(name) == target.index(name):
            return source.index(name)
    return max(len(source), len(target))


def _with_padding(tokens: list[str], pad: int) -> list[str]:
    """Return the tokens including padding. Any gap before the padding id is filled."""
    if pad < len(tokens):
        return tokens
    gap = [f"<unused{number}>" for number in range(len(tokens), pad)]
    return [*tokens, *gap, "<padding>"]


def _sentencepiece_models(
    folder: Path, source: list[str], target: list[str], config: CTranslate2Config
) -> tuple[bytes, bytes]:
    """Return both SentencePiece models. If the files are missing, the models split at spaces."""
    for place in (folder, folder.parent):
        for names in _OF_SIDES:
            if all((place / name).exists() for name in names):
                found = [read_input(place / name, _MOST_MODEL_BYTES) for name in names]
                return found[0], found[1]
        for name in _ONE_FOR_BOTH:
            if (place / name).exists():
                content = read_input(place / name, _MOST_MODEL_BYTES)
                return content, content
    special = {config.bos_token, config.eos_token, config.unk_token, *_PADS}
    try:
        one, other = (
            _words_model([token for token in tokens if token not in special])
            for tokens in (source, target)
        )
    except (UserInputError, RuntimeError) as error:  # from SentencePiece's trainer
        reason = "its vocabulary has tokens that are not words between spaces, and no SentencePiece"
        raise cannot_import(folder, f"{reason} model next to it.") from error
    return one, other


def _words_model(tokens: list[str]) -> bytes:
    """Return a SentencePiece model whose pieces are space-separated tokens."""
    from keras_transformer.text.sentencepiece_tokenizer import train_model

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
    """Create one side's tokenizer from SentencePiece pieces and the vocabulary's ids."""
    try:
        if PieceVocabulary.left_out(model_bytes) != model_bytes:  # with separate ids
            return SentencePieceTokenizer(model_bytes)
        plain = _own_tokenizer(model_bytes, tokens)
        if plain is not None:
            return plain
        vocabulary = PieceVocabulary(
            tuple(_as_pieces(tokens, model_bytes, config)),
            pad=pad,
            eos=tokens.index(config.eos_token),
            unk=tokens.index(config.unk_token),
            bos=None if start is None else tokens.index(start),
        )
        return SentencePieceTokenizer(vocabulary.within(model_bytes))
    except UserInputError as error:
        raise UserInputError(f"The SentencePiece model of {folder}: {error}") from error


def _own_tokenizer(model_bytes: bytes, tokens: list[str]) -> SentencePieceTokenizer | None:
    """Return the tokenizer of our own export, or None if a model lacks our special tokens."""
    load_processor(model_bytes)  # raises an error for a damaged model
    try:
        found = SentencePieceTokenizer(model_bytes)
    except UserInputError:
        return None
    names = found.pieces(range(found.vocabulary_size))
    return found if names[4:] == tokens[4 : len(names)] else None


def _as_pieces(tokens: list[str], model_bytes: bytes, config: CTranslate2Config) -> list[str]:
    """Convert tokens to SentencePiece's notation, in which a marker precedes each word."""
    model = SentencePieceModel.read(model_bytes)
    if model.model_type != "word":
        return tokens
    return [f"\u2581{token}" if f"\u2581{token}" in model.ids else token for token in tokens]
