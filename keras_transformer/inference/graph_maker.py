"""Make a LiteRT graph in the user's cache, in a process of its own."""

import json
import os
import shutil
import sys
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files import file_lock
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.litert_graph import GraphRecipe, ModelFiles, opened
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import EXPORT

MOST_GRAPHS = 8  # in the cache


def main(recipe: str, path: str) -> None:
    """Make a graph from a recipe in JSON. Errors are one line on stderr."""
    values = json.loads(recipe)
    os.umask(0o077)
    if hasattr(os, "nice"):
        os.nice(10)
    try:
        make(GraphRecipe(**{**values, "files": ModelFiles(**values["files"])}), Path(path))
    except (UserInputError, OSError) as error:
        sys.exit(str(error))


def make(recipe: GraphRecipe, path: Path) -> None:
    """Make a graph, unless another process has made it.

    Raises:
        UserInputError: the files of the model have changed, or the graph cannot be written.
    """
    with file_lock(path.with_name(f".{path.name}.lock")):
        if opened(path) is not None:
            return
        load = getattr(Translator, recipe.files.method)
        shortlist = True if recipe.shortlist else None
        translator = load(
            *recipe.files.arguments, **recipe.search, shortlist=shortlist, engine="own"
        )
        recipe.files.check()
        _remove(path)  # it is damaged
        limit = min(EXPORT.max_source_length, translator.max_source_length)
        export_litert(
            translator,
            path,
            precision=recipe.precision,
            alignments=False,
            max_source_length=limit,
        )
        _remove_oldest(path.parent)


def _remove_oldest(folder: Path) -> None:
    """Remove the graphs that were not opened for the longest time, except the last few."""
    graphs = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for path in sorted(graphs, key=lambda path: path.lstat().st_mtime)[:-MOST_GRAPHS]:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
