"""Parallel text from any source, for `prepare_corpus` and `count_overlap`."""

import abc
import hashlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator

import tqdm

from keras_transformer.data.text_files import (
    find_text_files,
    parallel_lines,
    text_blocks,
    unequal_lines,
)
from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import is_quiet
from keras_transformer.text.sentence_batches import check_equal_numbers, checked_strings
from keras_transformer.types import PathLike


class ParallelText(abc.ABC):
    """Base class for sources of sentence pairs, which may be larger than memory.

    A subclass yields `(source, target)` strings from `__iter__`: the same pairs in the same order
    each time.

    Args:
        name: name of the text in reports and errors.
    """

    unit = "line"  # name of a pair in errors

    def __init__(self, name: str) -> None:
        self.name = name

    @abc.abstractmethod
    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield `(source, target)` pairs."""

    @abc.abstractmethod
    def fingerprint(self) -> str:
        """Return a string that identifies the pairs and their order."""

    @property
    def num_pairs(self) -> int | None:
        """Number of pairs; None if it is not known without reading them."""
        return None

    def line_numbers(self) -> Iterator[int]:
        """Yield the number that names each pair in errors; by default 1, 2, 3, and so on."""
        return itertools.count(1)


class SentencePairs(ParallelText):
    """Sentence pairs from two lists in memory.

    Args:
        sources: source sentences.
        targets: target sentences, one for each source.
        name: name of the text in reports.

    Raises:
        UserInputError: the lists differ in length.
        ValueError: `sources` or `targets` is a single string, or holds anything but strings.

    Example:
        >>> list(SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"]))
        [('a house', 'ein Haus'), ('a tree', 'ein Baum')]
    """

    def __init__(self, sources: Iterable[str], targets: Iterable[str], name: str = "pairs") -> None:
        super().__init__(name)
        sources, targets = checked_strings("sources", sources), checked_strings("targets", targets)
        check_equal_numbers("sources", sources, "targets", targets)
        self.sources = sources
        self.targets = targets

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.sources, self.targets, strict=True)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the sentences and their lengths."""
        digest = hashlib.sha256(b"sentences")
        for sentences in (self.sources, self.targets):
            digest.update(f" {len(sentences)} ".encode())
            for sentence in sentences:
                line = sentence.encode("utf-8")
                digest.update(b"%d " % len(line))
                digest.update(line)
        return digest.hexdigest()

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.sources)


class ParallelFiles(ParallelText):
    """Pairs of lines of text files, which may be larger than memory.

    The first source file goes with the first target file, and so on.

    Args:
        source_paths: a path, a pattern such as `"news.*.en.gz"`, or a list of these. The files of
            a pattern are sorted by name; files that end in `.gz` are decompressed.
        target_paths: the same for the target, with as many files.
        name: name of the text in reports; defaults to the name of the first source file.

    Raises:
        UserInputError: a path or pattern matches no file, or the numbers of files differ. While
            reading: a file is empty, damaged or not UTF-8, or the two files of a pair have
            different numbers of lines.
    """

    def __init__(
        self,
        source_paths: PathLike | Iterable[PathLike],
        target_paths: PathLike | Iterable[PathLike],
        name: str | None = None,
    ) -> None:
        self.source_paths = find_text_files(source_paths)
        self.target_paths = find_text_files(target_paths)
        super().__init__(name or _name(self.source_paths))
        if len(self.source_paths) != len(self.target_paths):
            raise UserInputError(
                "Parallel text needs as many source files as target files: "
                f"{_listing(self.source_paths)} against {_listing(self.target_paths)}"
            )
        self._num_pairs: int | None = None
        self._fingerprint: str | None = None
        self._read_state: list[tuple[int, int]] | None = None  # of the files, when last read

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for paths in zip(self.source_paths, self.target_paths, strict=True):
            yield from parallel_lines(*paths)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the decompressed text of both sides.

        The first call reads all files, as does a call after a file has changed.
        """
        state = self._state()
        if self._fingerprint is None or state != self._read_state:
            with tqdm.tqdm(
                desc=f"Checking {self.name}",
                unit="B",
                unit_scale=True,
                disable=is_quiet() or None,
                leave=False,
            ) as progress:
                self._num_pairs, self._fingerprint = self._read_all(progress)
            self._read_state = state
        return self._fingerprint

    @property
    def num_pairs(self) -> int | None:
        """Number of pairs; None before the first call of `fingerprint`."""
        return self._num_pairs

    def _state(self) -> list[tuple[int, int]]:
        """Size and modification time of each file."""
        paths = [*self.source_paths, *self.target_paths]
        try:
            return [(path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        except OSError as error:
            raise UserInputError(f"Cannot read {error.filename}: {error.strerror}") from error

    def _read_all(self, progress: tqdm.tqdm) -> tuple[int, str]:
        """The number of pairs, and the fingerprint."""
        source_digest, target_digest = hashlib.sha256(b"lines"), hashlib.sha256(b"lines")
        pairs = 0
        for source_path, target_path in zip(self.source_paths, self.target_paths, strict=True):
            source_lines = _digest_file(source_path, source_digest, progress)
            target_lines = _digest_file(target_path, target_digest, progress)
            if source_lines != target_lines:
                raise unequal_lines(source_path, source_lines, target_path, target_lines)
            pairs += source_lines
        return pairs, f"{source_digest.hexdigest()} {target_digest.hexdigest()}"


def _digest_file(path: pathlib.Path, digest: "hashlib._Hash", progress: tqdm.tqdm) -> int:
    """Add a file's text to a digest; returns the number of lines in the file."""
    lines = 0
    for block in text_blocks(path):
        digest.update(block)
        lines += block.count(b"\n")
        progress.update(len(block))
    return lines


def _name(paths: list[pathlib.Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def _listing(paths: list[pathlib.Path]) -> str:
    return f"{len(paths)} ({', '.join(map(str, paths))})"
