"""Trees as sequences of tokens and back (Vinyals et al., 2015): `(S (NP XX XX )NP ... )S`."""

from keras_transformer.parsing.leaf import Leaf, cut, is_symbol, shown
from keras_transformer.parsing.tree import CLOSE, Tree, walk

LEAF_TOKEN = "XX"


def linearize(tree):
    """Write a tree as a sequence of tokens, depth first.

    A phrase is an opening and a closing bracket that both carry its label; a word with its tag is
    `XX`. The words are not in the sequence: `rebuild` puts them back.

    Args:
        tree: a `Tree`. Each phrase must have a label and hold a word, see `clean`.

    Returns:
        A list of strings.

    Raises:
        ValueError: a phrase has no label or holds no word.

    Example:
        >>> linearize(Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"))
        ['(S', '(NP', 'XX', 'XX', ')NP', '(VP', 'XX', ')VP', ')S']

    Reference:
        Vinyals et al., "Grammar as a Foreign Language", 2015, https://arxiv.org/abs/1412.7449.
    """
    tokens, labels = [], []
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


def rebuild(tokens, words, tags=None):
    """Make the tree that a well-formed sequence of tokens describes.

    Args:
        tokens: sequence of strings, as `linearize` gives them.
        words: sequence of strings, one for each `XX`.
        tags: part-of-speech tags, one for each word. By default each tag is `XX`.

    Returns:
        A `Tree`: `rebuild(linearize(tree), tree.words(), tree.tags()) == tree`.

    Raises:
        ValueError: the sequence is not one tree over exactly these words, with the token's number
            (`repair` makes a tree of any sequence), or the numbers of words and tags differ.

    Example:
        >>> print(rebuild("(S (NP XX )NP (VP XX )VP )S".split(), ["it", "rains"], ["PRP", "VBZ"]))
        (S (NP (PRP it)) (VP (VBZ rains)))
    """
    return build(token_list(tokens), make_leaves(words, tags))


def bracket_tokens(trees):
    """All tokens that the sequences of some trees need: `XX` and both brackets of each label.

    Args:
        trees: iterable of `Tree`.

    Returns:
        A sorted list of strings without repetition.

    Example:
        >>> bracket_tokens([Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")])
        ['(NP', '(S', '(VP', ')NP', ')S', ')VP', 'XX']
    """
    tokens = {LEAF_TOKEN}
    for tree in trees:
        tokens.update(linearize(tree))
    return sorted(tokens)


def read_token(token):
    """What a token is: `("(", label)`, `(")", label)`, `("XX", "")`, or `("", "")` for no token."""
    if not isinstance(token, str):
        return "", ""
    if token == LEAF_TOKEN:
        return LEAF_TOKEN, ""
    return (token[0], token[1:]) if token[:1] in ("(", ")") and is_symbol(token[1:]) else ("", "")


def build(tokens, leaves):
    """The tree of a list of tokens and a list of `Leaf`; `ValueError` as `rebuild`."""
    used = sum(token == LEAF_TOKEN for token in tokens)
    if used != len(leaves):
        raise ValueError(f"`tokens` must have an XX for each word: {used} for {len(leaves)} words")
    remaining = iter(leaves)
    root, stack = [], []  # of open phrases: label, children
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
            if label != opened:
                raise _malformed(number, token, f"closes ({cut(opened)}")
            if not children:
                raise _malformed(number, token, "closes a phrase without a word")
            (stack[-1][1] if stack else root).append(Tree(label, children))
        else:
            raise _malformed(number, token, "is neither a bracket with a label nor XX")
    if stack or not root:
        missing = " ".join(f"){label}" for label, _ in reversed(stack)) or "a tree"
        raise ValueError(f"`tokens` must be one whole tree: {cut(missing)} missing at the end")
    return root[0]


def token_list(tokens):
    """A sequence of tokens as a list; `ValueError` for a string, which is a sequence too."""
    if isinstance(tokens, str):
        raise ValueError(f"`tokens` must be a sequence of tokens. Received: tokens={shown(tokens)}")
    return list(tokens)


def make_leaves(words, tags=None):
    """The leaves of a tree to be built; `ValueError` if there is no word, or tags do not fit."""
    if isinstance(words, str) or isinstance(tags, str):
        raise ValueError(
            "`words` and `tags` must be sequences of strings. "
            f"Received: words={shown(words)}, tags={shown(tags)}"
        )
    words = list(words)
    tags = [LEAF_TOKEN] * len(words) if tags is None else list(tags)
    if not words:
        raise ValueError("`words` must hold a word: there is no tree over none. Received: []")
    if len(tags) != len(words):
        raise ValueError(
            f"`tags` must be one for each word. Received: {len(tags)} tags, {len(words)} words"
        )
    return [Leaf(tag, word) for tag, word in zip(tags, words, strict=True)]


def _malformed(number, token, what):
    return ValueError(f"`tokens` must be one tree: token {number}, {shown(token)}, {what}")
