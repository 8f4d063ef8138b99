"""The wheel and the sdist: what they contain, and what the package index shows."""

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile

from tests.pages.page import ROOT

MOST_BYTES = 2_000_000  # of the wheel
MODELS = "saved_models/"
# In the sdist, next to the package.
NEEDED = {
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "constraints.txt",
    "pyproject.toml",
}
# A link or an image without the name of a protocol, in Markdown or HTML.
_LINK = re.compile(r'(\]\(|(?:src|srcset|href)=")(?!\w+:|#)([^)\s"]+)')
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
# What setuptools writes.
GENERATED = {"PKG-INFO", "setup.cfg", "keras_transformer_garden.egg-info"}


def tracked_files():
    """Paths of the files that Git tracks and that exist, relative to the root of the clone."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def build(source, folder):
    """Build both from a folder with the source, the wheel from the sdist; returns their paths."""
    command = [sys.executable, "-m", "build", "--outdir", folder, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The build failed:\n{done.stdout}{done.stderr}")
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def build_models(source, folder):
    """Build the wheel of the shipped models from a folder with the source; returns its path."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, source / MODELS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"The build failed:\n{done.stdout}{done.stderr}")
    (wheel,) = folder.glob("*.whl")
    return wheel


def models_faults(path, tracked):
    """What is wrong with the wheel of the shipped models, as a list of sentences."""
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {name.removeprefix(MODELS) for name in tracked if name.startswith(MODELS)}
    wanted -= {"README.md", "pyproject.toml"}
    return _differences(path.name, names, {f"keras_transformer_models/{name}" for name in wanted})


def wheel_faults(path, version, tracked):
    """What is wrong with a wheel, as a list of sentences."""
    found, size = [], path.stat().st_size
    if size >= MOST_BYTES:
        found.append(f"{path.name} has {size:,} bytes; at most {MOST_BYTES:,} are allowed")
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        header = email.message_from_bytes(wheel.read(metadata))
    if header["Version"] != version:
        found.append(f"{path.name} has version {header['Version']}, not {version}")
    found += [
        f"the description on the package index links to {link}, a file of the repository"
        for link in relative_links(str(header.get_payload()))
    ]
    package = {name for name in tracked if name.startswith("keras_transformer/")}
    own = {name for name in names if not name.startswith(f"{metadata.split('/')[0]}/")}
    found += _differences(path.name, own, package)
    return found


def sdist_faults(path, tracked):
    """What is wrong with an sdist, as a list of sentences."""
    with tarfile.open(path) as sdist:
        files = [member.name for member in sdist.getmembers() if member.isfile()]
    names = {name.partition("/")[2] for name in files}
    names = {name for name in names if name.split("/")[0] not in GENERATED}
    package = {name for name in tracked if name.startswith("keras_transformer/")}
    return _differences(path.name, names, package | NEEDED)


def with_absolute_links(description, version):
    """A description in Markdown whose links and images lead to a release on GitHub."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = project["urls"]["Repository"]
    raw = repository.replace("https://github.com/", "https://raw.githubusercontent.com/")

    def absolute(match):
        start, link = match.groups()
        is_image = link.endswith((".svg", ".png")) and not start.startswith("href")
        return f"{start}{raw if is_image else f'{repository}/blob'}/v{version}/{link}"

    parts = _CODE.split(description)  # text and code in turn
    parts[::2] = [_LINK.sub(absolute, text) for text in parts[::2]]
    return "".join(parts)


def relative_links(description):
    """The links and images of a description in Markdown that lead to files of the repository."""
    return [link for _, link in _LINK.findall("".join(_CODE.split(description)[::2]))]


def _differences(name, found, wanted):
    """Sentences about files that are missing or too many."""
    missing = [f"{name} lacks {file}" for file in sorted(wanted - found)]
    return missing + [f"{name} contains {file}" for file in sorted(found - wanted)]
