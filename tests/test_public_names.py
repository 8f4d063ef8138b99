import ast
import importlib
import pathlib
import subprocess
import sys

import pytest

import keras_transformer
from keras_transformer import text


@pytest.mark.parametrize("name", keras_transformer.__all__)
def test_every_public_name_is_there(name):
    assert getattr(keras_transformer, name) is not None
    assert name in dir(keras_transformer)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Transformers'"):
        keras_transformer.Transformers  # noqa: B018


def test_importing_the_package_loads_neither_keras_nor_a_backend():
    code = (
        "import sys, keras_transformer; "
        "sys.exit(bool({'keras', 'tensorflow', 'jax'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("package", [keras_transformer, text], ids=lambda package: package.__name__)
def test_type_checkers_know_the_names_that_are_loaded_on_first_use(package):
    tree = ast.parse(pathlib.Path(package.__file__).read_text("utf-8"))
    (block,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    known = {
        alias.asname: getattr(importlib.import_module(line.module), alias.name)
        for line in block.body
        for alias in line.names
    }
    loaded = {name: getattr(package, name) for name in package.__all__ if name != "__version__"}
    assert known == loaded
