"""Parallel text: find files, read sentence pairs, and count overlaps."""

import abc
import dataclasses
import glob
import hashlib
import itertools
import os
import pathlib
import random
from collections.abc import Iterable, Iterator

import tqdm

from keras_transformer.argument_checks import (
    check_equal_numbers,
    check_non_negative_int,
    check_rate,
    checked_strings,
)
from keras_transformer.errors import UserInputError
from keras_transformer.files import is_quiet
from keras_transformer.input_files import is_read_once
from keras_transformer.text.text_lines import (
    BYTE_ORDER_MARK,
    check_line_length,
    open_bytes,
    text_lines,
)
from keras_transformer.types import PathLike

_BLOCK_BYTES = 1 << 20


def find_text(directory: PathLike, stem: str) -> pathlib.Path:
    """Find `stem` or `stem.gz` in a directory.

    Args:
        directory: directory to search.
        stem: file name without `.gz`, such as `"train.en"`.

    Returns:
        The path of the file; the uncompressed file if both exist.

    Raises:
        UserInputError: neither file exists.
    """
    directory = pathlib.Path(directory)
    for name in (stem, f"{stem}.gz"):
        if (directory / name).is_file():
            return directory / name
    raise UserInputError(f"Neither {stem} nor {stem}.gz is in {directory}")


def find_text_files(paths: PathLike | Iterable[PathLike]) -> list[pathlib.Path]:
    """Expand paths and patterns to files.

    Args:
        paths: a path, a glob pattern such as `"news/*.en.gz"` (`**` matches nested folders), or a
            list of paths and patterns. The path of an existing file is never treated as a pattern.

    Returns:
        The files in the order of the list; matches of a pattern are sorted by name.

    Raises:
        UserInputError: a path or a pattern does not match any file, or the list is empty.
    """
    paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not paths:
        raise UserInputError("No text file was given")
    return list(itertools.chain.from_iterable(map(_expand, paths)))


def read_text(path: PathLike) -> list[str]:
    """Read all lines of a text file into memory.

    Args:
        path: the file; decompressed if its name ends in `.gz`.

    Returns:
        The lines without line endings.

    Raises:
        UserInputError: see `text_lines`.
    """
    return list(text_lines(path))


def text_blocks(path: PathLike) -> Iterator[bytes]:
    r"""Yield the bytes of a text file in blocks, without any byte order mark.

    A missing final `\n` is added. For errors, see `text_lines`.
    """
    block, lines, unfinished = b"", 0, 0
    with open_bytes(path) as file:
        while following := file.read(_BLOCK_BYTES):
            yield following if block else following.removeprefix(BYTE_ORDER_MARK)
            block = following
            lines += block.count(b"\n")
            end = block.rfind(b"\n")
            unfinished = unfinished + len(block) if end < 0 else len(block) - end - 1
            check_line_length(f"{path}, line {lines + 1}", unfinished)
    if not block:
        raise UserInputError(f"{path} is empty")
    if not block.endswith(b"\n"):
        yield b"\n"


def parallel_lines(source_path: PathLike, target_path: PathLike) -> Iterator[tuple[str, str]]:
    """Yield pairs of lines from two text files with the same number of lines."""
    sources, targets = text_lines(source_path), text_lines(target_path)
    for number, (source, target) in enumerate(itertools.zip_longest(sources, targets)):
        if source is None or target is None:
            rest = 1 + sum(1 for _ in (sources if target is None else targets))
            source_lines, target_lines = (
                number + (0 if line is None else rest) for line in (source, target)
            )
            raise unequal_lines(source_path, source_lines, target_path, target_lines)
        yield source, target


def read_parallel_text(source_path: PathLike, target_path: PathLike) -> tuple[list[str], list[str]]:
    """Read two text files whose lines are translations of each other.

    Args:
        source_path: file with source sentences, plain text or `.gz`.
        target_path: file with target sentences, plain text or `.gz`.

    Returns:
        `(sources, targets)`, two lists of the same length.

    Raises:
        UserInputError: the files have different numbers of lines; see also `text_lines`.
    """
    sources, targets = zip(*parallel_lines(source_path, target_path), strict=True)
    return list(sources), list(targets)


def count_lines(path: PathLike) -> int:
    """Return the number of lines in a text file; for errors, see `text_blocks`."""
    return sum(block.count(b"\n") for block in text_blocks(path))


def unequal_lines(
    source_path: PathLike, source_lines: int, target_path: PathLike, target_lines: int
) -> UserInputError:
    """Return the error for two files with different numbers of lines."""
    return UserInputError(
        f"Parallel files must have the same number of lines: {source_path} has {source_lines}, "
        f"{target_path} has {target_lines}"
    )


def _expand(path: PathLike) -> list[pathlib.Path]:
    """Return the files that match one path or pattern."""
    path = pathlib.Path(path)
    if path.is_file():
        return [path]
    if glob.has_magic(str(path)):
        found = map(pathlib.Path, sorted(glob.glob(str(path), recursive=True)))
        files = [name for name in found if name.is_file()]
        if not files:
            raise UserInputError(f"No file matches {path}")
        return files
    if is_read_once(path):
        raise UserInputError(
            f"{path} must be a regular file, because a text is read more than once"
        )
    with open_bytes(path):  # raises an error if the file is not readable
        return [path]


class ParallelText(abc.ABC):
    """Base class for collections of sentence pairs, which may be larger than memory.

    Subclasses implement `__iter__` to yield `(source, target)` strings: the same pairs in the same
    order on every pass.

    Args:
        name: name of the text in reports and error messages.
    """

    unit = "line"  # what error messages call a pair

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
        """Number of pairs; None if unknown until the text is read."""
        return None

    def line_numbers(self) -> Iterator[int]:
        """Yield the number of each pair for error messages; by default 1, 2, 3, and so on."""
        return itertools.count(1)


class ChangedText(ParallelText):
    """Base class of parallel text that changes a share of the pairs of another text.

    The changes depend only on the text and the seed and are the same on every pass.

    Args:
        text: the parallel text.
        share: fraction of pairs to change, in [0, 1).
        seed: integer >= 0.
    """

    changes: str  # name and version of the changes, for the fingerprint

    def __init__(self, text: ParallelText, share: float, seed: int) -> None:
        check_rate("share", share)
        check_non_negative_int("seed", seed)
        super().__init__(text.name)
        self.text = text
        self.unit = text.unit
        self.share = share
        self.seed = seed

    def __iter__(self) -> Iterator[tuple[str, str]]:
        generator = random.Random(self.seed)
        for pair in self.text:
            yield self.changed(*pair, generator) if generator.random() < self.share else pair

    @abc.abstractmethod
    def changed(self, source: str, target: str, generator: random.Random) -> tuple[str, str]:
        """Return the changed pair."""

    def fingerprint(self) -> str:
        """Return a fingerprint of the text and the changes."""
        changes = f"{self.changes}, share {float(self.share)}, seed {self.seed}"
        return f"{self.text.fingerprint()} with {changes}"

    @property
    def num_pairs(self) -> int | None:
        """Number of pairs in the underlying text."""
        return self.text.num_pairs

    def line_numbers(self) -> Iterator[int]:
        """Yield the line numbers of the underlying text."""
        return self.text.line_numbers()


class SentencePairs(ParallelText):
    """Sentence pairs from two lists in memory.

    Args:
        sources: source sentences.
        targets: target sentences, one for each source.
        name: name of the text in reports.

    Raises:
        UserInputError: the lists differ in length.
        ValueError: `sources` or `targets` is a single string or contains non-strings.

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
        """Return the SHA-256 hash of the sentences and their lengths."""
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
    """Sentence pairs from parallel text files, which may be larger than memory.

    The first source file is paired with the first target file, and so on.

    Args:
        source_paths: a path, a glob pattern such as `"news.*.en.gz"`, or a list of paths and
            patterns. Matches of a pattern are sorted by name; `.gz` files are decompressed.
        target_paths: the target files in the same format; must match the same number of files.
        name: name of the text in reports; defaults to the name of the first source file.

    Raises:
        UserInputError: a path or pattern matches no file, or the numbers of files differ. While
            reading: a file is empty, damaged or not UTF-8, or two paired files have different
            numbers of lines.
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
        self._read_state: list[tuple[int, int]] | None = None  # file state at the last read

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for paths in zip(self.source_paths, self.target_paths, strict=True):
            yield from parallel_lines(*paths)

    def fingerprint(self) -> str:
        """Return the SHA-256 hash of the decompressed text of both sides.

        The first call reads all files. Later calls reread them only if a file has changed.
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
        """Number of pairs; None before the first call to `fingerprint`."""
        return self._num_pairs

    def _state(self) -> list[tuple[int, int]]:
        """Return the size and modification time of each file."""
        paths = [*self.source_paths, *self.target_paths]
        try:
            return [(path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        except OSError as error:
            raise UserInputError(f"Cannot read {error.filename}: {error.strerror}") from error

    def _read_all(self, progress: tqdm.tqdm) -> tuple[int, str]:
        """Read all files; return the number of pairs and the fingerprint."""
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
    """Add the text of a file to a digest and return the number of lines."""
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


_Pairs = Iterable[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Overlap:
    """Overlap between a test set and the training text.

    Args:
        sources: number of test sentences whose source occurs in the training text.
        pairs: number of test sentences whose source occurs there with the same target.
        total: total number of test sentences.
    """

    sources: int
    pairs: int
    total: int

    def report(self, name: str) -> str:
        """Return the counts as a sentence.

        Args:
            name: name of the test set.

        Example:
            >>> Overlap(sources=12, pairs=3, total=1000).report("test")
            'test: 12 of 1,000 source sentences occur in the training text, 3 with their target'
        """
        return (
            f"{name}: {self.sources:,} of {self.total:,} source sentences occur in the training "
            f"text, {self.pairs:,} with their target"
        )


def count_overlap(training_text: _Pairs, test_text: _Pairs) -> Overlap:
    """Count the test sentences that occur in the training text.

    The training text is streamed once; only the test set is kept in memory. The comparison ignores
    differences in white space. Repeated test sentences are counted each time; empty sentences never
    match.

    Args:
        training_text: a `ParallelText`, or any iterable of `(source, target)` pairs.
        test_text: the test set in the same format; must fit into memory.

    Returns:
        The counts.

    Example:
        >>> from keras_transformer.data import SentencePairs
        >>> training = SentencePairs(["a house", "a tree"], ["ein Haus", "ein Baum"])
        >>> count_overlap(training, SentencePairs(["a tree", "a cat"], ["der Baum", "eine Katze"]))
        Overlap(sources=1, pairs=0, total=2)
    """
    return count_overlaps(training_text, [test_text])[0]


def count_overlaps(training_text: _Pairs, test_texts: Iterable[_Pairs]) -> list[Overlap]:
    """Like `count_overlap`, for several test sets in one pass over the training text.

    Args:
        training_text: see `count_overlap`.
        test_texts: the test sets.

    Returns:
        The counts for each test set.
    """
    tests = [[(_joined(source), _joined(target)) for source, target in test] for test in test_texts]
    pairs = {pair for test in tests for pair in test}
    sources = {source for source, _ in pairs if source}
    seen_sources: set[str] = set()
    seen_pairs: set[tuple[str, str]] = set()
    for source, target in training_text:
        source = _joined(source)
        if source in sources:
            seen_sources.add(source)
            pair = (source, _joined(target))
            if pair in pairs:
                seen_pairs.add(pair)
    return [
        Overlap(
            sources=sum(source in seen_sources for source, _ in test),
            pairs=sum(pair in seen_pairs for pair in test),
            total=len(test),
        )
        for test in tests
    ]


def _joined(sentence: str) -> str:
    return " ".join(sentence.split())
