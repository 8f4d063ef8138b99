"""The on-disk layouts of Marian models: Hugging Face's and Marian's own."""

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import cannot_import
from keras_transformer.formats.marian.binary_file import open_marian_binary
from keras_transformer.formats.marian.configurations import (
    MOST_BYTES,
    Architecture,
    parse_yaml,
    read_hugging_face,
    read_native,
    read_yaml,
    refuse,
)
from keras_transformer.formats.marian.vocabulary import (
    CODES,
    SPM,
    make_tokenizer,
    read_vocabulary,
    with_padding,
)
from keras_transformer.input_files import read_record
from keras_transformer.runs.tensor_files import TensorFile, open_tensors
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike

MODEL_YML = "special:model.yml"
_DECODER = "decoder.yml"
_OLD_WEIGHTS = "pytorch_model.bin"
SHORTLISTS = "lex.*.bin"  # of Bergamot
_SIDES = ("src", "trg")
_OF_TRAINING = (".optimizer.npz",)
_MOST_MODELS = 20


@dataclasses.dataclass(frozen=True)
class MarianFolder:
    """The contents of a model folder, excluding the tensors.

    Attributes:
        path: model folder.
        architecture: `Architecture` of the model.
        tensors_path: file that stores the tensors.
        source_tokenizer, tokenizer: source and target tokenizers.
        is_native: whether the tensors use Marian's own names.
    """

    path: Path
    architecture: Architecture
    tensors_path: Path
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    is_native: bool


def open_marian(
    directory: PathLike, decoder_defaults: Mapping[str, Any] | None = None
) -> list[MarianFolder]:
    """Read everything except the tensors for each model in a folder.

    Args:
        directory: Hugging Face folder (config.json, model.safetensors or pytorch_model.bin,
            source.spm, target.spm, vocab.json) or Marian folder (model.npz or model.bin,
            decoder.yml, and vocab.spm, or vocab.yml with source.spm and target.spm, or with
            source.bpe and target.bpe).
        decoder_defaults: default values for decoder.yml.

    Raises:
        UserInputError: a file is missing or damaged, or the model uses an option that this package
            does not support.
    """
    path = Path(directory)
    if path.is_file():
        raise UserInputError(f"{path} is a file: unpack it, and pass the folder with the model.")
    if not path.is_dir():
        raise UserInputError(f"There is no folder {path} with a Marian model.")
    if (path / "config.json").exists():
        return [_open_hugging_face(path)]
    if any(path.glob("*.npz")) or _binary_models(path) or _find_decoder(path).exists():
        return _open_native(path, decoder_defaults or {})
    raise UserInputError(
        f"The folder {path} contains no Marian model: neither config.json nor decoder.yml and a "
        "model.npz or model.bin."
    )


def _binary_models(path: Path) -> list[Path]:
    """Return the `.bin` files, except PyTorch weights and shortlists."""
    found = sorted(path.glob("*.bin"))
    return [file for file in found if file.name != _OLD_WEIGHTS and not file.match(SHORTLISTS)]


def _find_decoder(path: Path) -> Path:
    """Return the decoder configuration file, whose name depends on the program."""
    others = sorted({*path.glob("config*.yml"), *path.glob(f"*.{_DECODER}")})
    decoder = path / _DECODER
    return others[0] if len(others) == 1 and not decoder.exists() else decoder


def _open_hugging_face(path: Path) -> MarianFolder:
    architecture = read_hugging_face(path)
    tensors = [path / name for name in ("model.safetensors", _OLD_WEIGHTS)]
    found = next((file for file in tensors if file.exists()), None)
    if found is None:
        raise UserInputError(f"The folder {path} lacks model.safetensors or {_OLD_WEIGHTS}.")
    source_path = path / "vocab.json"
    target_path = path / "target_vocab.json"  # if the target has a separate vocabulary
    if not target_path.exists():
        target_path = source_path
    pieces = read_record(source_path, dict[str, int])
    target_pieces = read_record(target_path, dict[str, int])
    folder = _with_tokenizers(
        path, architecture, found, (source_path, pieces), (target_path, target_pieces)
    )
    # Our search cannot ban tokens that it could produce.
    num_pieces = folder.tokenizer.vocabulary_size
    padding = range(num_pieces, architecture.options["vocabulary_size"])
    never = {architecture.pad, architecture.start, *padding}
    if any(len(ids) != 1 or ids[0] not in never for ids in architecture.banned):
        rule = f"among {[[number] for number in sorted(never)]}"
        refuse(architecture.banned_path, "bad_words_ids", rule, architecture.banned)
    return folder


def _open_native(path: Path, decoder_defaults: Mapping[str, Any]) -> list[MarianFolder]:
    decoder_path = _find_decoder(path)
    decoder: dict[str, Any] = dict(decoder_defaults)
    if decoder_path.exists():
        decoder |= read_yaml(decoder_path)
    source_path, target_path = _find_vocabularies(path, decoder_path, decoder)
    models = _find_models(path, decoder_path, decoder)
    source_pieces, pieces = read_vocabulary(source_path), read_vocabulary(target_path)

    def open_model(model: Path) -> MarianFolder:
        architecture = read_native(
            model, _read_model_yml(model), decoder_path, decoder, source_pieces, pieces
        )
        return _with_tokenizers(
            path,
            architecture,
            model,
            (source_path, with_padding(source_pieces, architecture.pad)),
            (target_path, with_padding(pieces, architecture.pad)),
            is_native=True,
        )

    return [open_model(model) for model in models]


def _with_tokenizers(
    path: Path,
    architecture: Architecture,
    tensors_path: Path,
    source: tuple[Path, Mapping[str, int]],
    target: tuple[Path, Mapping[str, int]],
    *,
    is_native: bool = False,
) -> MarianFolder:
    """Add both tokenizers. `source` and `target` are pairs of a vocabulary file and its ids."""
    size = architecture.options["vocabulary_size"]
    source_size = architecture.options["source_vocabulary_size"] or size

    def tokenizer_of(
        side: str, vocabulary: Path, pieces: Mapping[str, int], size: int, eos: int
    ) -> SentencePieceTokenizer:
        model, codes = (path / f"{side}{ending}" for ending in (SPM, CODES))
        if vocabulary.suffix == SPM:
            model = vocabulary
        elif codes.exists() and not model.exists():
            model = codes
        return make_tokenizer(model, vocabulary, pieces, size, architecture, eos)

    source_tokenizer = tokenizer_of("source", *source, source_size, architecture.source_eos)
    tokenizer = tokenizer_of("target", *target, size, architecture.eos)
    return MarianFolder(path, architecture, tensors_path, source_tokenizer, tokenizer, is_native)


def _find_models(path: Path, decoder_path: Path, decoder: Mapping[str, Any]) -> list[Path]:
    """Return the tensor files. Multiple files form an ensemble."""
    named = _named(decoder_path, decoder, "models")
    if not named:
        named = sorted(path.glob("*.npz")) or _binary_models(path)
        named = [file for file in named if not file.name.endswith(_OF_TRAINING)]
        if len(named) != 1:
            raise _ambiguous(path, "model.npz", named)
    names = [model.name for model in named]
    if len(names) > _MOST_MODELS or len({*names}) < len(names):
        rule = f"at most {_MOST_MODELS} files of different names"
        refuse(decoder_path, "models", rule, names)
    for model in named:
        if model.suffix not in (".npz", ".bin"):
            refuse(decoder_path, "models", "a .npz or .bin file", model.name)
    weights = decoder.get("weights") or []
    if len(named) > 1 and len({*map(str, weights)}) > 1:
        refuse(decoder_path, "weights", "the same for all models", weights)
    return named


def _find_vocabularies(
    path: Path, decoder_path: Path, decoder: Mapping[str, Any]
) -> tuple[Path, Path]:
    """Return the source and target vocabulary files, which may be the same file."""
    named = _named(decoder_path, decoder, "vocabs")
    if len(named) > 2:
        rule = "`vocabs` must be a file for the source and a file for the target"
        raise cannot_import(decoder_path, f"{rule}. Received: {len(named)} files")
    if named:
        return named[0], named[-1]
    found: list[Path] = []
    for ending in ("vocab.yml", "vocab", "vocab.spm"):  # newer versions use a list of pieces
        found = sorted(path.glob(f"*{ending}"))
        if len(found) == 1:
            return found[0], found[0]
        source, target = (list(path.glob(f"*{side}.{ending}")) for side in _SIDES)
        if len(found) == 2 and len(source) == len(target) == 1:
            return source[0], target[0]
        if found:
            break
    models = [sorted(path.glob(f"{side}vocab*{SPM}")) for side in ("", *_SIDES)]  # of Bergamot
    if len(models[0]) == 1:
        return models[0][0], models[0][0]
    if len(models[1]) == len(models[2]) == 1:
        return models[1][0], models[2][0]
    raise _ambiguous(path, "vocab.yml, or one src.vocab.yml and one trg.vocab.yml", found)


def _named(decoder_path: Path, decoder: Mapping[str, Any], key: str) -> list[Path]:
    """Return the files named in the decoder configuration, if any."""
    names = decoder.get(key, [])
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name and name.isprintable() for name in names
    ):
        raise UserInputError(f"{decoder_path} is damaged: `{key}` must name files.")
    # Ignore the folder in these paths, because models may have been moved.
    return [decoder_path.parent / Path(name).name for name in names]


def _ambiguous(path: Path, usual: str, found: list[Path]) -> UserInputError:
    names = ", ".join(file.name for file in found) or "none"
    return UserInputError(f"The folder {path} must have one file {usual}. Received: {names}")


def open_native_tensors(model: Path) -> contextlib.AbstractContextManager[TensorFile]:
    """Open the tensors of a Marian file in either format."""
    return open_marian_binary(model) if model.suffix == ".bin" else open_tensors(model)


def _read_model_yml(model: Path) -> dict[str, Any]:
    """Read Marian's configuration, which is stored as the bytes of a tensor."""
    with open_native_tensors(model) as tensors:
        if MODEL_YML not in tensors.names:
            raise UserInputError(f"The file {model} lacks Marian's configuration, {MODEL_YML}.")
        shape, dtype = tensors.shape(MODEL_YML), tensors.dtype(MODEL_YML)
        if math.prod(shape) > MOST_BYTES or dtype not in ("int8", "uint8"):
            raise UserInputError(
                f"Marian's configuration in {model}, {MODEL_YML}, must be a text of at most "
                f"{MOST_BYTES:,} bytes. Received: shape={shape}, dtype={dtype}"
            )
        content = tensors.read(MODEL_YML).astype("uint8").tobytes().rstrip(b"\0")
    return parse_yaml(model, content)
