"""The layout of the house: what a module may import, and what lies at the top of the package.

A module imports lower ranks and files of its own folder; a recipe imports public names alone.
"""

import ast
import graphlib
import importlib
import pathlib
import re
import subprocess
import sys

import pytest

import keras_transformer

ROOT = pathlib.Path(__file__).parents[1]
ROOT_MODULES = {path.name for path in (ROOT / "keras_transformer").glob("*.py")}
# The floors of the house, from the ground up. Two of the rooms are groups of modules at the root.
CORE_MODULES = {"argument_checks", "errors", "installation", "search_options", "types"}
CORE_MODULES |= {"losses", "metrics", "optimizers", "schedules"}
BASE = CORE_MODULES | {"files", "input_files", "settings"}
PUBLIC = {"__init__", "__main__", "export", "figures", "interop", "interpretation", "serving"}
PUBLIC |= {"translation_training"}
FLOORS = [
    ["base"],
    ["layers", "decoding"],
    ["models", "text"],
    ["data", "parsing", "runs"],
    ["formats", "evaluation"],
    ["inference"],
    ["training"],
    ["toolkit"],
    ["public"],
    ["recipes", "benchmarks"],
]
PACKAGE_NAMES = {*keras_transformer.__all__} - {name for rooms in FLOORS for name in rooms}
RANKS = {name: rank for rank, rooms in enumerate(FLOORS) for name in rooms}
# What runs on every backend.
CORE_ROOMS = {"layers", "decoding", "models"}
CORE_LIBRARIES = {"keras", "numpy"}
BACKENDS = {"jax", "tensorflow", "tensorflow_datasets", "tensorflow_text", "torch"}


def room(module):
    """The room that a module belongs to: `keras_transformer.layers.x` -> `layers`."""
    top, *parts = module.split(".")
    if top != "keras_transformer":
        return top
    name = parts[0] if parts else "__init__"
    return "base" if name in BASE else "public" if name in PUBLIC else name


def is_core(module):
    """Whether a module of the package has to run on every backend."""
    return room(module) in CORE_ROOMS or bool({*module.split(".")[1:2]} & CORE_MODULES)


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


class WithoutTypes(ast.NodeTransformer):
    """Drops the blocks `if TYPE_CHECKING:` and `with on_first_use(...):`, which import nothing."""

    def visit_With(self, node):
        if ast.unparse(node.items[0].context_expr).startswith("on_first_use("):
            return None
        return self.generic_visit(node)

    def visit_If(self, node):
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse
        return self.generic_visit(node)


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
            there = room(name)
            there = "public" if there in PACKAGE_NAMES else there
            if there != here and RANKS.get(there, 99) >= RANKS[here]:
                found.append(f"{module} imports {name}: not of a lower rank")
        elif is_core(module):
            if library not in CORE_LIBRARIES | sys.stdlib_module_names:
                found.append(f"{module} imports {name}: the core is Keras and NumPy alone")
        elif library in BACKENDS and at_top and library.split("_")[0] not in module.split(".")[-1]:
            found.append(f"{module} imports {name}: at the top of a file not named for it")
    return found


def private_imports(source):
    """What a recipe imports that is not public, as a list of names.

    Public are the names in `__all__` of the package and of its rooms, and in a module at the root
    of the package all that it defines.
    """
    found = []
    for name, _ in imports(ast.parse(source)):
        module, _, imported = name.rpartition(".")
        if name.split(".")[0] != "keras_transformer":
            continue
        if imported.startswith("_"):
            found.append(name)
        elif (ROOT / module.replace(".", "/")).is_dir():
            exported = getattr(importlib.import_module(module), "__all__", ())
            is_room = module == "keras_transformer" and f"{imported}.py" in ROOT_MODULES
            if imported not in exported and not is_room:
                found.append(name)
        elif module.count(".") > 1:
            found.append(name)
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


def test_the_core_imports_the_core():
    core = {module: source for module, source in sources().items() if is_core(module)}
    own = [
        (module, name)
        for module, source in core.items()
        for name, _ in imports(ast.parse(source))
        if name.startswith("keras_transformer")
    ]
    assert len(core) > 30
    assert [(module, name) for module, name in own if not is_core(name)] == []


def test_no_import_cycles():
    modules = sources()
    graph = {}
    for module, source in modules.items():
        names = [name for name, _ in imports(WithoutTypes().visit(ast.parse(source)))]
        named = {name if name in modules else name.rpartition(".")[0] for name in names}
        graph[module] = named & modules.keys()
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"import cycle: {' -> '.join(error.args[1])}")


def test_recipes_import_public_names_only():
    recipes = {name: text for name, text in sources().items() if name.startswith("recipes")}
    assert {name: private_imports(text) for name, text in recipes.items()} == {
        name: [] for name in recipes
    }


@pytest.mark.parametrize(
    ("module", "name", "is_private"),
    [
        ("keras_transformer", "Translator", False),
        ("keras_transformer", "training", False),
        ("keras_transformer.settings", "setting", False),
        ("keras_transformer.data", "find_text", False),
        ("keras_transformer.data", "batch_plan", True),
        ("keras_transformer.data.parallel_text", "find_text", True),
        ("keras_transformer.toolkit", "cli", True),
        ("keras_transformer.toolkit.cli", "run_command", False),
        ("keras_transformer.toolkit.cli.verbs", "train_command", True),
    ],
)
def test_a_private_import_is_found(module, name, is_private):
    found = [f"{module}.{name}"] if is_private else []
    assert private_imports(f"from {module} import {name}") == found


def test_only_tell_prints_to_standard_error():
    """A plain `print` raises where standard error has been closed, in the middle of a training."""
    found = []
    for module, source in sources().items():
        if not module.startswith("keras_transformer") or module == "keras_transformer.files":
            continue
        found += [
            f"{module}:{node.lineno}"
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) == "print"
            and any(ast.unparse(each.value) == "sys.stderr" for each in node.keywords)
        ]
    assert found == []


def test_the_house_is_seen_at_a_glance():
    folders = {path.parent for path in (ROOT / "keras_transformer").glob("*/*.py")}
    assert len(folders) <= 12
    assert len(ROOT_MODULES) <= 20
    assert {path.removesuffix(".py") for path in ROOT_MODULES} == BASE | PUBLIC


def test_the_way_of_a_source_text_is_drawn_with_files_that_exist():
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    files = re.findall(r"^[│ ]  (\S+\.py) ", page, re.MULTILINE)
    assert f" {len(set(files))} files handle the source text" in page
    assert [name for name in files if not (ROOT / "keras_transformer" / name).is_file()] == []


def test_every_test_is_in_one_part_of_the_full_tests():
    rule = "parts: ; @echo $(foreach p,$(PARTS),$($p))"
    command = ["make", "--no-print-directory", "--eval", rule, "parts"]
    parts = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tests = ROOT / "tests"
    expected = ["keras_transformer", *(f"tests/{path.name}" for path in tests.glob("test_*.py"))]
    expected += {f"tests/{p.relative_to(tests).parts[0]}" for p in tests.glob("*/**/test_*.py")}
    assert sorted(parts.stdout.split()) == sorted(expected)


RECIPES = {path.parent.name: path for path in sorted((ROOT / "recipes").glob("*/train.py"))}
RECIPES["number_words"] = ROOT / "keras_transformer" / "toolkit" / "demo" / "train.py"


@pytest.mark.parametrize("path", RECIPES.values(), ids=RECIPES)
def test_a_recipe_reads_from_top_to_bottom(path):
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 80
    steps = ["# Text", "# Tokenizer", "# Batches", "# Model", " model = ", ".compile("]
    steps += ["# Training", ".fit(", "# Average", "# Scores"]
    places = [text.find(step) for step in steps]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("module", "source", "rule"),
    [
        ("keras_transformer.layers.x", "from keras_transformer.models import y", "lower rank"),
        ("keras_transformer.layers.x", "from keras_transformer import decoding", "lower rank"),
        ("keras_transformer.layers.x", "import keras_transformer", "lower rank"),
        ("keras_transformer.layers.x", "def f():\n    import tensorflow", "Keras and NumPy alone"),
        ("keras_transformer.layers.x", "from keras.src import backend", "private to Keras"),
        ("keras_transformer.layers.x", "from . import y", "full name"),
        ("keras_transformer.data.x", "import tensorflow as tf", "not named for it"),
        ("keras_transformer.data.x", "from recipes import number_words", "lower rank"),
        ("keras_transformer.data.x", "from tests import reference", "lower rank"),
        ("keras_transformer.shed.x", "import os", "no rank"),
        ("keras_transformer.formats.x", "from keras_transformer.inference import x", "lower rank"),
        ("keras_transformer.layers.x", "from keras_transformer.layers.y import Y", None),
        ("keras_transformer.layers.x", "import math, keras", None),
        ("keras_transformer.models.x", "from keras_transformer import layers, types", None),
        ("keras_transformer.data.x", "def f():\n    import tensorflow as tf", None),
        ("keras_transformer.export.tensorflow_x", "import tensorflow as tf", None),
        ("recipes.example.train", "from keras_transformer import Translator", None),
        ("recipes.example.train", "import recipes.y", None),
    ],
)
def test_a_wrong_import_is_found_and_a_right_one_passes(module, source, rule):
    found = violations(module, source)
    assert len(found) == (rule is not None)
    assert all(rule in fault for fault in found)
