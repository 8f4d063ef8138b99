"""Treebank files as parallel text, with words as the source and linearized trees as the target."""

import argparse
import hashlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator

from keras_transformer.data import ParallelText, find_text
from keras_transformer.parsing import (
    Tree,
    TreeTokenizer,
    bracket_tokens,
    linearize,
    read_trees,
    source_text,
)
from keras_transformer.text import SentencePieceTokenizer, sample_lines
from keras_transformer.training import TrainingRun
from keras_transformer.types import PathLike
from recipes.wsj_parsing.settings import ParsingSettings

# Maximum number of sentences for training the word vocabulary; larger treebanks are sampled.
VOCABULARY_SENTENCES = 2_000_000


class TreePairs(ParallelText):
    """Pairs of sentences and linearized trees, read from a file with bracketed trees.

    Part-of-speech tags are omitted, so the model sees only words.

    Args:
        path: file with trees, plain or `.gz`. Trees are cleaned as they are read.

    Example:
        >>> import tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "wsj.mrg"
        >>> _ = path.write_text("( (S (NP-SBJ (PRP it)) (VP (VBZ rains))))")
        >>> list(TreePairs(path))
        [('it rains', '(S (NP XX )NP (VP XX )VP )S')]
    """

    unit = "tree"

    def __init__(self, path: PathLike) -> None:
        super().__init__(pathlib.Path(path).name)
        self.path = path

    def trees(self) -> Iterator[Tree]:
        """Return an iterator over the cleaned trees."""
        return read_trees(self.path)

    def sentences(self) -> Iterator[str]:
        """Return the sentences in the form that `Parser` expects."""
        return (source_text(tree.words()) for tree in self.trees())

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for tree in self.trees():
            yield source_text(tree.words()), " ".join(linearize(tree))

    def fingerprint(self) -> str:
        """Return the SHA-256 hash of the pairs."""
        digest = hashlib.sha256(b"trees")
        for source, target in self:
            digest.update(f"{source}\n{target}\n".encode())
        return digest.hexdigest()


def add_treebank_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the treebanks to a parser."""
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="folder with train.mrg and dev.mrg, which contain bracketed trees, plain or .gz",
    )
    parser.add_argument(
        "--more-trees",
        type=pathlib.Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="additional trees to train on, such as another parser's output, for semi-supervised "
        "training",
    )


def treebanks(
    directory: pathlib.Path, more_trees: Iterable[pathlib.Path] = ()
) -> tuple[list[TreePairs], TreePairs]:
    """Return the treebanks in a folder, and additional treebanks to train on.

    Args:
        directory: folder that contains train.mrg and dev.mrg.
        more_trees: files with additional trees.

    Returns:
        `(train_texts, dev_text)`.

    Raises:
        UserInputError: a file is missing.
    """
    train_texts = [TreePairs(find_text(directory, "train.mrg"))]
    train_texts += [TreePairs(path) for path in more_trees]
    return train_texts, TreePairs(find_text(directory, "dev.mrg"))


def make_tokenizers(
    texts: Iterable[TreePairs], settings: ParsingSettings, run: TrainingRun | None = None
) -> tuple[SentencePieceTokenizer, TreeTokenizer]:
    """Train the tokenizers for words and trees, or load those of a resumed run.

    Args:
        texts: the training treebanks.
        settings: settings with the size of the word vocabulary and the sampling seed.
        run: the training run; its tokenizers are used if it is resumed.

    Returns:
        `(source_tokenizer, tokenizer)`: a word tokenizer that represents unknown characters as
        bytes, so no word is lost, and a tokenizer for the trees' brackets.
    """
    if run is not None and run.earlier is not None:
        return run.earlier.load_tokenizers(TreeTokenizer)
    sentences = itertools.chain.from_iterable(text.sentences() for text in texts)
    source_tokenizer = SentencePieceTokenizer.train(
        sample_lines(sentences, VOCABULARY_SENTENCES, settings.seed),
        vocabulary_size=settings.vocabulary_size,
        byte_fallback=True,
        normalization="identity",  # a word must stay one word even if it contains Unicode spaces
    )
    trees = itertools.chain.from_iterable(text.trees() for text in texts)
    return source_tokenizer, TreeTokenizer.of(bracket_tokens(trees))


def unknown_labels(trees: Iterable[Tree], tokenizer: TreeTokenizer) -> list[str]:
    """Return the sorted labels of trees that are not in a tokenizer's vocabulary."""
    return [
        token[1:]
        for token in bracket_tokens(trees)
        if token.startswith("(") and token not in tokenizer.tokens
    ]
