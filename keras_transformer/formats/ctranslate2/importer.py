"""Import CTranslate2 translation models, such as Argos Translate models."""

import contextlib
import math
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.formats.ctranslate2.model_file import (
    FILES,
    CTranslate2Config,
    CTranslate2File,
    Vocabularies,
    open_ctranslate2,
)
from keras_transformer.formats.ctranslate2.tensors import (
    ACTIVATIONS,
    PROJECTION,
    turned,
    variable_name,
)
from keras_transformer.formats.format import cannot_import
from keras_transformer.formats.imported_models import Weight, settings_of, weights_of, write_run
from keras_transformer.formats.preset_files import ImportedModel, check_new_run
from keras_transformer.formats.registry import check_export
from keras_transformer.input_files import Unpacked, open_zip, read_record
from keras_transformer.layers.positions import POSITIONS
from keras_transformer.models import Transformer, build_transformer, check_model_fits
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.tensor_files import reported_faults
from keras_transformer.types import PathLike

_MODEL = "model.bin"
_PACKAGE = ".argosmodel"
_SIDES = ("encoder", "decoder")
_POSITIONS = "{}/position_encodings/encodings"
_ACTIVATIONS = {number: {"silu": "swish"}.get(name, name) for name, number in ACTIVATIONS.items()}
_HEADS = {"TransformerBig": 16}  # for specifications with this name; all others have 8
_EPSILON = 1e-5
_MOST_POSITIONS = 1 << 15  # limit for a file; typical models have hundreds or thousands
_NUM_POSITIONS = 1024  # table size for models that do not store a table
# Supported values for rotary positions.
_ROTARY = {
    "rotary_dim": 0,
    "rotary_interleave": 0,
    "rotary_base": 10000,
    "rotary_scaling_factor": 1,
}
# Scalars that are read here or do not affect the outputs.
_KNOWN_SCALARS = {
    *("num_heads", "pre_norm", "activation", "scale_embeddings", "start_from_zero_embedding"),
    *("alignment_layer", "alignment_heads", "embeddings_merge", "head_dim"),
    *_ROTARY,
    "queries_scale",
}


def import_ctranslate2(directory: PathLike, *, dtype: str = "float32") -> ImportedModel:
    """Load a CTranslate2 translation model, such as an Argos Translate package.

    Weights in int8, int16 and float16 are converted to float32. The files are treated as data only,
    and no code in them is executed.

    Args:
        directory: folder with model.bin, the vocabularies and, in newer versions, config.json; or
            an `.argosmodel` package. SentencePiece models must have one of the standard names
            (sentencepiece.model; source.spm and target.spm; tokenizer.model and
            source_tokenizer.model). Without a SentencePiece model, sentences are split at spaces
            into tokens.
        dtype: dtype policy of the layers.

    Returns:
        An `ImportedModel` with CTranslate2's default search: beam size 2, with scores divided by
        the length. Position tables that match none of our sinusoids become learned positions.

    Raises:
        UserInputError: a file is missing or damaged, or the model uses an option that this package
            does not support.

    Example:

    ```python
    imported = import_ctranslate2("translate-en_de-1_0.argosmodel")
    translator = Translator(imported.model, imported.tokenizer, **imported.search)
    ```

    Reference: https://opennmt.net/CTranslate2/
    """
    with _folder_of(Path(directory)) as folder:
        check_export(folder)  # for an export from this package
        config = CTranslate2Config()
        if (folder / "config.json").exists():
            config = read_record(folder / "config.json", CTranslate2Config)
        with open_ctranslate2(folder / _MODEL) as file:
            reader = _Reader(file, config)
            vocabularies = Vocabularies.read(
                folder, config, reader.rows("encoder"), reader.rows("decoder")
            )
            options = reader.options(vocabularies)
            try:
                _check_size(file, options)
                model = build_transformer("base", dtype=dtype, **options)
            except (ValueError, OverflowError) as error:  # inconsistent sizes
                raise cannot_import(file.path, error) from error
            reader.fill(model)
    source_tokenizer, tokenizer = vocabularies.source_tokenizer, vocabularies.tokenizer
    search = {"beam_size": 2, "alpha": 1.0, "length_penalty": "power", "ending": "first"}
    search["min_length"] = 1
    if options["positions"] == "learned":
        search["max_source_length"] = options["max_length"]
    if vocabularies.adds_padding:
        search["renormalize"] = True
    return ImportedModel(model, source_tokenizer, tokenizer, search, settings_of(options))


def import_ctranslate2_run(
    directory: PathLike, run_directory: PathLike, *, origin: PathLike | None = None
) -> RunDirectory:
    """Import a CTranslate2 model as a run.

    Args:
        directory: as in `import_ctranslate2`.
        run_directory: output run directory; must not exist or must be empty.
        origin: source of the model, recorded in the run; None means `directory`.

    Returns:
        The `RunDirectory`, which is written atomically.

    Raises:
        UserInputError: see `import_ctranslate2`, or the run directory cannot be written.
    """
    check_new_run(run_directory)
    return write_run(import_ctranslate2(directory), run_directory, origin or directory)


@contextlib.contextmanager
def _folder_of(path: Path) -> Iterator[Path]:
    """Yield the folder with model.bin. A package's folder exists only within this context."""
    if path.is_file():
        with tempfile.TemporaryDirectory() as name:
            _unpack(path, Path(name))
            yield Path(name)
        return
    if not path.is_dir():
        raise UserInputError(f"There is no folder or package {path} with a CTranslate2 model.")
    found = path if (path / _MODEL).exists() else path / "model"
    if not (found / _MODEL).exists():
        raise UserInputError(f"The folder {path} contains no CTranslate2 model: it lacks {_MODEL}.")
    yield found


def _unpack(package: Path, folder: Path) -> None:
    """Extract the files of `model/` and the SentencePiece model from an Argos package."""
    fault = f"{package} cannot be unpacked"
    with reported_faults(package, fault), open_zip(package) as archive:
        unpacked = Unpacked(package.stat().st_size)
        for entry in archive.infolist():
            name = PurePosixPath(entry.filename)
            is_model = len(name.parts) == 3 and name.parts[1] == "model"
            if (is_model or len(name.parts) == 2) and name.name in FILES:
                # With other methods, Python unpacks an entire block regardless of its unpacked
                # size.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{entry.filename[:100]!r} is not compressed by deflate")
                with archive.open(entry) as source:
                    unpacked.write(source, folder / name.name)
    if not (folder / _MODEL).exists():
        raise UserInputError(
            f"{package} is not an Argos Translate package: it lacks model/{_MODEL}."
        )


class _Reader:
    """Converts a model file to our options and weights, and records the variables it uses."""

    def __init__(self, file: CTranslate2File, config: CTranslate2Config) -> None:
        self.file = file
        self.config = config
        self._used: set[str] = set()

    def rows(self, side: str) -> int:
        """Return the number of tokens in one side's embedding table."""
        return self._shape(self._embeddings(side))[0]

    def options(self, vocabularies: Vocabularies) -> dict[str, Any]:
        """Return the arguments for `build_transformer`."""
        self._check_scalars()
        layers = {side: self._count_layers(side) for side in _SIDES}
        heads = self._common("num_heads", _HEADS.get(self.file.specification, 8))
        pre_norm, activation = self._common("pre_norm", 1), self._common("activation", 0)
        if activation not in _ACTIVATIONS:
            raise self._refused(
                f"its activation has the number {activation}, which is not supported"
            )
        hidden_dim = self._shape(self._embeddings("decoder"))[1]
        first = "encoder/layer_0"
        fused = self._shape(f"{first}/self_attention/linear_0/weight")[0]
        if heads < 1 or fused % (3 * heads):
            raise self._refused(f"{heads} heads do not divide queries, keys and values of {fused}")
        positions, max_length = self._positions(hidden_dim)
        starts_from_zero = self.file.scalar("decoder/start_from_zero_embedding", 0)
        is_shared = vocabularies.is_shared and self._same(*map(self._embeddings, _SIDES))
        return {
            "vocabulary_size": vocabularies.target_size,
            "source_vocabulary_size": None if is_shared else vocabularies.source_size,
            "num_encoder_layers": layers["encoder"],
            "num_decoder_layers": layers["decoder"],
            "hidden_dim": hidden_dim,
            "intermediate_dim": self._shape(f"{first}/ffn/linear_0/weight")[0],
            "num_heads": heads,
            "key_dim": fused // (3 * heads),
            "dropout": 0.1,
            "activation": _ACTIVATIONS[activation],
            "normalize_first": bool(pre_norm),
            "final_norm": "decoder/layer_norm/gamma" in self.file.names,
            "use_bias": any("attention/linear_0/bias" in name for name in self.file.names),
            "use_logits_bias": "decoder/projection/bias" in self.file.names
            or vocabularies.adds_padding,
            "tie_weights": self._is_tied(),
            "positions": positions,
            "max_length": max_length,
            "layer_norm_epsilon": self.config.layer_norm_epsilon or _EPSILON,
            "padding_id": vocabularies.pad,
            "zero_id": vocabularies.start if starts_from_zero else None,
            "hidden_source_id": None if self.config.add_source_eos else vocabularies.source_eos,
        }

    def fill(self, model: Transformer) -> None:
        """Set the model's weights. Raise a UserInputError if a variable is left over."""
        for weight in weights_of(model):
            weight.variable.assign(turned(weight, self._value(weight)))
        target = model.target_embedding
        if target.positions == "learned":
            for side, embedding in zip(_SIDES, (model.source_embedding, target), strict=True):
                number = target.num_tables - 1 if embedding is target and side == "decoder" else 0
                embedding.kind.tables[number].assign(self._table(side, model.hidden_dim))
        # These may duplicate another variable.
        self._used |= {PROJECTION, *map(self._embeddings, _SIDES), *map(_POSITIONS.format, _SIDES)}
        scalars = {name for name in self.file.names if not self.file.shape(name)}
        left_over = [n for n in self.file.names if n not in self._used and n not in scalars]
        if left_over:
            raise self._refused(
                f"it has the variable {left_over[0][:100]!r}, which this package lacks"
            )

    def _value(self, weight: Weight) -> np.ndarray:
        """Return the value of a weight, using zeros for missing biases and vocabulary padding."""
        side, name, shape = weight.side, variable_name(weight), tuple(weight.variable.shape)
        shape = shape[::-1] if weight.kind == "kernel" else shape
        first = self.rows(side) if weight.unit in ("embeddings", "logits") else shape[0]
        if weight.kind == "table" or (name == PROJECTION and name not in self.file.names):
            name = self._embeddings(side)
        if weight.kind == "bias" and name not in self.file.names:
            return np.zeros(shape, "float32")
        values = self._read(name, (first, *shape[1:]))
        if weight.kind == "table":
            values /= self._scale(side)
        if first < shape[0]:
            values.resize(shape, refcheck=False)  # pads with zeros
        return values

    def _read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        self._used.add(name)
        return self.file.weights(name, shape)

    def _shape(self, name: str) -> tuple[int, int]:
        """Return the shape of a matrix."""
        shape = self.file.shape(name)
        if len(shape) != 2:
            raise self._refused(f"the variable {name} must be a matrix")
        return shape[0], shape[1]

    def _embeddings(self, side: str) -> str:
        names = (f"{side}/embeddings/weight", f"{side}/embeddings_0/weight")
        return next((name for name in names if name in self.file.names), names[0])

    def _count_layers(self, side: str) -> int:
        numbers = {
            int(match[1])
            for match in (re.match(rf"{side}/layer_(\d{{1,4}})/", name) for name in self.file.names)
            if match
        }
        if not numbers or numbers != set(range(len(numbers))):
            raise self._refused(f"the numbers of its {side}'s layers are not 0, 1, 2 and so on")
        return len(numbers)

    def _common(self, name: str, default: int) -> int:
        """Return an integer that must be the same for both sides."""
        values = {self.file.scalar(f"{side}/{name}", default) for side in _SIDES}
        if len(values) > 1 or not float(min(values)).is_integer():
            raise self._refused(f"`{name}` must be the same for encoder and decoder, not {values}")
        return int(min(values))

    def _check_scalars(self) -> None:
        """Refuse enabled options that are not supported."""
        for name in self.file.names:
            if self.file.shape(name) or name.rpartition("/")[2] in _KNOWN_SCALARS:
                continue
            if self.file.read(name) != 0:
                raise self._refused(f"its option {name[:100]!r} is not supported")

    def _is_tied(self) -> bool:
        table = self._embeddings("decoder")
        if self._scale("decoder") != 1:
            return False  # the table is divided by the scale, but the logit matrix is not
        return PROJECTION not in self.file.names or self._same(PROJECTION, table)

    def _same(self, name: str, other: str) -> bool:
        file = self.file
        return file.is_same(name, other) or (
            file.shape(name) == file.shape(other)
            and np.array_equal(file.read(name), file.read(other))
        )

    def _scale(self, side: str) -> float:
        """Return the scale of one side's embeddings that is applied here but not in CTranslate2."""
        width = self._shape(self._embeddings(side))[1]
        return 1.0 if self.file.scalar(f"{side}/scale_embeddings", 1) else math.sqrt(width)

    def _positions(self, hidden_dim: int) -> tuple[str, int]:
        """Return the kind of positions and the number of learned positions."""
        rotary = [name for name in self.file.names if name.endswith("/rotary_dim")]
        if rotary:
            self._check_rotary(rotary)
            return "rotary", _NUM_POSITIONS
        names = [_POSITIONS.format(side) for side in _SIDES]
        present = [name for name in names if name in self.file.names]
        if any(self._shape(name)[0] > _MOST_POSITIONS for name in present):
            raise self._refused(f"it has more than {_MOST_POSITIONS:,} positions")
        is_one = len(present) == 2 and self.file.is_same(*names)
        tables = [self._table(side, hidden_dim) for side in (_SIDES[:1] if is_one else _SIDES)]
        halves = [name for name in present if self.file.dtype(name) != "float32"]
        tolerance = 0.01 if halves else 1e-6
        for kind in ("sinusoidal", "sinusoidal_t2t"):
            at = POSITIONS[kind](
                vocabulary_size=1,
                hidden_dim=hidden_dim,
                max_length=1,
                num_tables=1,
                word_starts=None,
            ).at
            if all(
                np.allclose(
                    keras.ops.convert_to_numpy(at(np.arange(len(table)), 0)), table, atol=tolerance
                )
                for table in tables
            ):
                return kind, _NUM_POSITIONS
        if len(tables[0]) != len(tables[-1]):
            raise self._refused("its tables of positions differ in length")
        return "learned", len(tables[0])

    def _check_rotary(self, names: list[str]) -> None:
        for name in names:
            prefix = name.removesuffix("rotary_dim")
            for option, value in _ROTARY.items():
                if self.file.scalar(f"{prefix}{option}", value) != value:
                    raise self._refused(f"`{prefix}{option}` must be {value}")

    def _table(self, side: str, hidden_dim: int) -> np.ndarray:
        name = _POSITIONS.format(side)
        if name in self.file.names:
            return self._read(name, (self._shape(name)[0], hidden_dim))
        return opennmt_sinusoids(_NUM_POSITIONS, hidden_dim)

    def _refused(self, reason: str) -> UserInputError:
        return cannot_import(self.file.path, f"{reason}.")


def opennmt_sinusoids(number: int, hidden_dim: int) -> np.ndarray:
    """Return OpenNMT-tf's position table (starting at 1) for models without a stored table.

    The table is float32 (number, hidden_dim). Each vector consists of sines followed by cosines.
    """
    pairs = hidden_dim // 2
    frequencies = 10_000.0 ** (-np.arange(pairs) / max(pairs - 1, 1))
    angles = np.arange(1, number + 1)[:, None] * frequencies
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype("float32")


def _check_size(file: CTranslate2File, options: dict[str, Any]) -> None:
    """Refuse a model much larger than its file before allocating memory for it."""
    wanted = check_model_fits("base", **options).count_weights()
    # Weights take at least 8 bits. An embedding table may also be the logit matrix.
    most = 2 * os.path.getsize(file.path) + 2 * options["max_length"] * options["hidden_dim"]
    if wanted > most:
        raise ValueError(f"it would have {wanted:,} weights, far more than its file")
