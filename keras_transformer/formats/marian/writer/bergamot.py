"""A translator as a folder for Bergamot, the engine of Firefox Translations."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import UserInputError
from keras_transformer.files.checksum_list import write_checksums
from keras_transformer.files.whole_directories import write_new_directory
from keras_transformer.files.whole_files import whole_file, write_bytes
from keras_transformer.formats.marian import BERGAMOT, BergamotPrecision
from keras_transformer.formats.marian.binary_file import ACTIVATION_SCALE, write_marian_binary
from keras_transformer.formats.marian.writer.activation_scales import activation_scales
from keras_transformer.formats.marian.writer.native import (
    VocabularyNames,
    decoder,
    native_arrays,
    native_model,
    write_vocabularies,
)
from keras_transformer.formats.marian.yaml_texts import write_yaml
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.models import Transformer
from keras_transformer.types import PathLike

_MATRIX = re.compile(r"Wemb|_W\w?$")  # in the names of what marian-conv writes in 8 bits
_WITH_SHORTLIST = "none" + ACTIVATION_SCALE  # the scale of what the logits are computed from
# Endings of the files of the model and of the configuration.
_ENDINGS = {
    "float32": ("bin", "yml"),
    "int8": ("intgemm.alphas.bin", "intgemm8bitalpha.yml"),
}


def export_bergamot(
    translator: TranslationModel,
    directory: PathLike,
    *,
    precision: BergamotPrecision = "float32",
    calibration: Iterable[str] | None = None,
) -> Path:
    """Write a translator's model for Bergamot, the engine of Firefox Translations.

    The files are model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm) and config.*.yml.
    Name the directory after the languages, such as `enpt`: its name is part of the names of the
    files.

    Args:
        translator: a translator of one model, on any backend. Marian must have a counterpart of
            the model, as for `export_marian` with `native=True`.
        directory: directory to write; it must not exist, or be empty.
        precision: number format of matrices and embeddings. With `"int8"`, the engine also rounds
            what it multiplies them by to 8 bits.
        calibration: for `"int8"`, some hundred sentences like those to be translated. The model
            translates them. The largest number that a matrix is multiplied by, in the mean over
            all products plus 1.1 standard deviations, then becomes 127.

    Returns:
        The path of the directory.

    Raises:
        ValueError: `precision` is unknown.
        UserInputError: Marian has no counterpart for an option of the model, sizes do not suit 8
            bits, `calibration` is missing, has no sentence, or is given for `"float32"`, or the
            directory is not empty.

    Example:

    ```python
    translator = Translator.load("runs/enpt")
    export_bergamot(translator, "firefox/enpt", precision="int8", calibration=sentences)
    ```

    Reference: Bogoychev et al., "TranslateLocally: Blazing-fast translation running on the local
        CPU", 2021; for the scales, `scripts/alphas/extract_stats.py` of Marian.
    """
    check_one_of("precision", precision, BERGAMOT.precisions)
    if (precision == "int8") != (calibration is not None):
        given = "None" if calibration is None else "sentences"
        raise UserInputError(
            "`calibration` must be sentences for int8, and None for float32. "
            f"Received: precision={precision!r}, calibration={given}"
        )
    if translator.tokenizer.right_to_left:
        raise UserInputError("Bergamot has no right-to-left models. `export marian --native` has.")
    model = native_model(translator)
    arrays, in_8_bits = native_arrays(translator, model), set()
    if calibration is not None:
        _check_sizes(model, arrays)
        arrays |= _activation_scales(translator, model, calibration)
        in_8_bits = {name for name in arrays if _MATRIX.search(name)}
    pair, (of_model, of_config) = Path(directory).resolve().name, _ENDINGS[precision]
    names = VocabularyNames(*(f"{side}vocab.{pair}.spm" for side in ("", "src", "trg")))

    def write(path: Path) -> None:
        model_name = f"model.{pair}.{of_model}"
        config = decoder(translator, model_name, write_vocabularies(path, translator, names))
        if in_8_bits:
            config["gemm-precision"] = "int8shiftAlphaAll"
        with whole_file(path / model_name) as file:
            write_marian_binary(file, arrays, in_8_bits)
        write_bytes(path / f"config.{of_config}", write_yaml(config))
        write_checksums(path)

    return write_new_directory(directory, write)


def _activation_scales(
    translator: TranslationModel, model: Transformer, calibration: Iterable[str]
) -> dict[str, np.ndarray]:
    scales = activation_scales(translator, model, calibration)
    (of_logits,) = (scale for name, scale in scales.items() if "Wemb" in name)
    found = {f"{name}{ACTIVATION_SCALE}": scale for name, scale in scales.items()}
    found[_WITH_SHORTLIST] = of_logits
    return {name: np.array([[scale]], "float32") for name, scale in found.items()}


def _check_sizes(model: Transformer, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuse what intgemm cannot multiply, and matrices that Bergamot's own models do not have."""
    for name, value, divisor in (
        ("hidden_dim", model.hidden_dim, 64),
        ("intermediate_dim", model.encoder_layers[0].intermediate_dim, 64),
        ("vocabulary_size", arrays["decoder_ff_logit_out_b"].size, 8),
    ):
        if value % divisor:
            raise UserInputError(
                f"int8 needs a `{name}` that {divisor} divides; float32 does not. "
                f"Received: {name}={value}"
            )
    if not model.target_embedding.tie_weights:
        raise UserInputError(
            "int8 needs `tie_weights=True`; float32 does not. Received: tie_weights=False"
        )
