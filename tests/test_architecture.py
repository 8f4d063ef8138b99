"""The import order of the package: a module imports lower ranks and files of its own folder."""

import ast
import graphlib
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
RANKS = {
    "argument_checks": 0, "attention_masks": 0, "errors": 0, "special_tokens": 0, "version": 0,
    "search_options": 1,
    "layers": 2, "losses": 2, "schedules": 2, "decoding": 2,
    "metrics": 3, "models": 3, "optimizers": 3,
    "files": 4,
    "backend_start": 5, "settings": 5, "text": 5,
    "data": 6, "parsing": 6, "runs": 6,
    "command_line": 7, "evaluation": 7, "inference": 7,
    "serving": 8, "training": 8,
    "export": 9, "interop": 9, "interpretation": 9, "translation_training": 9,
    "__init__": 10, "commands": 10,
    "cli": 11,
    "__main__": 12,
    "recipes": 12, "benchmarks": 12,
}  # fmt: skip
CORE = 3  # the highest rank that runs on every backend
CORE_LIBRARIES = {"keras", "numpy"}
BACKENDS = {"jax", "tensorflow", "tensorflow_datasets", "tensorflow_text", "torch"}


def room(module):
    """The part of the house that a module belongs to: `keras_transformer.layers.x` -> `layers`."""
    parts = module.split(".")
    if parts[0] != "keras_transformer":
        return parts[0]
    return parts[1] if len(parts) > 1 else "__init__"


def imports(tree):
    """Yield `(imported name, is it at the top of the file)` of every import in a file."""
    inside = {
        id(child)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            yield from ((f"{origin}.{alias.name}", id(node) not in inside) for alias in node.names)


def violations(module, source):
    """What a file's imports break, as a list of sentences."""
    here, found = room(module), []
    if here not in RANKS:
        return [f"{module}: the room `{here}` has no rank"]
    for name, at_top in imports(ast.parse(source)):
        library = name.split(".")[0]
        if name.startswith("."):
            found.append(f"{module} imports {name}: write the full name")
        elif name.startswith("keras.src"):
            found.append(f"{module} imports {name}: private to Keras")
        elif library in ("keras_transformer", "recipes", "benchmarks", "tests"):
            there = (
                room(name) if room(name) in RANKS or library != "keras_transformer" else "__init__"
            )
            if there != here and RANKS.get(there, 99) >= RANKS[here]:
                found.append(f"{module} imports {name}: not of a lower rank")
        elif RANKS[here] <= CORE:
            if library not in CORE_LIBRARIES | sys.stdlib_module_names:
                found.append(f"{module} imports {name}: the core is Keras and NumPy alone")
        elif library in BACKENDS and at_top and library.split("_")[0] not in module.split(".")[-1]:
            found.append(f"{module} imports {name}: at the top of a file not named for it")
    return found


def sources():
    """Every module of the package, the recipes and the benchmarks: name -> source text."""
    files = [
        path
        for top in ("keras_transformer", "recipes", "benchmarks")
        for path in (ROOT / top).rglob("*.py")
    ]
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path.read_text("utf-8") for path, name in names.items()}


def test_every_import_points_downward():
    assert [found for item in sources().items() for found in violations(*item)] == []


def test_no_import_cycles():
    modules = sources()
    graph = {}
    for module, source in modules.items():
        names = [name for name, _ in imports(ast.parse(source))]
        named = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = named & modules.keys()
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("keras_transformer.layers.x", "from keras_transformer.models import y", "lower rank"),
        ("keras_transformer.layers.x", "from keras_transformer import losses", "lower rank"),
        ("keras_transformer.layers.x", "import keras_transformer", "lower rank"),
        ("keras_transformer.layers.x", "def f():\n    import tensorflow", "Keras and NumPy alone"),
        ("keras_transformer.layers.x", "from keras.src import backend", "private to Keras"),
        ("keras_transformer.layers.x", "from . import y", "full name"),
        ("keras_transformer.data.x", "import tensorflow as tf", "not named for it"),
        ("keras_transformer.data.x", "from recipes import number_words", "lower rank"),
        ("keras_transformer.data.x", "from tests import reference", "lower rank"),
        ("keras_transformer.shed.x", "import os", "no rank"),
    ],
)
def test_a_wrong_import_is_found(module, source, rule):
    (found,) = violations(module, source)
    assert rule in found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "keras_transformer.layers.x",
            "from keras_transformer.layers.y import Y\nimport math, keras",
        ),
        ("keras_transformer.models.x", "from keras_transformer import layers, special_tokens"),
        ("keras_transformer.data.x", "def f():\n    import tensorflow as tf"),
        ("keras_transformer.data.batches.tensorflow_dataset", "import tensorflow as tf"),
        ("recipes.example.train", "from keras_transformer import Translator\nimport recipes.y"),
    ],
)
def test_a_right_import_passes(module, source):
    assert violations(module, source) == []
