import os
import re
import shutil
import subprocess
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.installation import pip_install
from keras_transformer.toolkit.serving import saved_model_cli

MODULE = "keras_transformer.serving.saved_model_cli"


@pytest.mark.tensorflow
def test_a_missing_model_is_one_line(tmp_path):
    arguments = ["show", "--dir", str(tmp_path / "missing"), "--all"]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: SavedModel file does not exist at: {tmp_path / 'missing'}\n"


@pytest.mark.parametrize(
    ("package", "fault"),
    [
        ("tensorflow", "TensorFlow is not installed"),
        ("tensorflow_text", "SavedModels need tensorflow-text"),
    ],
)
def test_a_missing_package_says_how_to_install_it(package, fault, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    command = re.escape(pip_install("tensorflow"))
    with pytest.raises(UserInputError, match=rf"^{fault}: {command}$"):
        saved_model_cli.main()


@pytest.mark.tensorflow
def test_a_damaged_model_is_one_line(exported_model, tmp_path, monkeypatch):
    path = shutil.copytree(exported_model / "1", tmp_path / "1")
    (data,) = path.glob("variables/variables.data-*")
    os.truncate(data, 100)
    arguments = ["run", "--dir", str(path), "--tag_set", "serve", "--signature_def", "tokenize"]
    monkeypatch.setattr(sys, "argv", [MODULE, *arguments, "--input_exprs", 'inputs=["one"]'])
    with pytest.raises(UserInputError, match="Read less bytes than requested"):
        saved_model_cli.main()
