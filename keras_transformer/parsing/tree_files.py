"""Files of bracketed trees, such as the Penn Treebank's: one tree a line or pretty-printed."""

from keras_transformer.errors import UserInputError
from keras_transformer.parsing.cleaning import clean as clean_tree
from keras_transformer.parsing.tree import TreeReader
from keras_transformer.text.text_lines import text_lines


def read_trees(path, clean=True):
    r"""Read the trees of a file one after another, never all at once.

    Args:
        path: a UTF-8 file; one whose name ends in `.gz` is decompressed. Lines do not matter: a
            tree may have a line, share one or go over many.
        clean: whether to take out what a parser does not predict, see `clean`. Trees of which
            nothing is left, such as `(())`, are passed over. If `False`, trees come as they are
            written.

    Yields:
        `Tree`s.

    Raises:
        UserInputError: the file cannot be read or holds no tree, or its brackets do not match
            (with the line's number).

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
        if clean:
            tree = clean_tree(tree)
        if tree is not None:
            yield tree
    if not found:
        raise UserInputError(f"{path} holds no tree")
