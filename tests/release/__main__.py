"""Check that the package can be released: `make release-check`.

It builds the wheel and the sdist, installs each into an empty environment of every supported
Python that this machine has, and runs README's Python and commands in an empty folder.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from tests.pages.page import ROOT, Page
from tests.release import packages, pythons, readme_commands, versions

EXTRAS = "tensorflow,demo"  # what README's commands need
PROGRAM = "keras-transformer"


class Failed(Exception):
    """A check has failed; the message says how."""


def main(arguments=None):
    """Run all checks and print their results; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    add = parser.add_argument
    add("--python", action="append", metavar="VERSION", help="check only this Python, such as 3.12")
    add("--all", action="store_true", help="fail if a supported Python is missing")
    add("--tag", help="Git tag of the release, which must be v and the version")
    add("--outdir", type=pathlib.Path, help="folder to keep the wheel and the sdist in")
    add("--sbom", type=pathlib.Path, help="folder for a list of what the wheel needs, in CycloneDX")
    values = parser.parse_args(arguments)
    wanted = values.python or pythons.supported()
    found = {version: pythons.find(version) for version in wanted}
    missing = [version for version, path in found.items() if path is None]
    for version in missing:
        say(f"Python {version} is not on this machine: NOT CHECKED")
    try:
        with tempfile.TemporaryDirectory(prefix="release-") as folder:
            _check(pathlib.Path(folder).resolve(), found, values)
    except Failed as error:
        say(f"FAILED: {error}")
        return 1
    checked = ", ".join(version for version in wanted if version not in missing)
    say(f"Passed with Python {checked or 'of no version'}.")
    if missing:
        say(f"Not checked: Python {', '.join(missing)}.")
    return 1 if not checked or (missing and values.all) else 0


def say(line):
    """Print a line of progress immediately."""
    print(line, flush=True)


def _check(folder, found, values):
    """Run the checks in an empty folder; `found` has the path of each Python, or None."""
    expect("versions agree", versions.disagreements(values.tag))
    outdir = (values.outdir or folder / "dist").resolve()
    if outdir.is_dir() and any(outdir.iterdir()):
        raise Failed(f"{outdir} must be empty")
    tracked = packages.tracked_files()
    for name in tracked:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    version = versions.package_version()
    readme = folder / "source" / "README.md"
    description = packages.with_absolute_links(readme.read_text("utf-8"), version)
    readme.write_text(description, "utf-8")
    say("building the wheel and the sdist")
    try:
        wheel, sdist = packages.build(folder / "source", outdir)
        models = packages.build_models(folder / "source", folder / "models")  # not published
    except RuntimeError as error:
        raise Failed(str(error)) from error
    shutil.rmtree(folder / "source")
    faults = packages.wheel_faults(wheel, version, tracked)
    expect(f"{wheel.name}: {wheel.stat().st_size:,} bytes", faults)
    expect(f"{sdist.name}: {sdist.stat().st_size:,} bytes", packages.sdist_faults(sdist, tracked))
    expect(
        f"{models.name}: {models.stat().st_size:,} bytes", packages.models_faults(models, tracked)
    )
    run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], folder)
    say("ok: twine check")
    for name, python in found.items():
        if python is not None:
            with tempfile.TemporaryDirectory(prefix=f"python{name}-", dir=folder) as place:
                place = pathlib.Path(place)
                label, programs = f"[{name}]", place / "wheel" / "bin"
                _check_python(label, python, place, wheel, sdist, version)
                _check_models(label, programs, models, place)
                _run_readme(label, programs, place / "wheel-run")
                if values.sbom is not None:
                    _write_sbom(values.sbom, version, name, place / "wheel")


def _check_python(label, python, folder, wheel, sdist, version):
    """Install both packages with one Python."""
    folders = {}
    for kind, package, extras in (("sdist", sdist, ""), ("wheel", wheel, f"[{EXTRAS}]")):
        programs = folder / kind / "bin"
        say(f"{label} installing the {kind}, with what it needs")
        start = time.monotonic()
        run([python, "-m", "venv", folder / kind], folder)
        own_python = programs / "python"
        install = [own_python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*install, f"{package}{extras}"], folder, own_home=False)
        say(f"{label} ok: installed in {time.monotonic() - start:.0f} s")
        empty = folder / f"{kind}-run"
        empty.mkdir()
        printed = run([programs / PROGRAM, "--version"], empty)
        expect(
            f"{label} {printed.strip()}",
            [] if printed.strip() == f"{PROGRAM} {version}" else [f"not version {version}"],
        )
        where = "import keras_transformer; print(keras_transformer.__path__[0])"
        folders[kind] = pathlib.Path(run([own_python, "-c", where], empty).strip())
    differences = set(_contents(folders["sdist"])) ^ set(_contents(folders["wheel"]))
    expect(f"{label} both install the same files", sorted(differences))


def _check_models(label, programs, models, folder):
    """Install the shipped models next to the wheel, whose command then lists them."""
    run([programs / "python", "-m", "pip", "install", "--quiet", models], folder, own_home=False)
    listed = json.loads(run([programs / PROGRAM, "models", "--json"], folder))
    with open(ROOT / packages.MODELS / "models.csv", encoding="utf-8") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    found = [model["name"] for model in listed]
    expect(f"{label} the shipped models are {found}", [] if found == names else [f"not {names}"])


def _write_sbom(directory, version, python, environment):
    """List the packages of an environment, with their versions and licenses."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory.resolve() / f"keras_transformer_garden-{version}-python{python}.cdx.json"
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    command += ["--mc-type", "library", "--pyproject", ROOT / "pyproject.toml"]
    run([*command, "--output-file", path, environment / "bin" / "python"], environment)
    say(f"ok: {path.name} lists what the wheel needs")


def _contents(package):
    """The names of the files of an installed package, without compiled ones."""
    files = (path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return [f"{path.relative_to(package)}" for path in files]


def _run_readme(label, programs, folder):
    """Run README's Python blocks and its commands in order, in one empty folder."""
    page = Page("README.md")
    for number, (code, output) in enumerate(readme_commands.examples_of(page), 1):
        say(f"{label} running Python block {number} of README")
        (folder / f"block{number}.py").write_text(code, "utf-8")
        printed = run([programs / "python", f"block{number}.py"], folder).splitlines()
        (folder / f"block{number}.py").unlink()
        ending = printed[len(printed) - len(output) :]
        different = [f"README shows {output}"] if ending != output else []
        expect(f"{label} it printed {ending}", different)
    commands, absent = readme_commands.commands_of(page), set()
    readme_commands.write_texts(folder, readme_commands.texts_of(commands))
    for command in commands:
        reason, paths = command.reason, readme_commands.paths_in(command.text)
        if reason is None and absent.intersection(paths):
            reason = "needs what a command that was not run would have made"
        if reason is not None:
            absent.update(path for path in paths if not (folder / path).exists())
            say(f"{label} not run: {command.text} ({reason})")
            continue
        text = readme_commands.shortened(command.text)
        say(f"{label} $ {text}")
        start = time.monotonic()
        run(["bash", "-e", "-o", "pipefail", "-c", text], folder, programs)
        say(f"{label} ok: {time.monotonic() - start:.0f} s")


def expect(what, faults):
    """Print that a check has passed, or raise `Failed` with its faults."""
    if faults:
        raise Failed("\n".join([what, *faults]))
    say(f"ok: {what}")


def run(command, cwd, programs=None, own_home=True):
    """Run a command that knows nothing of this process's Python; returns its standard output.

    Args:
        command: its words.
        cwd: the folder to run it in.
        programs: a folder to put before the path.
        own_home: whether it gets an empty home, and addresses of the network that do not answer.
    """
    hidden = ("PYTHON", "VIRTUAL_ENV", "KERAS_", "TF_", "JAX_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
    environment["PATH"] = os.pathsep.join(
        [*([str(programs)] if programs else []), os.environ["PATH"]]
    )
    if own_home:
        home = cwd / ".home"
        home.mkdir(exist_ok=True)
        nowhere = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home), "HF_HUB_OFFLINE": "1"}
        environment |= nowhere
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise Failed(f"{words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
