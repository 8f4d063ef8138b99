"""Removing everything from treebank trees that a parser does not predict."""

import re
from collections.abc import Iterator

from keras_transformer.parsing.leaf import Leaf
from keras_transformer.parsing.tree import Tree

_TRACE = "-NONE-"
# The part before the first `-` or `=`, as in `NP-SBJ-1` and `NP=2`. Labels that begin with one,
# such as `-LRB-`, are kept whole.
_CATEGORY = re.compile(r"[^-=]+")
_UNNAMED_ROOT = "TOP"


def clean(tree: Tree) -> Tree | None:
    """Remove traces, function tags, empty phrases and brackets without a label from a tree.

    Traces are leaves with the tag `-NONE-`; phrases that become empty are removed too. Function
    tags and indices are cut off phrase labels (`NP-SBJ-1` and `NP=2` become `NP`; `ADVP|PRT`
    stays) but not off tags of words, such as `-LRB-`. The Penn Treebank's outermost bracket
    `( (S ...) )` is removed; if it holds several phrases, or only a word, its label becomes `TOP`,
    which EVALB ignores. A clean tree is returned unchanged.

    Args:
        tree: the tree.

    Returns:
        The clean tree; None if it would be empty.

    Example:
        >>> raw = "( (S (NP-SBJ-1 (PRP it)) (VP (VBZ is) (VP (VBN said) (NP (-NONE- *-1))))))"
        >>> print(clean(Tree.fromstring(raw)))
        (S (NP (PRP it)) (VP (VBZ is) (VP (VBN said))))
    """
    outermost: list[Tree | Leaf] = []
    # Phrases, their remaining children, and those to keep.
    stack: list[tuple[Tree, Iterator[Tree | Leaf], list[Tree | Leaf]]]
    stack = [(tree, iter(tree.children), [])]
    while stack:
        phrase, children, kept = stack[-1]
        child = next(children, None)
        if isinstance(child, Tree):
            stack.append((child, iter(child.children), []))
        elif isinstance(child, Leaf):
            if child.tag != _TRACE:
                kept.append(child)
        else:
            stack.pop()
            above = stack[-1][2] if stack else outermost
            if phrase.label and kept:
                above.append(Tree(_category(phrase.label), kept))
            else:
                above.extend(kept)
    if len(outermost) == 1 and isinstance(outermost[0], Tree):
        return outermost[0]
    return Tree(_UNNAMED_ROOT, outermost) if outermost else None


def _category(label: str) -> str:
    """A phrase's label without its functions and indices."""
    found = _CATEGORY.match(label)
    return found[0] if found else label
