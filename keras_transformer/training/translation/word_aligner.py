"""Word alignments of the training text, from a file or computed by eflomal."""

import functools
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.data import PackedLinks, ParallelCorpus, ParallelText, WordLinks, read_links
from keras_transformer.data.parallel_corpus import SIDES
from keras_transformer.errors import UserInputError
from keras_transformer.files import file_lock, note, scratch_directory, write_text
from keras_transformer.installation import pip_install
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.pharaoh import Link, parse_pharaoh, pharaoh, symmetrize
from keras_transformer.text.text_lines import text_lines
from keras_transformer.text.words import TokenWords
from keras_transformer.types import PathLike

ALIGNER = "eflomal-align"
_VERSION = 1  # increment this when the same corpora get other alignments


def find_aligner() -> str:
    """Return the path of eflomal's program.

    Raises:
        UserInputError: eflomal is not installed.
    """
    own = Path(sys.executable).with_name(ALIGNER)
    found = shutil.which(ALIGNER) or (str(own) if own.is_file() else None)
    if found is None:
        raise UserInputError(
            "Guided alignment needs eflomal, or alignments from a file (`--alignments`): "
            f"{pip_install('alignment')}"
        )
    return found


def links_from_files(
    paths: Iterable[PathLike],
    text: ParallelText,
    corpora: Sequence[ParallelCorpus],
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
) -> WordLinks:
    """Read the word alignments of the first training text; other texts have none.

    Args:
        paths: files in Pharaoh format, with one line for each pair of the text.
        text: the first training text, of which pairs may be held out.
        corpora: the prepared corpora of all training texts.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.

    Raises:
        UserInputError: a file is not in Pharaoh format or has another number of lines.
    """
    links, corpus = read_links(paths), corpora[0]
    lines, pairs = len(links.offsets) - 1, text.num_pairs
    last = int(corpus.line_numbers[-1])
    if lines < last or (pairs is not None and lines != pairs):
        raise UserInputError(
            "The alignments must have a line for each training pair. "
            f"Received: {lines:,} lines, {pairs or last:,} pairs in {text.name}"
        )
    own = links.chosen(np.asarray(corpus.line_numbers) - 1)
    others = [None] * (len(corpora) - 1)
    return WordLinks([own, *others], source_tokenizer, tokenizer, by_spaces=True)


def compute_links(
    corpora: Sequence[ParallelCorpus],
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    cache_directory: Path,
) -> WordLinks:
    """Align the words of corpora with eflomal, unless their alignments are already cached.

    Args:
        corpora: the prepared corpora.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        cache_directory: folder for the alignments, such as the folder of the corpora.

    Raises:
        UserInputError: eflomal is not installed, or fails.

    Reference: Östling and Tiedemann, "Efficient Word Alignment with Markov Chain Monte Carlo",
        2016.
    """
    content = [_VERSION, *(corpus.fingerprint for corpus in corpora)]
    name = hashlib.sha256(repr(content).encode()).hexdigest()[:32]
    path = cache_directory / f"alignments-{name}.txt"
    say = functools.partial(note, "Waiting for another process that is aligning the text")
    with file_lock(path.with_name(f"{path.name}.partial-lock"), say):
        if not path.is_file():
            words = [TokenWords(each, by_spaces=False) for each in (source_tokenizer, tokenizer)]
            lines = map(pharaoh, _align(corpora, words, cache_directory))
            write_text(path, "".join(f"{line}\n" for line in lines))
    links = PackedLinks.of(map(parse_pharaoh, text_lines(path)))
    ends = np.cumsum([0, *map(len, corpora)])
    parts = [links.chosen(np.arange(*ends[i : i + 2])) for i in range(len(corpora))]
    return WordLinks(parts, source_tokenizer, tokenizer, by_spaces=False)


def _align(
    corpora: Sequence[ParallelCorpus], words: Sequence[TokenWords], parent: Path
) -> Iterator[list[Link]]:
    """Yield the symmetrized links of each pair. `words` are those of the source and the target."""
    aligner, number = find_aligner(), sum(map(len, corpora))
    note(f"Aligning the words of {number:,} pairs with eflomal")
    with scratch_directory(parent) as folder:
        files = {flag: folder / name for flag, name in _FILES.items()}
        for flag, side, own in zip(("-s", "-t"), SIDES, words, strict=True):
            with files[flag].open("w", encoding="utf-8") as file:
                for corpus in corpora:
                    for i in range(len(corpus)):
                        line = " ".join(own.words(getattr(corpus, side)(i)))
                        file.write(f"{line.casefold()}\n")
        command = [aligner, *(str(part) for item in files.items() for part in item)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise UserInputError(f"{ALIGNER} has failed (exit code {result.returncode}): {last}")
        directions = (text_lines(files[flag]) for flag in ("-f", "-r"))
        for forward, backward in zip(*directions, strict=True):
            yield symmetrize(parse_pharaoh(forward), parse_pharaoh(backward))


_FILES = {"-s": "source", "-t": "target", "-f": "forward", "-r": "backward"}
