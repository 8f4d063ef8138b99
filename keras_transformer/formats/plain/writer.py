"""Writes the trial format."""

from pathlib import Path
from typing import Any

from keras_transformer.files.checksum_list import write_checksums
from keras_transformer.files.whole_directories import write_new_directory
from keras_transformer.formats.graph_exports import exported_search, search_card
from keras_transformer.formats.model_card import write_model_card
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.text.tokenizer_files import save_tokenizers
from keras_transformer.types import PathLike


def export_plain(
    translator: TranslationModel, directory: PathLike, precision: str = "float32", **options: Any
) -> Path:
    """Write the model and its tokenizers."""
    search = exported_search(translator, **options)

    def write(path: Path) -> None:
        translator.models[0].save(path / "model.keras")
        (path / "model.weights.h5").touch()
        save_tokenizers(path, translator.source_tokenizer, translator.tokenizer)
        card = search_card(translator, search)
        write_model_card(path, translator, kind="Plain model", options=card, precision=precision)
        write_checksums(path)

    return write_new_directory(directory, write)
