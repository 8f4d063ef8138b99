"""SHA256SUMS: as `sha256sum` reads it, and what of a directory it finds."""

import os
import shutil
import subprocess

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum
from keras_transformer.formats.registry import check_export
from keras_transformer.runs import checksums
from keras_transformer.runs.checksums import CHECKSUMS, write_checksums
from keras_transformer.toolkit import cli


@pytest.fixture
def export(tmp_path):
    """An export with a file in a directory of its own, and one with an odd name."""
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"weights")
    (tmp_path / "größer  x").write_bytes(b"")
    write_checksums(tmp_path)
    return tmp_path


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the program sha256sum")
def test_sha256sum_reads_it(export):
    subprocess.run(["sha256sum", "--check", "--strict", CHECKSUMS], cwd=export, check=True)


def test_all_files_are_compared(export, capsys):
    assert check_export(export) == 2
    assert cli.main(["check", str(export)]) == 0
    assert capsys.readouterr().out == f"{export}: 2 files are intact\n"
    (export / "more").touch()  # none of the export's
    assert check_export(export) == 2


def test_names_of_strangers_do_not_control_the_terminal(tmp_path, capsys):
    names = ("good\x1b[31m\n", "bad\x9b2J")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "a\u2028b").write_bytes(b"weights")
        write_checksums(tmp_path / name)
    (tmp_path / names[1] / "a\u2028b").write_bytes(b"others")
    assert cli.main(["check", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == f"{tmp_path}/good\ufffd[31m : 1 files are intact\n"
    assert err.startswith(f"error: {tmp_path}/bad\ufffd2J/a b is damaged")
    assert err.count("\n") == 1


@pytest.mark.parametrize("damage", ["weighty", None])
def test_what_is_damaged_or_missing_is_named(export, capsys, damage):
    path = export / "variables" / "data"
    path.write_text(damage) if damage else path.unlink()
    with pytest.raises(UserInputError, match="variables/data.* Copy the export again"):
        check_export(export)
    assert cli.main(["check", str(export)]) == 2
    assert "variables/data" in capsys.readouterr().err


def test_a_run_is_checked_beside_the_export_in_it(export, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(export, run / "litert")
    assert cli.main(["check", str(run)]) == 0
    (run / "run.json").write_text("damaged")
    assert cli.main(["check", str(run)]) == 2
    shown = capsys.readouterr()
    assert "litert: 2 files are intact" in shown.out
    assert "run.json" in shown.err


def test_a_device_is_not_read(export):
    path = export / "variables" / "data"
    path.unlink()
    path.symlink_to(os.devnull)  # stands for what has no end, or a pipe that waits for its writer
    with pytest.raises(UserInputError, match=r"variables/data: it is not a regular file"):
        check_export(export)


@pytest.mark.parametrize("line", ["x  y", f"{'0' * 64}  ../passwords", f"{'0' * 64}  /etc/hosts"])
def test_a_damaged_list_is_told(export, line):
    (export / CHECKSUMS).write_text(f"{line}\n")
    with pytest.raises(UserInputError, match="SHA256SUMS is damaged: .* is not a checksum"):
        check_export(export)


def test_a_file_is_read_once_by_whatever_names(export, monkeypatch):
    (line,) = [x for x in (export / CHECKSUMS).read_text().splitlines() if "variables/data" in x]
    names = ["./variables/data", "variables//data", "././variables/./data"]
    lines = [line.replace("variables/data", name) for name in names]
    with open(export / CHECKSUMS, "a") as file:
        file.write("\n".join(lines) + "\n")
    read = []
    monkeypatch.setattr(checksums, "checksum", lambda path: read.append(path) or checksum(path))
    assert check_export(export) == len(read) == 2


def test_a_list_of_a_megabyte_is_refused(export):
    (export / CHECKSUMS).write_text(f"{'0' * 64}  name\n" * 16_000)
    with pytest.raises(UserInputError, match=r"SHA256SUMS must have at most 1 MB"):
        check_export(export)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (0, "its end is missing"),
        (-1, "its end is missing"),
        (65, "its end is missing"),
        (None, "it does not name variables/data"),  # at the end of a line
    ],
)
def test_a_list_that_was_cut_is_told(export, kept, message, capsys):
    text = (export / CHECKSUMS).read_bytes()
    (export / CHECKSUMS).write_bytes(text[: text.index(b"\n") + 1 if kept is None else kept])
    with pytest.raises(UserInputError, match=f"SHA256SUMS is damaged: {message}. Copy the export"):
        check_export(export)
    assert cli.main(["check", str(export)]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model_card.json", "saved_model.pb", "model.bin", "model.tflite"])
def test_the_model_must_be_in_the_list(export, name):
    (export / name).touch()
    with pytest.raises(UserInputError, match=f"SHA256SUMS is damaged: it does not name {name}"):
        check_export(export)


def test_an_export_of_before_is_not_compared(export):
    os.unlink(export / CHECKSUMS)
    assert check_export(export) == 0


def test_a_version_without_a_list_is_told(export, tmp_path_factory, capsys):
    model = tmp_path_factory.mktemp("model")
    for number in ("1", "2"):
        version = shutil.copytree(export, model / number)
        (version / "saved_model.pb").touch()
        write_checksums(version)
    (version / CHECKSUMS).unlink()
    assert cli.main(["check", str(model)]) == 2
    shown = capsys.readouterr()
    assert shown.out == f"{model / '1'}: 3 files are intact\n"
    assert f"{version} has no SHA256SUMS: nothing was compared." in shown.err
    assert cli.main(["serve", str(model), "--print"]) == 0
    told = capsys.readouterr().err
    assert told == f"warning: {version} has no SHA256SUMS: nothing was compared.\n"


def test_the_engines_of_a_run_are_checked(export, tmp_path_factory, capsys):
    run = tmp_path_factory.mktemp("run")
    paths = [run / "engines" / name for name in ("litert-float32", "saved-model-float32/1")]
    for path in paths:
        shutil.copytree(export, path)
    left_over = shutil.copytree(export, run / "engines" / ".partial-directory-left")
    (left_over / "variables" / "data").unlink()
    assert cli.main(["check", str(run)]) == 0
    assert capsys.readouterr().out == "".join(f"{path}: 2 files are intact\n" for path in paths)
    for path in paths:
        (path / "variables" / "data").write_bytes(b"weighty")
    assert cli.main(["check", str(run)]) == 2
    told = capsys.readouterr().err
    assert [f"{path / 'variables' / 'data'} is damaged" in told for path in paths] == [True, True]


def test_a_damaged_version_is_not_served(export, tmp_path_factory, capsys):
    model = tmp_path_factory.mktemp("model")
    version = shutil.copytree(export, model / "3")
    (version / "saved_model.pb").write_bytes(b"graphs")
    write_checksums(version)
    assert cli.main(["serve", str(model), "--print"]) == 0
    (version / "saved_model.pb").write_bytes(b"Graphs")
    capsys.readouterr()
    assert cli.main(["serve", str(model), "--print"]) == 2
    assert "saved_model.pb is damaged" in capsys.readouterr().err
    assert cli.main(["check", str(model)]) == 2
