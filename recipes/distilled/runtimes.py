"""The runtimes of a translator: Keras, a SavedModel and LiteRT models, each as a function."""

import functools
import pathlib
from collections.abc import Callable
from typing import Literal, NamedTuple

from keras_transformer import LiteRTTranslator, SavedModelTranslator, Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_litert, export_saved_model

Translate = Callable[[list[str]], list[str]]

RUNTIMES = ("Translator", "SavedModel", "LiteRT", "LiteRT int8")
TRANSLATOR, SAVED_MODEL, LITERT, LITERT_INT8 = RUNTIMES


class Runtime(NamedTuple):
    """A way to run a model.

    Args:
        translate: function that maps sentences to translations.
        num_bytes: size of the weight files or of the export.
    """

    translate: Translate
    num_bytes: int


def runtimes_of(
    translator: Translator, folder: pathlib.Path | None, say: Callable[[str], None]
) -> dict[str, Runtime]:
    """Return a translator and its exports, by runtime name.

    Args:
        translator: translator for a run or an ensemble.
        folder: existing folder for the exports. None means no exports.
        say: function that prints a line about an export that cannot be created or run here.
    """
    weights = {path for _, path in translator.origins}
    found = {TRANSLATOR: Runtime(translator.translate, sum(map(_size, weights)))}
    if folder is None:
        return found
    for name, export in (
        (SAVED_MODEL, _saved_model),
        (LITERT, _litert),
        (LITERT_INT8, functools.partial(_litert, precision="int8")),
    ):
        try:
            found[name] = export(translator, folder / name)
        except UserInputError as error:
            say(f"Skipping {name}: {error}")
    return found


def _saved_model(translator: Translator, folder: pathlib.Path) -> Runtime:
    path = export_saved_model(translator, folder)
    return Runtime(SavedModelTranslator(path).translate, _size(path))


def _litert(
    translator: Translator, folder: pathlib.Path, precision: Literal["float32", "int8"] = "float32"
) -> Runtime:
    path = export_litert(translator, folder, precision=precision)
    return Runtime(LiteRTTranslator(path, long_sentences="cut").translate, _size(path))


def _size(path: pathlib.Path) -> int:
    """Return the size in bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)
