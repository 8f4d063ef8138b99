"""What the verb `serve` starts, to which manifests are compared; linters."""

import pathlib
import shutil
import subprocess
import sys

import pytest

from keras_transformer.toolkit.serving.model_server import ExportedModel, ServerOptions


@pytest.fixture
def served(tmp_path):
    """A function of an image: the options of `docker run`, and the arguments of the server."""

    def served(image):
        (tmp_path / "en_de" / "1").mkdir(parents=True)
        (tmp_path / "en_de" / "1" / "saved_model.pb").touch()
        (tmp_path / "en_de" / "batching.config").touch()
        command = ExportedModel(tmp_path / "en_de").docker_command(ServerOptions(), image)
        place = command.index(image)
        return command[:place], command[place + 1 :]

    return served


def lint(program, path):
    """What a linter beside this Python says of a file, as exit code and text."""
    found = shutil.which(program, path=str(pathlib.Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([found, str(path)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout
