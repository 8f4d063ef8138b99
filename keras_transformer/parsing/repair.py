"""Making a tree over given words of any sequence of tokens."""

from collections.abc import Iterable

from keras_transformer.parsing.bracket_matching import Matched, match_brackets
from keras_transformer.parsing.leaf import is_symbol, shown
from keras_transformer.parsing.linearization import (
    LEAF_TOKEN,
    build,
    make_leaves,
    token_list,
)
from keras_transformer.parsing.tree import Tree


def repair(
    tokens: Iterable[object],
    words: Iterable[str],
    tags: Iterable[str] | None = None,
    root: str = "S",
) -> tuple[Tree, int]:
    """Make a tree over exactly the given words of any sequence of tokens.

    A sequence that `rebuild` accepts gives the same tree without repairs. Others are repaired in
    these steps. Each token that is added, dropped, moved or given another label counts as one
    repair, and so does each empty phrase that is removed:

    1. Tokens that cannot be part of a tree are dropped, and brackets are made to match with the
       fewest changes that a beam search finds.
    2. `XX` are added or dropped to fit the words. If phrases were open at the end, the sequence
       was broken off: words are dropped from the end, or added to the innermost open phrase, the
       last word to the outermost, since it is usually the full stop. Otherwise the sequence was
       miscounted: words are added or dropped in the middle, where most words keep their phrases.
    3. Empty phrases are removed.
    4. Words beside a single tree become part of it; several trees, or words alone, become a tree
       with the label `root`.

    Args:
        tokens: any objects, such as the tokens of a model's output.
        words: the words, at least one.
        tags: part-of-speech tags, one for each word; defaults to `XX`.
        root: label of a tree over several trees, or over words alone; most trees of the Penn
            Treebank are sentences, `"S"`.

    Returns:
        `(tree, repairs)`: a tree with `tree.words() == list(words)`, and the number of repairs.

    Raises:
        ValueError: `words` is empty, `tags` do not fit, `root` cannot be a label, or an argument is
            a single string.

    Example:
        >>> tree, repairs = repair("(S (NP XX )NP (VP XX )NP )S".split(), ["it", "rains"])
        >>> print(tree, repairs)
        (S (NP (XX it)) (VP (XX rains))) 1
    """
    leaves = make_leaves(words, tags)
    if not is_symbol(root):
        raise ValueError(
            "`root` must be a string, not empty, without round brackets and white space. "
            f"Received: root={shown(root)}"
        )
    matched = match_brackets(token_list(tokens))
    miscounted = abs(matched.tokens.count(LEAF_TOKEN) - len(leaves))
    repaired, removed = _without_empty(_with_leaves(matched, len(leaves)))
    repaired, joined = _with_one_root(repaired, root)
    return build(repaired, leaves), matched.repairs + miscounted + removed + joined


def _with_leaves(matched: Matched, count: int) -> list[str]:
    """The tokens with exactly `count` times `XX`."""
    tokens = matched.tokens
    excess = tokens.count(LEAF_TOKEN) - count
    broken_off = matched.unclosed and LEAF_TOKEN in tokens
    if excess < 0 and broken_off:
        inner, outer = len(tokens) - matched.unclosed, len(tokens) - 1
        missing = [LEAF_TOKEN] * (-excess - 1)
        return [*tokens[:inner], *missing, *tokens[inner:outer], LEAF_TOKEN, *tokens[outer:]]
    if excess < 0:
        place = _middle(tokens)
        return [*tokens[:place], *[LEAF_TOKEN] * -excess, *tokens[place:]]
    dropped: set[int] = set()
    if not matched.unclosed:
        dropped.update(_surplus_in_runs(tokens, excess))
    leaves = [place for place, token in enumerate(tokens) if token == LEAF_TOKEN]
    leaves = [place for place in leaves if place not in dropped]
    dropped.update(leaves[count:])
    return [token for place, token in enumerate(tokens) if place not in dropped]


def _middle(tokens: list[str]) -> int:
    """Where to add words: after the middle `XX`, or else in the first phrase."""
    leaves = [place for place, token in enumerate(tokens, start=1) if token == LEAF_TOKEN]
    if leaves:
        return leaves[(len(leaves) - 1) // 2]
    return min(len(tokens), 1)


def _surplus_in_runs(tokens: list[str], excess: int) -> list[int]:
    """At most `excess` places of `XX` after another `XX`, which empty no phrase, mid-sentence."""
    places = [place for place, token in enumerate(tokens) if token == LEAF_TOKEN]
    doubled = [place for place in places if place and tokens[place - 1] == LEAF_TOKEN]
    middle = places[len(places) // 2] if places else 0
    return sorted(doubled, key=lambda place: abs(place - middle))[:excess]


def _without_empty(tokens: list[str]) -> tuple[list[str], int]:
    """The tokens without empty phrases, and the number of these."""
    kept: list[str] = []
    opened: list[int] = []  # where in `kept` the open phrases begin
    removed = words = 0
    held = []  # number of words before each of them
    for token in tokens:
        if token[0] == "(":
            opened.append(len(kept))
            held.append(words)
        words += token == LEAF_TOKEN
        kept.append(token)
        if token[0] == ")":
            begin = opened.pop()
            if held.pop() == words:
                del kept[begin:]
                removed += 1
    return kept, removed


def _with_one_root(tokens: list[str], root: str) -> tuple[list[str], int]:
    """The tokens of one tree, and the number of changes for it, 0 or 1."""
    depth = top_level = begin = 0
    trees: list[tuple[int, int]] = []
    for place, token in enumerate(tokens):
        top_level += depth == 0
        if token[0] == "(":
            if depth == 0:
                begin = place
            depth += 1
        elif token[0] == ")":
            depth -= 1
            if depth == 0:
                trees.append((begin, place))
    if top_level == 1 and trees:
        return tokens, 0
    if len(trees) != 1:
        return [f"({root}", *tokens, f"){root}"], 1
    ((begin, end),) = trees
    inside = tokens[:begin] + tokens[begin + 1 : end] + tokens[end + 1 :]
    return [tokens[begin], *inside, tokens[end]], 1
