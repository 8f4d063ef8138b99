"""The wheel and the sdist, built and used as by somebody who has no clone."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile

import pytest

from keras_transformer.installation import __version__
from keras_transformer.toolkit.demo.number_pairs import NumberPairs
from tests.external_data import ROOT
from tests.translation_training.number_text import flags

pytestmark = [pytest.mark.slow, pytest.mark.tensorflow]

STEM = f"keras_transformer_garden-{__version__}"
# Numbers below 1,000, in about a minute on two cores.
SETTINGS = {
    "preset": "tiny",
    "num_layers": 2,
    "dropout": 0.1,
    "label_smoothing": 0.0,
    "vocabulary_size": 120,
    "byte_fallback": False,
    "steps": 400,
    "warmup_steps": 100,
    "learning_rate_scale": 0.25,
    "save_every": 100,
    "batch_tokens": 1024,
    "held_out": 50,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist, made of the files of the repository, and the wheel made of it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    call([sys.executable, "-m", "build", "--outdir", built, source])
    return built


@pytest.fixture(scope="module")
def programs(built, tmp_path_factory):
    """The folder of programs of an environment that has nothing but the wheel and what it needs."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pinned = ["--constraint", ROOT / "constraints.txt"]
    wheel = built / f"{STEM}-py3-none-any.whl"
    call([python, "-m", "pip", "install", "--quiet", *pinned, f"{wheel}[tensorflow]"])
    return environment / "bin"


def call(command, text=None, cwd=None):
    """The stdout of a command that knows nothing of this environment."""
    own = ("PYTHON", "VIRTUAL_ENV", "KERAS_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    command = [str(word) for word in command]
    run = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_wheel_holds_the_package_alone(built):
    with zipfile.ZipFile(built / f"{STEM}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(f"{STEM}.dist-info/METADATA").decode()
    assert {name.split("/")[0] for name in names} == {"keras_transformer", f"{STEM}.dist-info"}
    assert {"keras_transformer/py.typed", f"{STEM}.dist-info/licenses/LICENSE"} <= names
    needed = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "keras_transformer").rglob("*")
        if path.suffix in (".py", ".js", ".css", ".html", ".mplstyle", ".xz")
    }
    needed |= {f"keras_transformer/formats/page/engine/{name}" for name in ("LICENSE", "README.md")}
    assert needed <= names
    assert "Project-URL: Repository, https://github.com/" in metadata


def test_the_sdist_holds_what_the_wheel_is_made_of(built):
    with tarfile.open(built / f"{STEM}.tar.gz") as sdist:
        paths = [pathlib.PurePath(name).relative_to(STEM) for name in sdist.getnames()]
    names = {str(path) for path in paths}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"} <= names
    assert "keras_transformer/py.typed" in names
    assert not {path.parts[0] for path in paths if path.parts} & {"tests", "recipes", "runs"}


def test_the_package_is_that_of_the_environment(programs, tmp_path):
    where = "import keras_transformer; print(keras_transformer.__file__)"
    file = call([programs / "python", "-c", where], cwd=tmp_path).strip()
    assert pathlib.Path(file).is_relative_to(programs.parent)
    version = call([programs / "keras-transformer", "--version"], cwd=tmp_path)
    assert version == f"keras-transformer {__version__}\n"


def test_number_words_are_learned_and_exported(programs, tmp_path):
    command = programs / "keras-transformer"
    pairs = NumberPairs.of(range(1000))
    for side, sentences in (("en", pairs.sources), ("de", pairs.targets)):
        (tmp_path / f"train.{side}").write_text("".join(f"{line}\n" for line in sentences), "utf-8")
    text = ["--source", "train.en", "--target", "train.de"]
    call([command, "train", *text, "--run", "run", *flags(**SETTINGS)], cwd=tmp_path)
    german = call([command, "translate", "run"], "\n".join(pairs.sources[::50]), cwd=tmp_path)
    equal = sum(map(str.__eq__, german.splitlines(), pairs.targets[::50]))
    assert equal >= 18  # of 20

    call([command, "export", "saved-model", "run", "exported"], cwd=tmp_path)
    call([command, "check", "run", "exported"], cwd=tmp_path)
    served = (
        "import tensorflow as tf, tensorflow_text\n"
        "model = tf.saved_model.load('exported/1')\n"
        f"found = model.signatures['serving_default'](tf.constant({pairs.sources[::50]!r}))\n"
        "print(*(text.decode() for text in found['outputs'].numpy()), sep='\\n')"
    )
    assert call([programs / "python", "-c", served], cwd=tmp_path).splitlines() == (
        german.splitlines()
    )


def test_the_sdist_installs_too(built, programs, tmp_path):
    sdist = built / f"{STEM}.tar.gz"
    call([programs / "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist])
    version = call([programs / "keras-transformer", "--version"], cwd=tmp_path)
    assert version == f"keras-transformer {__version__}\n"
