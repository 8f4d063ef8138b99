"""Import Marian models, such as OPUS-MT models."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files import write_new_directory
from keras_transformer.formats.format import cannot_import
from keras_transformer.formats.imported_models import settings_of, write_run
from keras_transformer.formats.marian.binary_file import (
    ACTIVATION_SCALE,
    DECODER,
    unpacked_bergamot,
)
from keras_transformer.formats.marian.configurations import Architecture
from keras_transformer.formats.marian.layout import (
    MODEL_YML,
    SHORTLISTS,
    MarianFolder,
    open_marian,
    open_native_tensors,
)
from keras_transformer.formats.marian.tensors import (
    HEAD_WT,
    WEMB,
    Entry,
    copies,
    entries,
)
from keras_transformer.formats.preset_files import ImportedModel, check_new_run
from keras_transformer.formats.registry import check_export
from keras_transformer.models import (
    Transformer,
    build_transformer,
    check_model_fits,
    with_alignment_head,
)
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.tensor_files import TensorFile, open_tensors
from keras_transformer.text import Shortlist
from keras_transformer.types import PathLike


def import_marian(directory: PathLike, *, dtype: str = "float32") -> ImportedModel:
    """Load a Marian model, such as an OPUS-MT model.

    The files are treated as data only: no code in them is executed, and PyTorch is not required.

    Args:
        directory: Hugging Face folder (config.json, model.safetensors or pytorch_model.bin,
            source.spm, target.spm, vocab.json) or Marian folder (model.npz or model.bin,
            decoder.yml, and vocab.spm, or vocab.yml with source.spm and target.spm, or with
            source.bpe and target.bpe).
        dtype: dtype policy of the layers.

    Returns:
        An `ImportedModel`. Its logits match those of the program that the files are intended for;
        `transformers.MarianMTModel` and Marian use different position frequencies.

    Raises:
        UserInputError: a file is missing or damaged; a tensor is missing, unexpected or has the
            wrong shape; or the model uses an option that this package does not support.

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
    return _import_one(open_marian(directory), dtype)


def import_bergamot(directory: PathLike, *, dtype: str = "float32") -> ImportedModel:
    """Load a Bergamot model, such as a Firefox Translations model.

    8-bit matrices are converted to float32. The Bergamot engines search with a shortlist and round
    the inputs of matrix products to 8 bits. `Translator(..., shortlist=imported.shortlist)`
    reproduces nearly all of their outputs. Without a shortlist, about one in thirty outputs
    differs.

    Args:
        directory: folder with model.*.bin, and vocab.*.spm or srcvocab.*.spm and trgvocab.*.spm.
            The files config.*.yml and lex.*.bin (the shortlist) are optional. All files may be
            compressed (`.gz` or `.zst`).
        dtype: dtype policy of the layers.

    Returns:
        An `ImportedModel` with the search options in config.*.yml, or with greedy search.

    Raises:
        UserInputError: see `import_marian`.

    Example:

    ```python
    imported = import_bergamot("firefox/enpt")
    translator = Translator(imported.model, imported.tokenizer, **imported.search)
    ```

    Reference: Bogoychev et al., "TranslateLocally: Blazing-fast translation running on the local
        CPU", 2021.
    """
    check_export(directory)  # for an export from this package
    with unpacked_bergamot(Path(directory)) as folder:
        imported = _import_one(open_marian(folder, DECODER), dtype)
        # Bergamot models are trained with guided alignment. Marian guides the first head of the
        # last layer.
        last = Transformer.of(imported.model).options.num_decoder_layers
        model = with_alignment_head(imported.model, last, alignment_head=1)
        imported = dataclasses.replace(imported, model=model)
        shortlists = sorted(folder.glob(SHORTLISTS))
        if len(shortlists) > 1:
            names = ", ".join(path.name for path in shortlists)
            raise UserInputError(
                f"The folder {directory} must contain one shortlist {SHORTLISTS}. Received: {names}"
            )
        if not shortlists:
            return imported
        shortlist = Shortlist.load(shortlists[0], imported.tokenizer, imported.source_tokenizer)
        return dataclasses.replace(imported, shortlist=shortlist)


def _import_one(folders: Sequence[MarianFolder], dtype: str) -> ImportedModel:
    if len(folders) > 1:
        raise UserInputError(
            f"The folder {folders[0].path} has an ensemble of {len(folders)} models: "
            "`import_marian_runs` or `keras-transformer import marian` imports each as a run."
        )
    return _import(folders[0], dtype)


def _import(folder: MarianFolder, dtype: str) -> ImportedModel:
    options = folder.architecture.options
    read = open_native_tensors if folder.is_native else open_tensors
    with read(folder.tensors_path) as file:
        try:
            if options["hidden_dim"] % 2:
                raise ValueError("`hidden_dim` must be even")
            _check_size(folder, file)
            model = build_transformer("base", dtype=dtype, **options)
        except (ValueError, OverflowError) as error:  # inconsistent sizes
            path = folder.tensors_path if folder.is_native else folder.path / "config.json"
            raise cannot_import(path, error) from error
        _fill(model, folder, file)
    source_tokenizer, tokenizer = folder.source_tokenizer, folder.tokenizer
    if source_tokenizer.fingerprint == tokenizer.fingerprint:
        source_tokenizer = tokenizer
    return ImportedModel(
        model, source_tokenizer, tokenizer, folder.architecture.search, settings_of(options)
    )


def import_marian_run(
    directory: PathLike, run_directory: PathLike, *, origin: PathLike | None = None
) -> RunDirectory:
    """Import a Marian model as a run that works with all commands.

    Args:
        directory: as in `import_marian`.
        run_directory: output run directory; must not exist or must be empty.
        origin: source of the model, recorded in the run; None means `directory`.

    Returns:
        The `RunDirectory`, which is written atomically.

    Raises:
        UserInputError: see `import_marian`, or the run directory cannot be written.

    Example:

    ```python
    import_marian_run("opus-mt-en-de", "runs/opus_en_de")
    translator = Translator.load("runs/opus_en_de")
    ```
    """
    check_new_run(run_directory)
    return write_run(import_marian(directory), run_directory, origin or directory)


def import_marian_runs(
    directory: PathLike, run_directory: PathLike, *, origin: PathLike | None = None
) -> list[RunDirectory]:
    """Import each model of an ensemble, listed under `models` in decoder.yml, as a run.

    `Translator.load` accepts a list of all the runs. The translator averages their probabilities,
    whereas Marian multiplies them.

    Args:
        directory, origin: as in `import_marian_run`.
        run_directory: output folder for runs named 1, 2 and so on; if there is only one model, the
            run itself.

    Returns:
        The `RunDirectory` of each model. All runs are written atomically.

    Raises:
        UserInputError: see `import_marian_run`, or the models have unequal `weights`.

    Example:

    ```python
    runs = import_marian_runs("ensemble", "runs/ensemble")
    translator = Translator.load([run.path for run in runs])
    ```
    """
    check_new_run(run_directory)
    folders = open_marian(directory)
    if len(folders) == 1:
        return [write_run(_import(folders[0], "float32"), run_directory, origin or directory)]
    names = [str(number) for number in range(1, len(folders) + 1)]

    def write(path: Path) -> None:
        for name, folder in zip(names, folders, strict=True):
            write_run(_import(folder, "float32"), path / name, origin or directory)

    path = write_new_directory(run_directory, write)
    return [RunDirectory(path / name) for name in names]


def import_bergamot_run(
    directory: PathLike, run_directory: PathLike, *, origin: PathLike | None = None
) -> RunDirectory:
    """Import a Bergamot model as a run. See `import_bergamot` and `import_marian_run`."""
    check_new_run(run_directory)
    return write_run(import_bergamot(directory), run_directory, origin or directory)


# Alternative names of Marian tensors: embedding tables, which may be shared or separate, and a
# matrix that older versions stored transposed.
_OTHER_NAMES = {WEMB: "encoder_Wemb", HEAD_WT: HEAD_WT.removesuffix("t")}


def _weight_names(file: TensorFile) -> list[str]:
    """Return the names of the model's tensors in a file."""
    return [n for n in file.names if n != MODEL_YML and not n.endswith(ACTIVATION_SCALE)]


def _check_size(folder: MarianFolder, file: TensorFile) -> None:
    """Refuse a model much larger than its tensors before allocating memory for it.

    The check allows for a few missing tensors, which are reported later.
    """
    architecture = folder.architecture
    options = check_model_fits("base", **architecture.options)
    is_shared = options.source_vocabulary_size is None
    options = dataclasses.replace(
        options,
        vocabulary_size=architecture.target_rows,
        source_vocabulary_size=None if is_shared else architecture.source_rows,
        padding_id=0,  # Marian's files do not store a padding row
        num_decoder_layers=len({*architecture.tied_layers}) or options.num_decoder_layers,
    )
    wanted = options.count_weights()
    found = sum(math.prod(file.shape(name)) for name in _weight_names(file))
    found = min(found, folder.tensors_path.stat().st_size // 2)  # tensors may share data
    if wanted > 2 * found:
        raise ValueError(
            f"it would have {wanted:,} weights, and {folder.tensors_path} has {found:,}"
        )


def _fill(model: Transformer, folder: MarianFolder, file: TensorFile) -> None:
    """Set the model's weights one tensor at a time."""
    known, repeated = entries(model, folder.architecture.tied_layers), copies(model)
    names = [[_name_in(file, folder, pair) for pair in entry.names] for entry in known]
    expected = {*itertools.chain(*names)} | repeated.keys()
    left_over = [name for name in _weight_names(file) if name not in expected]
    if left_over:
        raise UserInputError(
            f"The file {folder.tensors_path} has a tensor that this model lacks: "
            f"{left_over[0][:100]!r}"
        )
    shapes = {name: entry.shape() for entry in known for name, _ in entry.names}
    for name, original in repeated.items():
        if original is not None and name in file.names:
            shape = shapes[original]
            if not np.array_equal(file.weights(name, shape), file.weights(original, shape)):
                raise UserInputError(
                    f"The tensor {name} in {folder.tensors_path} must repeat {original}."
                )
    for entry, parts in zip(known, names, strict=True):
        if folder.is_native:
            tensors = [_read_native(file, folder.architecture, entry, part) for part in parts]
        else:
            tensors = [file.weights(part, entry.shape()) for part in parts]
        entry.weight.variable.assign(entry.ours(tensors))


def _name_in(file: TensorFile, folder: MarianFolder, names: tuple[str, str]) -> str:
    """Return a tensor's name in the file, given its Hugging Face and Marian names."""
    name, own = names
    if not folder.is_native:
        return name
    other = _OTHER_NAMES.get(own)
    return other if other in file.names and own not in file.names else own


def _read_native(
    file: TensorFile, architecture: Architecture, entry: Entry, name: str
) -> np.ndarray:
    """Read a Marian tensor in Hugging Face's shape, filling missing padding with zeros."""
    shape = entry.shape()
    is_source = entry.weight.side == "encoder"
    rows = architecture.source_rows if is_source else architecture.target_rows
    if entry.kind == "table":
        table = file.weights(name, (rows, shape[1]))
        return table if rows == shape[0] else _with_padding(table, architecture.pad)
    if entry.kind == "row":
        return np.pad(file.weights(name, (1, rows)), [(0, 0), (0, shape[1] - rows)])
    if entry.weight.unit == "logits":
        size = (rows, shape[1])
        value = file.weights(name, size) if name == HEAD_WT else file.weights(name, size[::-1]).T
        return np.pad(value, [(0, shape[0] - rows), (0, 0)])
    if entry.kind == "vector":
        return file.weights(name, (1, *shape)).reshape(shape)
    return file.weights(name, shape[::-1]).T


def _with_padding(table: np.ndarray, pad: int) -> np.ndarray:
    """Insert zeros for padding into a table (tokens, hidden_dim), like `with_padding` for ids."""
    if len(table) <= pad:
        return np.pad(table, [(0, pad + 1 - len(table)), (0, 0)])
    return np.insert(table, pad, 0, axis=0)
