"""Files that appear whole or not at all: written beside their name and renamed."""

import json
import os
import shutil
from pathlib import Path


def write_text(path, text):
    """Write a text file beside `path` and rename it, so that no reader ever sees half a file."""
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)


def write_json(path, value):
    """Write a value as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def copy_file(source, destination):
    """Copy a file beside `destination` and rename it."""
    destination = Path(destination)
    partial = destination.with_name(f".partial-{destination.name}")
    shutil.copyfile(source, partial)
    os.replace(partial, destination)
