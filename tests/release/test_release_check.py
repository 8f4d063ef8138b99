"""The parts of `make release-check` that read files; the check itself builds and installs."""

import io
import sys
import tarfile
import zipfile

import pytest

from tests.pages.page import Page
from tests.release import packages, pythons, readme_commands, versions
from tests.release.__main__ import Failed, run

README = """# A page
```sh
pip install package            # the reader's way
program import hf://owner/model runs/model
echo "Hello." | keras-transformer translate runs/model
keras-transformer train --source train.en --target train.de \\
    --minutes 60 --run runs/own
keras-transformer translate runs/own < english.txt > german.txt   # a comment
keras-transformer app runs/own
```
"""


@pytest.fixture
def commands(tmp_path):
    (tmp_path / "README.md").write_text(README, "utf-8")
    return readme_commands.commands_of(Page(tmp_path / "README.md"))


def test_the_version_is_the_same_everywhere():
    assert versions.disagreements(f"v{versions.package_version()}") == []
    assert versions.disagreements("v9.9.9") == [
        f"the tag is v9.9.9, not v{versions.package_version()}"
    ]


@pytest.mark.parametrize(
    ("changelog", "newest"),
    [
        (
            "# Changelog\n\n## 1.2.0 - 2027-01-31\n\n## 1.1.0 - 2026-12-31\n",
            ("1.2.0", "2027-01-31"),
        ),
        ("## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n", ("1.2.0", "2027-01-31")),
        ("## 1.2.0\n", ("1.2.0", None)),
        ("# Changelog\n", (None, None)),
    ],
)
def test_the_newest_change_is_the_first_release(changelog, newest):
    assert versions.newest_change(changelog) == newest


def test_examples_come_with_the_output_that_follows_them(tmp_path):
    text = "```python\na\n```\n\n```\n1\n2\n```\n\n```python\nb\n```\n\nText.\n\n```\n3\n```\n"
    (tmp_path / "page.md").write_text(text, "utf-8")
    found = readme_commands.examples_of(Page(tmp_path / "page.md"))
    assert found == [("a\n", ["1", "2"]), ("b\n", [])]


def test_commands_are_joined_and_stripped_of_comments(commands):
    assert [command.text for command in commands][-4:] == [
        'echo "Hello." | keras-transformer translate runs/model',
        "keras-transformer train --source train.en --target train.de --minutes 60 --run runs/own",
        "keras-transformer translate runs/own < english.txt > german.txt",
        "keras-transformer app runs/own",
    ]


def test_commands_that_cannot_run_have_a_reason(commands):
    reasons = [command.reason for command in commands]
    assert reasons[:2] == ["this check has installed the package", "needs a network"]
    assert reasons[2:] == [None, None, None, "runs until it is stopped"]
    assert readme_commands.paths_in(commands[2].text) == ["runs/model"]


def test_only_texts_that_no_command_writes_are_prepared(commands, tmp_path):
    names = readme_commands.texts_of(commands)
    assert names == ["train.en", "train.de", "english.txt"]
    readme_commands.write_texts(tmp_path, names)
    english = (tmp_path / "train.en").read_text("utf-8").splitlines()
    german = (tmp_path / "train.de").read_text("utf-8").splitlines()
    assert len(english) == len(german) == 4000
    assert german[0] == " ".join(readme_commands.WORDS[word] for word in english[0].split())
    assert (tmp_path / "english.txt").read_text("utf-8").splitlines() == english[:50]


def test_trainings_are_shortened():
    assert (
        readme_commands.shortened("train --minutes 60 --run 60") == "train --minutes 0.5 --run 60"
    )
    assert readme_commands.shortened("train --minutes=1.5") == "train --minutes=0.5"


def test_readme_has_commands_that_run():
    commands = readme_commands.commands_of(Page("README.md"))
    verbs = [command.text.split()[1] for command in commands if command.reason is None]
    assert {"train", "translate", "evaluate"} <= set(verbs)


def test_links_of_the_description_become_absolute():
    text = (
        "[a](docs/a.md#b) ![c](docs/c.svg) [e](#f) [g](https://example.org) `[h](i)`\n"
        '<img src="docs/j.png"> <a href="LICENSE">k</a>\n```sh\n[l](m)\n```\n'
    )
    assert packages.relative_links(text) == ["docs/a.md#b", "docs/c.svg", "docs/j.png", "LICENSE"]
    absolute = packages.with_absolute_links(text, "1.2.0")
    assert packages.relative_links(absolute) == []
    project = "keras-transformer-garden/keras-transformer-garden"
    assert f"[a](https://github.com/{project}/blob/v1.2.0/docs/a.md#b)" in absolute
    assert f"![c](https://raw.githubusercontent.com/{project}/v1.2.0/docs/c.svg)" in absolute
    assert f'<img src="https://raw.githubusercontent.com/{project}/v1.2.0/docs/j.png">' in absolute
    assert f'<a href="https://github.com/{project}/blob/v1.2.0/LICENSE">' in absolute
    assert "`[h](i)`" in absolute
    assert "\n[l](m)\n" in absolute


def write_wheel(path, version, description, names):
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            "package-1.dist-info/METADATA",
            f"Metadata-Version: 2.4\nName: package\nVersion: {version}\n\n{description}",
        )
        for name in names:
            wheel.writestr(name, "")


def test_faults_of_a_wheel_are_found(tmp_path, monkeypatch):
    path, tracked = tmp_path / "package.whl", ["keras_transformer/a.py", "tests/test_a.py"]
    write_wheel(path, "1.0", "[a](https://example.org)", tracked[:1])
    assert packages.wheel_faults(path, "1.0", tracked) == []
    write_wheel(path, "0.9", "[a](docs/a.md)", ["tests/test_a.py"])
    monkeypatch.setattr(packages, "MOST_BYTES", 10)
    size = path.stat().st_size
    assert packages.wheel_faults(path, "1.0", tracked) == [
        f"package.whl has {size:,} bytes; at most 10 are allowed",
        "package.whl has version 0.9, not 1.0",
        "the description on the package index links to docs/a.md, a file of the repository",
        "package.whl lacks keras_transformer/a.py",
        "package.whl contains tests/test_a.py",
    ]


def test_the_wheel_of_models_contains_what_is_tracked(tmp_path):
    path, package = tmp_path / "models.whl", "keras_transformer_models"
    tracked = ["saved_models/README.md", "saved_models/pyproject.toml", "saved_models/models.csv"]
    tracked += ["saved_models/en_de/run.json", "saved_models/en_de/README.md", "README.md"]
    names = [f"{package}/{name}" for name in ("models.csv", "en_de/run.json", "en_de/README.md")]
    write_wheel(path, "1.0", "", names)
    assert packages.models_faults(path, tracked) == []
    write_wheel(path, "1.0", "", [*names[:2], f"{package}/own/run.json"])
    assert packages.models_faults(path, tracked) == [
        f"models.whl lacks {package}/en_de/README.md",
        f"models.whl contains {package}/own/run.json",
    ]


def test_faults_of_an_sdist_are_found(tmp_path):
    path = tmp_path / "package.tar.gz"
    names = sorted(packages.NEEDED - {"LICENSE"})
    with tarfile.open(path, "w:gz") as sdist:
        for name in [*names, "PKG-INFO", "keras_transformer/a.py", "runs/own/run.json"]:
            sdist.addfile(tarfile.TarInfo(f"package-1.0/{name}"), io.BytesIO())
    assert packages.sdist_faults(path, ["keras_transformer/a.py"]) == [
        "package.tar.gz lacks LICENSE",
        "package.tar.gz contains runs/own/run.json",
    ]


def test_files_that_the_sdist_needs_are_tracked():
    assert set(packages.tracked_files()) >= packages.NEEDED


def test_a_python_is_found_by_its_version():
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert here in pythons.supported()
    assert pythons.find(here) is not None
    assert pythons.find("3.99") is None


def test_a_command_gets_no_python_of_ours_and_its_failure_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "ours")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    shown = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('KERAS_BACKEND'))"
    assert run([sys.executable, "-c", shown], tmp_path) == "None None\n"
    with pytest.raises(Failed, match=r"ended with 3:\nfirst\nsecond\n"):
        run(["bash", "-c", "echo first; echo second >&2; exit 3"], tmp_path)
