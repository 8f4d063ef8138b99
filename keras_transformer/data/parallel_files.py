"""Parallel text in files, of any number and size."""

import hashlib

import tqdm

from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import (
    find_text_files,
    parallel_lines,
    text_blocks,
    unequal_lines,
)
from keras_transformer.errors import UserInputError


class ParallelFiles(ParallelText):
    """Pairs of lines of text files, read one after another: the files may be larger than memory.

    The first source file goes with the first target file, and so on.

    Args:
        source_paths: a path, a pattern such as `"news.*.en.gz"`, or a list of these. The files of
            a pattern are sorted by name; those that end in `.gz` are decompressed.
        target_paths: the same of the target, which names as many files.
        name: what reports call the text. None: the name of the first source file.

    Raises:
        UserInputError: a path or pattern names no file, or the sides differ in their number of
            files. When they are read: a file is empty, damaged or no UTF-8, or two that belong
            together differ in their number of lines.
    """

    def __init__(self, source_paths, target_paths, name=None):
        self.source_paths = find_text_files(source_paths)
        self.target_paths = find_text_files(target_paths)
        super().__init__(name or _name(self.source_paths))
        if len(self.source_paths) != len(self.target_paths):
            raise UserInputError(
                "Parallel text needs as many source files as target files: "
                f"{_listing(self.source_paths)} against {_listing(self.target_paths)}"
            )
        self._num_pairs = None
        self._fingerprint = None

    def __iter__(self):
        for paths in zip(self.source_paths, self.target_paths, strict=True):
            yield from parallel_lines(*paths)

    def fingerprint(self):
        """SHA-256 of both sides' text, packed or not. Reads all files once and counts lines."""
        if self._fingerprint is None:
            with tqdm.tqdm(
                desc=f"Checking {self.name}", unit="B", unit_scale=True, disable=None, leave=False
            ) as progress:
                self._read_all(progress)
        return self._fingerprint

    @property
    def num_pairs(self):
        """Number of pairs, known once the fingerprint was asked for."""
        return self._num_pairs

    def _read_all(self, progress):
        source_digest, target_digest = hashlib.sha256(b"lines"), hashlib.sha256(b"lines")
        pairs = 0
        for source_path, target_path in zip(self.source_paths, self.target_paths, strict=True):
            source_lines = _digest_file(source_path, source_digest, progress)
            target_lines = _digest_file(target_path, target_digest, progress)
            if source_lines != target_lines:
                raise unequal_lines(source_path, source_lines, target_path, target_lines)
            pairs += source_lines
        self._num_pairs = pairs
        self._fingerprint = f"{source_digest.hexdigest()} {target_digest.hexdigest()}"


def _digest_file(path, digest, progress):
    """Add a file's text to a digest; returns its number of lines."""
    lines = 0
    for block in text_blocks(path):
        digest.update(block)
        lines += block.count(b"\n")
        progress.update(len(block))
    return lines


def _name(paths):
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def _listing(paths):
    return f"{len(paths)} ({', '.join(map(str, paths))})"
