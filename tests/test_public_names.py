import subprocess
import sys

import pytest

import keras_transformer
from keras_transformer import models, serving, text, training


def test_importing_the_package_loads_neither_keras_nor_a_backend():
    code = (
        "import sys, keras_transformer; "
        "sys.exit(bool({'keras', 'tensorflow', 'jax'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "package", [keras_transformer, models, serving, text, training], ids=lambda p: p.__name__
)
def test_names_are_loaded_on_first_use_and_are_no_others(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
        assert name in dir(package)
    with pytest.raises(AttributeError, match="has no attribute 'Transformers'"):
        package.Transformers  # noqa: B018
