"""What a command says of inputs and outputs other than text files."""

import gzip
import os

import pytest

from keras_transformer.text import text_lines
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text").write_text("a\nb\n")
    return tmp_path


@pytest.fixture
def complaint(command, folder):
    """Run a line with `D` for the folder, which must fail; gives what it says."""

    def run(line):
        said = refusal(command(*(word.replace("D/", f"{folder}/") for word in line.split(" "))))
        assert (folder / "text").read_text() == "a\nb\n"
        return said

    return run


INPUTS = [
    "translate run --output D/out --input",
    "score run --target D/text --source",
    "align run --source D/text --target",
    "evalb D/text",
]


@pytest.mark.parametrize("line", INPUTS)
def test_what_is_no_text_is_named(complaint, line):
    assert complaint(f"{line} /") == "error: Cannot read /: Is a directory\n"
    assert complaint(f"{line} D/none").endswith("none: No such file or directory\n")
    assert complaint(f"{line} /proc/self/mem") == (
        "error: Cannot read /proc/self/mem: Input/output error\n"
    )


def test_a_pipe_is_no_input_of_an_output_that_resumes(complaint, folder):
    os.mkfifo(folder / "pipe")
    assert "it is read more than once" in complaint(f"{INPUTS[0]} D/pipe")


@pytest.mark.parametrize("line", INPUTS[1:])
def test_an_endless_device_is_no_text(complaint, line):
    limit = "longer than 16,777,216 bytes, the limit for a line of text.\n"
    assert complaint(f"{line} /dev/zero") == f"error: /dev/zero, line 1: {limit}"


@pytest.mark.parametrize("line", INPUTS)
def test_a_line_that_never_ends_in_a_gzip_file_is_no_text(complaint, folder, monkeypatch, line):
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 1 << 20)
    with gzip.open(folder / "bomb.gz", "wb") as file:
        file.write(b"a\n" + bytes(1 << 23))
    assert "bomb.gz, line 2: longer than 1,048,576 bytes" in complaint(f"{line} D/bomb.gz")


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", "`--output` must be a file. Received: ''"),
        (".", "`--output` must be a file. Received: '.'"),
        ("D/", "`--output` must be a file. Received: "),
        ("D/new/", "`--output` must be a file. Received: "),
        ("D/new/out", "`--output` must be in an existing folder. Received: "),
        ("D/text", "/text exists. It is not overwritten."),
        ("D/link", "/text exists. It is not overwritten."),
        ("D/loop", "/loop: Too many levels of symbolic links."),
        ("/dev/full", "error: Cannot write /dev/full: No space left on device.\n"),
    ],
)
def test_an_output_that_cannot_be_is_named(complaint, folder, output, reason):
    (folder / "link").symlink_to("text")
    (folder / "loop").symlink_to("loop")
    assert reason in complaint(f"translate run --input D/text --output {output}")
    assert FakeTranslator.calls == [] or output == "/dev/full"
    assert (folder / "link").is_symlink()


def test_a_link_to_a_new_file_stays_a_link(command, folder):
    (folder / "link").symlink_to("elsewhere")
    flags = [f"--input={folder / 'text'}", f"--output={folder / 'link'}"]
    assert command("translate", "run", *flags) == (0, b"", b"")
    assert (folder / "link").readlink().name == "elsewhere"
    assert (folder / "elsewhere").read_text() == "A\nB\n"


def test_a_line_that_is_too_long_leaves_a_whole_file_for_another_try(command, folder):
    (folder / "text").write_text("a\nLONG\n")
    flags = ["run", f"--input={folder / 'text'}", f"--output={folder / 'out'}"]
    code, _, err = command("translate", *flags)
    told = f"error: Line 2 of {folder / 'text'} is too long (`--long-lines split` translates its "
    assert (code, err) == (2, f"{told}sentences one by one, `cut` drops its end)\n".encode())
    code, _, err = command("translate", *flags, "--long-lines=cut")
    assert (code, err) == (0, f"Line 2 of {folder / 'text'} was too long\n".encode())
    assert (folder / "out").read_text() == "A\nLONG\n"


PLANTS = {
    "link": lambda path, precious: path.symlink_to(precious),
    "second name": lambda path, precious: path.hardlink_to(precious),
    "pipe": lambda path, precious: os.mkfifo(path),
    "directory": lambda path, precious: path.mkdir(),
    "dangling link": lambda path, precious: path.symlink_to(path.with_name("new")),
}


@pytest.mark.parametrize("name", [".partial-out", ".partial-out.json"])
@pytest.mark.parametrize("plant", PLANTS)
def test_what_others_plant_under_a_partial_name_is_refused(complaint, folder, name, plant):
    precious = folder / "precious"
    precious.write_text("precious")
    PLANTS[plant](folder / name, precious)
    said = complaint("translate run --input D/text --output D/out")
    assert f"{name} must be your own regular file" in said
    assert precious.read_text() == "precious"
    assert not (folder / "new").exists()


@pytest.mark.parametrize("plant", ["link", "pipe", "directory", "dangling link"])
def test_what_others_plant_as_the_lock_is_never_written(command, folder, plant):
    precious = folder / "precious"
    precious.write_text("precious")
    lock = folder / ".partial-out.lock"
    PLANTS[plant](lock, precious)
    command("translate", "run", f"--input={folder / 'text'}", f"--output={folder / 'out'}")
    assert precious.read_text() == "precious"
    assert not (folder / "new").exists()


def test_a_compressed_output_has_no_name_that_others_can_guess(command, folder, monkeypatch):
    precious = folder / "precious"
    precious.write_text("precious")
    (folder / ".partial-out.gz.compressed").symlink_to(precious)
    flags = [f"--input={folder / 'text'}", f"--output={folder / 'out.gz'}"]
    assert command("translate", "run", *flags) == (0, b"", b"")
    assert gzip.decompress((folder / "out.gz").read_bytes()) == b"A\nB\n"
    assert precious.read_text() == "precious"
