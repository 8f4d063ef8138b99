"""Models of Marian, such as OPUS-MT's, as models of ours."""

import dataclasses
import math
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.layout import MarianFolder, open_marian
from keras_transformer.formats.marian.tensors import copies, entries
from keras_transformer.formats.marian.weights import MarianTensors
from keras_transformer.formats.presets import check_new_run, save_preset
from keras_transformer.models import Transformer, build_transformer, check_model_fits
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import PathLike


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """A model with its tokenizers, as `Translator` and `RunDirectory` take them.

    Attributes:
        model: the model.
        source_tokenizer, tokenizer: the tokenizers; one object where both sides have the same.
        search: fields of `SearchOptions`, the model's own defaults.
        settings: names and values of the settings of a training that has this architecture.
    """

    model: Transformer
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    search: dict[str, Any]
    settings: dict[str, Any]


def import_marian(directory: PathLike, *, dtype: str = "float32") -> ImportedModel:
    """Read a model of Marian, such as one of OPUS-MT.

    The folder's files are data: nothing in them is run, and PyTorch is not needed.

    Args:
        directory: a Hugging Face folder (config.json, model.safetensors or pytorch_model.bin,
            source.spm, target.spm, vocab.json), or one of Marian (model.npz, decoder.yml,
            vocab.yml, source.spm, target.spm).
        dtype: dtype policy of the layers.

    Returns:
        An `ImportedModel`. Its logits are those of `transformers.MarianMTModel`. Marian's own
        decoder spaces the frequencies of positions a little wider than the Hugging Face models
        made of its files; both forms are imported with the latter's.

    Raises:
        UserInputError: a file is missing or damaged, a tensor is missing, left over or of another
            shape, or the model has an option that this package lacks.

    Example:

    ```python
    imported = import_marian("opus-mt-en-de")
    translator = Translator(
        imported.model, imported.tokenizer, source_tokenizer=imported.source_tokenizer
    )
    ```

    Reference: Junczys-Dowmunt et al., "Marian: Fast Neural Machine Translation in C++", 2018;
        Tiedemann and Thottingal, "OPUS-MT: Building open translation services for the World", 2020.
    """
    folder = open_marian(directory)
    options = folder.architecture.options
    with MarianTensors(folder) as tensors:
        try:
            if options["hidden_dim"] % 2:
                raise ValueError("`hidden_dim` must be even")
            _check_size(folder, tensors)
            model = build_transformer("base", dtype=dtype, **options)
        except (ValueError, OverflowError) as error:  # sizes that do not go together
            path = folder.tensors_path if folder.is_native else folder.path / "config.json"
            raise UserInputError(f"The model of {path} cannot be imported: {error}") from error
        _fill(model, tensors)
    source_tokenizer, tokenizer = folder.source_tokenizer, folder.tokenizer
    if source_tokenizer.fingerprint == tokenizer.fingerprint:
        source_tokenizer = tokenizer
    return ImportedModel(
        model, source_tokenizer, tokenizer, folder.architecture.search, _settings(options)
    )


def import_marian_run(
    directory: PathLike, run_directory: PathLike, *, origin: PathLike | None = None
) -> RunDirectory:
    """Make a run of a model of Marian, which every verb takes.

    Args:
        directory: as of `import_marian`.
        run_directory: the run to write; it must not exist, or be empty.
        origin: where the model is from, for the run's record; None: `directory`.

    Returns:
        The `RunDirectory`. It appears whole or not at all.

    Raises:
        UserInputError: as `import_marian`, or the run cannot be written there.

    Example:

    ```python
    import_marian_run("opus-mt-en-de", "runs/opus_en_de")
    translator = Translator.load("runs/opus_en_de")
    ```
    """
    check_new_run(run_directory)
    imported = import_marian(directory)
    save_preset(
        run_directory,
        model=imported.model,
        source_tokenizer=imported.source_tokenizer,
        tokenizer=imported.tokenizer,
        search=imported.search,
        settings=imported.settings,
        origin=directory if origin is None else origin,
    )
    return RunDirectory(run_directory)


def _check_size(folder: MarianFolder, tensors: MarianTensors) -> None:
    """Refuse a model far larger than its tensors before it takes memory.

    A tensor that is missing is named later, so there may be somewhat fewer than the model has.
    """
    architecture = folder.architecture
    options = check_model_fits("base", **architecture.options)
    is_shared = options.source_vocabulary_size is None
    options = dataclasses.replace(
        options,
        vocabulary_size=architecture.target_rows,
        source_vocabulary_size=None if is_shared else architecture.source_rows,
        padding_id=0,  # Marian's files have no row of padding
    )
    wanted = options.count_weights()
    found = sum(math.prod(tensors.shape(name)) for name in tensors.names)
    found = min(found, tensors.path.stat().st_size // 2)  # tensors may share their numbers
    if wanted > 2 * found:
        raise ValueError(
            f"it would have {wanted:,} weights, and {folder.tensors_path} has {found:,}"
        )


def _fill(model: Transformer, tensors: MarianTensors) -> None:
    """Give the model its weights, one tensor after the other."""
    known = entries(model)
    repeated = copies(model)
    expected = {tensors.own_name(part) for entry in known for part in entry.parts}
    left_over = [name for name in tensors.names if name not in expected | repeated.keys()]
    if left_over:
        raise UserInputError(
            f"The file {tensors.path} has a tensor that this model lacks: {left_over[0][:100]!r}"
        )
    shapes = {part: entry.shape() for entry in known for part in entry.parts}
    for name, original in repeated.items():
        if original is not None and name in tensors.names:
            tensors.check_repeats(name, original, shapes[original])
    for entry in known:
        values = [tensors.read(part, entry.shape()) for part in entry.parts]
        entry.variable.assign(entry.ours(values))


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The options as settings of a training, whose names are the same."""
    names = (
        *("num_encoder_layers", "num_decoder_layers", "hidden_dim", "intermediate_dim"),
        *("num_heads", "dropout", "activation", "tie_weights", "layer_norm_epsilon"),
        *("normalize_first", "positions", "use_bias", "use_logits_bias"),
    )
    return {"preset": "base", **{name: options[name] for name in names}}
