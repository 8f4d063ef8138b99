"""Files of bracketed trees, such as the Penn Treebank's."""

from collections.abc import Iterator

from keras_transformer.errors import UserInputError
from keras_transformer.parsing.cleaning import clean as clean_tree
from keras_transformer.parsing.tree import Tree, TreeReader
from keras_transformer.text.text_lines import text_lines
from keras_transformer.types import PathLike


def read_trees(path: PathLike, clean: bool = True) -> Iterator[Tree]:
    r"""Read the trees of a file one at a time.

    Args:
        path: a UTF-8 file; if its name ends in `.gz`, it is decompressed. A tree may have its own
            line, share a line or span several.
        clean: whether to remove what a parser does not predict, see `parsing.clean`. Trees that
            become empty, such as `(())`, are skipped.

    Yields:
        The trees.

    Raises:
        UserInputError: the file cannot be read or contains no tree, or its brackets do not match
            (the message has the line's number).

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "wsj.mrg"
        >>> _ = path.write_text("( (S (NP-SBJ (PRP it))\n     (VP (VBZ rains) (NP (-NONE- *)))))")
        >>> [str(tree) for tree in read_trees(path)]
        ['(S (NP (PRP it)) (VP (VBZ rains)))']
    """
    reader = TreeReader()
    found = False
    trees = reader.read(text_lines(path))
    while True:
        try:
            tree = next(trees, None)
        except UserInputError:
            raise
        except ValueError as error:
            raise UserInputError(f"{path}, line {reader.line}: {error}") from error
        if tree is None:
            break
        found = True
        kept = clean_tree(tree) if clean else tree
        if kept is not None:
            yield kept
    if not found:
        raise UserInputError(f"{path} holds no tree")
