import subprocess
import sys

import pytest

import keras_transformer


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
