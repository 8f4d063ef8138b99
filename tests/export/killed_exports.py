"""A process that exports without an end, to be killed: python -m tests.export.killed_exports.

Arguments: `small` and a directory, for directories of a few files each, and maybe the number of
the file operation at which it kills itself; or `saved-model`, a directory and a run, for real
exports of its translator. A line on stdout says when it begins.
"""

import hashlib
import os
import signal
import sys
from pathlib import Path

from keras_transformer.files import write_directory
from tests.forked_processes import at_operations

FILES = 20


def next_name(directory):
    return str(max((int(path.name) for path in directory.glob("[0-9]*")), default=0) + 1)


def write_files(directory):
    """Files in two folders, and one that has the checksum of each."""
    (directory / "variables").mkdir()
    checksums = []
    for number in range(FILES):
        content = hashlib.sha256(f"{directory} {number}".encode()).digest() * 1000
        folder = directory / "variables" if number % 2 else directory
        (folder / f"{number}.bin").write_bytes(content)
        checksums.append(hashlib.sha256(content).hexdigest())
    (directory / "checksums").write_text("\n".join(checksums), encoding="utf-8")


def is_whole(directory):
    """Whether a directory has every file that `write_files` wrote, as it was written."""
    checksums = (directory / "checksums").read_text("utf-8").split("\n")
    found = {
        int(path.stem): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*.bin")
    }
    return [found[number] for number in range(FILES)] == checksums


def kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def main(kind, directory, argument=None):
    if kind == "saved-model":
        from keras_transformer.formats.saved_model.writer import export_saved_model
        from keras_transformer.inference.translator import Translator

        translator = Translator.load(argument)

        def export():
            export_saved_model(translator, directory)
    else:

        def export():
            write_directory(directory, lambda: next_name(Path(directory)), write_files)

        if argument is not None:
            at_operations({int(argument): kill_itself})
    print("begins", flush=True)
    while True:
        export()
        print("exported", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
