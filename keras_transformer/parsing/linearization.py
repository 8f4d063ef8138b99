"""Trees as sequences of tokens and back (Vinyals et al., 2015): `(S (NP XX XX )NP ... )S`."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import refuse
from keras_transformer.parsing.leaf import Leaf, cut, is_symbol, shown
from keras_transformer.parsing.tree import CLOSE, Tree, walk

LEAF_TOKEN = "XX"
_T = TypeVar("_T")


def linearize(tree: Tree) -> list[str]:
    """Write a tree as a sequence of tokens, depth first.

    A phrase becomes an opening and a closing bracket with its label; a word with its tag becomes
    `XX`. `rebuild` restores the words.

    Args:
        tree: the tree. Each phrase must have a label and contain a word, see `clean`.

    Returns:
        The tokens.

    Raises:
        ValueError: a phrase lacks a label or a word.

    Example:
        >>> linearize(Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"))
        ['(S', '(NP', 'XX', 'XX', ')NP', '(VP', 'XX', ')VP', ')S']

    Reference:
        Vinyals et al., "Grammar as a Foreign Language", 2015, https://arxiv.org/abs/1412.7449.
    """
    tokens: list[str] = []
    labels: list[str] = []
    for event in walk(tree):
        if event is CLOSE:
            tokens.append(f"){labels.pop()}")
        elif isinstance(event, Leaf):
            tokens.append(LEAF_TOKEN)
        elif not event.label or not event.children:
            what = "label" if event.children else "word"
            raise ValueError(f"`tree` has a phrase without a {what}: clean it first")
        else:
            tokens.append(f"({event.label}")
            labels.append(event.label)
    return tokens


def rebuild(tokens: Iterable[str], words: Iterable[str], tags: Iterable[str] | None = None) -> Tree:
    """Make the tree from a well-formed sequence of tokens.

    Args:
        tokens: tokens as `linearize` returns them.
        words: the words, one for each `XX`.
        tags: part-of-speech tags, one for each word; defaults to `XX`.

    Returns:
        The tree: `rebuild(linearize(tree), tree.words(), tree.tags()) == tree`.

    Raises:
        ValueError: the sequence is not one tree over exactly these words (`repair` makes a tree
            from any sequence), or the numbers of words and tags differ.

    Example:
        >>> print(rebuild("(S (NP XX )NP (VP XX )VP )S".split(), ["it", "rains"], ["PRP", "VBZ"]))
        (S (NP (PRP it)) (VP (VBZ rains)))
    """
    return build(token_list(tokens), make_leaves(words, tags))


def bracket_tokens(trees: Iterable[Tree]) -> list[str]:
    """Collect the tokens of trees: `XX` and both brackets of each label.

    Args:
        trees: the trees.

    Returns:
        The sorted tokens.

    Example:
        >>> bracket_tokens([Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")])
        ['(NP', '(S', '(VP', ')NP', ')S', ')VP', 'XX']
    """
    tokens = {LEAF_TOKEN}
    for tree in trees:
        tokens.update(linearize(tree))
    return sorted(tokens)


def read_token(token: object) -> tuple[str, str]:
    """Parse a token: `("(", label)`, `(")", label)`, `("XX", "")`, or `("", "")` if it is none."""
    if not isinstance(token, str):
        return "", ""
    if token == LEAF_TOKEN:
        return LEAF_TOKEN, ""
    return (token[0], token[1:]) if token[:1] in ("(", ")") and is_symbol(token[1:]) else ("", "")


def build(tokens: Sequence[str], leaves: Sequence[Leaf]) -> Tree:
    """Make the tree from tokens and leaves; raises the same errors as `rebuild`."""
    used = sum(token == LEAF_TOKEN for token in tokens)
    if used != len(leaves):
        raise ValueError(f"`tokens` must have an XX for each word: {used} for {len(leaves)} words")
    remaining = iter(leaves)
    root: list[Tree] = []
    stack: list[tuple[str, list[Tree | Leaf]]] = []  # labels and children of open phrases
    for number, token in enumerate(tokens, start=1):
        side, label = read_token(token)
        if not stack and (root or side != "("):
            what = "stands after the end of the tree" if root else "stands in no bracket"
            raise _malformed(number, token, what)
        if side == "(":
            stack.append((label, []))
        elif side == LEAF_TOKEN:
            stack[-1][1].append(next(remaining))
        elif side == ")":
            opened, children = stack.pop()
            if label != opened or not children:
                what = f"({cut(opened)}" if label != opened else "a phrase without a word"
                raise _malformed(number, token, f"closes {what}")
            phrase = Tree(label, children)
            if stack:
                stack[-1][1].append(phrase)
            else:
                root.append(phrase)
        else:
            raise _malformed(number, token, "is neither a bracket with a label nor XX")
    if stack or not root:
        missing = " ".join(f"){label}" for label, _ in reversed(stack)) or "a tree"
        raise ValueError(f"`tokens` must be one whole tree: {cut(missing)} missing at the end")
    return root[0]


def token_list(tokens: Iterable[_T]) -> list[_T]:
    """Return tokens as a list; a single string is refused, although it is a sequence."""
    if isinstance(tokens, str):
        refuse("tokens", "be a sequence of tokens", tokens)
    return list(tokens)


def make_leaves(words: Iterable[str], tags: Iterable[str] | None = None) -> list[Leaf]:
    """Make the leaves of a tree, at least one; each word needs a tag if `tags` are given."""
    check_no_string("words", words)
    check_no_string("tags", tags)
    words = list(words)
    tags = [LEAF_TOKEN] * len(words) if tags is None else list(tags)
    if not words:
        refuse("words", "contain at least one word", words)
    if len(tags) != len(words):
        refuse("tags", "be one for each word", tags, words=words)
    return [Leaf(tag, word) for tag, word in zip(tags, words, strict=True)]


def _malformed(number: int, token: str, what: str) -> ValueError:
    return ValueError(f"`tokens` must be one tree: token {number}, {shown(token)}, {what}")
