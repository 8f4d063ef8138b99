"""Convert trees to and from token sequences (Vinyals et al., 2015): `(S (NP XX XX )NP ... )S`."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Self, TypeVar

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.parsing.tree import (
    CLOSE,
    Leaf,
    Tree,
    TreeReader,
    check_symbol,
    cut,
    is_symbol,
    nodes_of,
    shown,
    walk,
)
from keras_transformer.parsing.tree import clean as clean_tree
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.text_lines import text_lines
from keras_transformer.types import PathLike

LEAF_TOKEN = "XX"
_T = TypeVar("_T")


def linearize(tree: Tree) -> list[str]:
    """Linearize a tree into a sequence of tokens, depth first.

    A phrase becomes an opening and a closing bracket with its label; a word with its tag becomes
    `XX`. `rebuild` restores the words.

    Args:
        tree: tree to linearize. Each phrase must have a label and contain a word; see `clean`.

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
            raise ValueError(f"`tree` has a phrase without a {what}: clean the tree first")
        else:
            tokens.append(f"({event.label}")
            labels.append(event.label)
    return tokens


def rebuild(tokens: Iterable[str], words: Iterable[str], tags: Iterable[str] | None = None) -> Tree:
    """Build a tree from a well-formed sequence of tokens.

    Args:
        tokens: tokens in the format returned by `linearize`.
        words: words of the sentence, one per `XX`.
        tags: part-of-speech tags, one per word; default to `XX`.

    Returns:
        The tree: `rebuild(linearize(tree), tree.words(), tree.tags()) == tree`.

    Raises:
        ValueError: the sequence is not a single tree over exactly these words (`repair` builds a
            tree from any sequence), or the numbers of words and tags differ.

    Example:
        >>> print(rebuild("(S (NP XX )NP (VP XX )VP )S".split(), ["it", "rains"], ["PRP", "VBZ"]))
        (S (NP (PRP it)) (VP (VBZ rains)))
    """
    tokens, leaves = token_list(tokens), make_leaves(words, tags)
    used = sum(token == LEAF_TOKEN for token in tokens)
    if used != len(leaves):
        raise ValueError(
            f"`tokens` must contain an XX for each word: {used} for {len(leaves)} words"
        )
    remaining = iter(leaves)
    root: list[Tree] = []
    stack: list[tuple[str, list[Tree | Leaf]]] = []  # labels and children of open phrases
    for number, token in enumerate(tokens, start=1):
        side, label = read_token(token)
        if not stack and (root or side != "("):
            what = "is after the end of the tree" if root else "is outside of all brackets"
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
        raise ValueError(f"`tokens` must be one complete tree: {cut(missing)} missing at the end")
    return root[0]


def bracket_tokens(trees: Iterable[Tree]) -> list[str]:
    """Collect all tokens that occur in trees: `XX` and the two brackets of each label.

    Args:
        trees: trees to collect from.

    Returns:
        The tokens, sorted.

    Example:
        >>> bracket_tokens([Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")])
        ['(NP', '(S', '(VP', ')NP', ')S', ')VP', 'XX']
    """
    return sorted({LEAF_TOKEN}.union(*map(linearize, trees)))


def read_token(token: object) -> tuple[str, str]:
    """Parse a token into `("(", label)`, `(")", label)`, `("XX", "")`, or `("", "")` if invalid."""
    if not isinstance(token, str):
        return "", ""
    if token == LEAF_TOKEN:
        return LEAF_TOKEN, ""
    return (token[0], token[1:]) if token[:1] in ("(", ")") and is_symbol(token[1:]) else ("", "")


def token_list(tokens: Iterable[_T]) -> list[_T]:
    """Return tokens as a list. Reject a single string, even though strings are sequences."""
    if isinstance(tokens, str):
        refuse("tokens", "be a sequence of tokens", tokens)
    return list(tokens)


def make_leaves(words: Iterable[str], tags: Iterable[str] | None = None) -> list[Leaf]:
    """Create the leaves of a tree from at least one word and, optionally, a tag for each word."""
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


_BEAM = 16  # as good as 64 for PTB trees with up to 4 wrong tokens
_FARTHEST = 16  # maximum number of inner phrases that a closing bracket also closes

# A linked list of strings from last to first; None is the empty list.
_Linked = tuple[str, "_Linked"] | None


def repair(
    tokens: Iterable[object],
    words: Iterable[str],
    tags: Iterable[str] | None = None,
    root: str = "S",
) -> tuple[Tree, int]:
    """Build a tree over exactly the given words from any sequence of tokens.

    A sequence that `rebuild` accepts produces the same tree without repairs. Any other sequence is
    repaired in the following steps. Each added, dropped, moved or relabeled token and each removed
    empty phrase counts as one repair:

    1. Tokens that cannot be part of a tree are dropped, and brackets are made to match with the
       fewest changes that a beam search finds.
    2. `XX` tokens are added or dropped to match the words. If phrases are open at the end, the
       sequence was cut off: words are dropped from the end or added to the innermost open phrase,
       except the last word (usually the period), which is added to the outermost phrase.
       Otherwise, words are added or dropped in the middle, so most words keep their phrases.
    3. Empty phrases are removed.
    4. Words next to a single tree become part of this tree. Several trees, or words without a tree,
       are combined into a tree with the label `root`.

    Args:
        tokens: any objects, such as the output tokens of a model.
        words: at least one word.
        tags: part-of-speech tags, one for each word; defaults to `XX`.
        root: label for a tree that combines several trees or bare words. Most Penn Treebank trees
            are sentences, `"S"`.

    Returns:
        `(tree, repairs)`: a tree with `tree.words() == list(words)`, and the number of repairs.

    Raises:
        ValueError: `words` is empty, `tags` does not match `words`, `root` is not a valid label, or
            an argument is a single string.

    Example:
        >>> tree, repairs = repair("(S (NP XX )NP (VP XX )NP )S".split(), ["it", "rains"])
        >>> print(tree, repairs)
        (S (NP (XX it)) (VP (XX rains))) 1
    """
    leaves = make_leaves(words, tags)
    check_symbol("root", root)
    matched = match_brackets(token_list(tokens))
    miscounted = abs(matched.tokens.count(LEAF_TOKEN) - len(leaves))
    nodes, removed = _without_empty(_with_leaves(matched, len(leaves)), leaves)
    tree, joined = _with_one_root(nodes, root)
    return tree, matched.repairs + miscounted + removed + joined


def _with_leaves(matched: Matched, count: int) -> list[str]:
    """Return the tokens with exactly `count` occurrences of `XX`."""
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
    """Return the position for added words: after the middle `XX`, or else in the first phrase."""
    leaves = [place for place, token in enumerate(tokens, start=1) if token == LEAF_TOKEN]
    if leaves:
        return leaves[(len(leaves) - 1) // 2]
    return min(len(tokens), 1)


def _surplus_in_runs(tokens: list[str], excess: int) -> list[int]:
    """Return up to `excess` `XX` positions, middle first, whose removal leaves no phrase empty."""
    places = [place for place, token in enumerate(tokens) if token == LEAF_TOKEN]
    doubled = [place for place in places if place and tokens[place - 1] == LEAF_TOKEN]
    middle = places[len(places) // 2] if places else 0
    return sorted(doubled, key=lambda place: abs(place - middle))[:excess]


def _without_empty(tokens: list[str], leaves: Iterable[Leaf]) -> tuple[list[Tree | Leaf], int]:
    """Build trees and words from matching tokens, and count the omitted empty phrases."""
    words, removed = iter(leaves), 0

    def phrase(label: str, children: list[Tree | Leaf]) -> list[Tree | Leaf]:
        nonlocal removed
        removed += not children
        return [Tree(label, children)] if children else []

    symbols = (
        next(words) if token == LEAF_TOKEN else token[1:] if token[0] == "(" else CLOSE
        for token in tokens
    )
    return nodes_of(symbols, phrase), removed


def _with_one_root(nodes: list[Tree | Leaf], root: str) -> tuple[Tree, int]:
    """Combine all nodes into one tree, and return it with the number of changes, 0 or 1."""
    trees = [node for node in nodes if isinstance(node, Tree)]
    if len(trees) != 1:
        return Tree(root, nodes), 1
    (tree,) = trees
    if len(nodes) == 1:
        return tree, 0
    place = nodes.index(tree)
    return Tree(tree.label, [*nodes[:place], *tree.children, *nodes[place + 1 :]]), 1


class Matched(typing.NamedTuple):
    """A sequence of matching brackets and `XX` for any number of trees and words.

    `repairs` is the number of tokens that were added, dropped or relabeled. `unclosed` is the
    number of phrases that were open at the end and are closed by the last tokens.
    """

    tokens: list[str]
    repairs: int
    unclosed: int


class _Reading(typing.NamedTuple):
    """One interpretation of the sequence so far.

    `stack` identifies the open phrases in `_Stacks`, `roots` counts the trees and words outside of
    phrases, `wraps` contains the labels of phrases that start before the first token, and `tokens`
    contains the kept and added tokens.
    """

    repairs: int
    stack: int
    roots: int
    wraps: _Linked
    tokens: _Linked


class _Stacks:
    """Assigns numbers to stacks of open phrases. Equal stacks share a number; an empty stack is 0.

    Interpretations share the lower parts of their stacks and compare stacks by number.
    """

    def __init__(self) -> None:
        self.label, self.below, self.depth = [""], [0], [0]
        self._number: dict[tuple[int, str], int] = {}

    def push(self, stack: int, label: str) -> int:
        """Return the number of `stack` with one more open phrase."""
        number = self._number.setdefault((stack, label), len(self.label))
        if number == len(self.label):
            self.label.append(label)
            self.below.append(stack)
            self.depth.append(self.depth[stack] + 1)
        return number


def match_brackets(tokens: Sequence[object]) -> Matched:
    """Make brackets match, using beam search to find the fewest changes.

    Tokens other than brackets with labels and `XX` are dropped. A closing bracket whose label
    does not match the innermost open phrase has three interpretations: its label is wrong, the
    bracket is superfluous, or inner phrases were never closed. A closing bracket outside of all
    phrases either wraps everything before it in a phrase or is superfluous. A bracket that ends the
    first tree before the end of the sequence may also be superfluous. The interpretation with the
    fewest changes wins; ties are resolved in this order.
    """
    pieces = [piece for piece in map(read_token, tokens) if piece[0]]
    stacks = _Stacks()
    readings = [_Reading(len(tokens) - len(pieces), 0, 0, None, None)]
    for number, (side, label) in enumerate(pieces, start=1):
        if side == ")":
            last = number == len(pieces)
            readings = _best(
                new for reading in readings for new in _close(reading, label, stacks, last)
            )
        else:
            readings = [_go_on(reading, side, label, stacks) for reading in readings]
    best = min(readings, key=lambda reading: _cost(reading)[0] + stacks.depth[reading.stack])
    unclosed = stacks.depth[best.stack]
    return Matched(_written(best, stacks), best.repairs + unclosed, unclosed)


def _go_on(reading: _Reading, side: str, label: str, stacks: _Stacks) -> _Reading:
    """Return the interpretation after an opening bracket or a word."""
    repairs, stack, roots, wraps, before = reading
    roots += stack == 0
    if side == LEAF_TOKEN:
        return _Reading(repairs, stack, roots, wraps, (LEAF_TOKEN, before))
    return _Reading(repairs, stacks.push(stack, label), roots, wraps, (f"({label}", before))


def _close(reading: _Reading, label: str, stacks: _Stacks, last: bool) -> Iterator[_Reading]:
    """Yield all interpretations of a closing bracket, the most likely first."""
    repairs, stack, roots, wraps, before = reading
    innermost = stacks.label[stack]
    dropped = reading._replace(repairs=repairs + 1)
    if stack == 0:
        if roots > 1:
            yield _Reading(repairs + 1, 0, 1, (label, wraps), (f"){label}", before))
        yield dropped
        return
    wrong = int(innermost != label)
    below = stacks.below[stack]
    yield _Reading(repairs + wrong, below, roots, wraps, (f"){innermost}", before))
    if wrong or (below == 0 and not last):
        yield dropped
    if wrong:
        for missing in range(1, _FARTHEST + 1):
            before = _without_end(before, stacks.label[stack])
            stack = stacks.below[stack]
            if stack == 0:
                return
            if stacks.label[stack] == label:
                before = (f"){label}", before)
                yield _Reading(repairs + missing, stacks.below[stack], roots, wraps, before)
                return


def _without_end(before: _Linked, label: str) -> _Linked:
    """Close a phrase that was never closed, or drop its opening bracket if it is empty."""
    return before[1] if before and before[0] == f"({label}" else (f"){label}", before)


def _best(readings: Iterable[_Reading]) -> list[_Reading]:
    """Return the interpretations with the fewest changes, one per stack of open phrases."""
    kept: dict[int, _Reading] = {}
    for reading in readings:
        rival = kept.get(reading.stack)
        if rival is None or _cost(reading) < _cost(rival):
            kept[reading.stack] = reading
    return sorted(kept.values(), key=_cost)[:_BEAM]


def _cost(reading: _Reading) -> tuple[int, bool]:
    """Return the number of changes, including the change that joins several trees.

    In case of a tie, a tree that ended too early ranks before a tree that started too late, because
    models rarely forget the first bracket.
    """
    return reading.repairs + (reading.roots > 1), reading.wraps is not None


def _written(reading: _Reading, stacks: _Stacks) -> list[str]:
    """Return the tokens of an interpretation, with closing brackets for the open phrases."""
    tokens: list[str] = []
    rest, stack, wraps = reading.tokens, reading.stack, reading.wraps
    while rest:
        token, rest = rest
        tokens.append(token)
    openings = []
    while wraps:  # from the last label, which is the outermost
        label, wraps = wraps
        openings.append(f"({label}")
    tokens.extend(reversed(openings))
    tokens.reverse()
    while stack:
        tokens.append(f"){stacks.label[stack]}")
        stack = stacks.below[stack]
    return tokens


class TreeTokenizer(SentencePieceTokenizer):
    """A tokenizer, saved as a SentencePiece model, that splits linearized trees at spaces.

    Args:
        model_bytes: `TreeTokenizer.of(...).model_bytes`.

    Raises:
        UserInputError: the bytes are not a SentencePiece model.

    Example:
        >>> tokenizer = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
        >>> ids = tokenizer.encode(["(S (NP XX )NP )S"])
        >>> ids, tokenizer.decode(ids)
        ([[5, 4, 8, 6, 7]], ['(S (NP XX )NP )S'])
    """

    output: Literal["text", "trees"] = "trees"

    def __init__(self, model_bytes: bytes) -> None:
        super().__init__(model_bytes)
        self.tokens = self.pieces(range(self.vocabulary_size))
        self._ids = {token: number for number, token in enumerate(self.tokens)}

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Self:
        """Create a tokenizer from tokens, such as the `bracket_tokens` of a treebank."""
        tokens = list(tokens)
        model = SentencePieceTokenizer.train(
            ["X"],  # the trainer requires text
            vocabulary_size=4 + len(tokens) + 2,
            user_defined_symbols=tokens,
            normalization="identity",
        )
        return cls(model.model_bytes)

    @functools.cached_property
    def word_starts(self) -> tuple[int, ...]:
        """The ids after which a new word starts: the ids of BOS and `XX`.

        Use them in `build_transformer(positions="words", target_word_starts=...)`: the position of
        each token of a tree is then the number of the next source word.
        """
        bos, leaf = self.special_tokens.bos, self._ids.get(LEAF_TOKEN)
        return (bos,) if leaf is None else (bos, leaf)

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert linearized trees, with tokens separated by spaces, to token ids.

        Tokens outside of the vocabulary are mapped to the id of the unknown token.
        """
        unknown = self.special_tokens.unk
        return [
            [self._ids.get(token, unknown) for token in tree_tokens(text)] for text in sentences
        ]

    def sample(self, sentences: Iterable[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Same as `encode`, because linearized trees have only one segmentation."""
        return self.encode(sentences)

    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]:
        """Convert token ids to linearized trees, dropping padding, BOS and EOS.

        Args:
            ids: rows of ids, such as an int array of shape `(sentences, length)`.

        Returns:
            The linearized trees.
        """
        special = self.special_tokens
        left_out = {special.pad, special.bos, special.eos}
        return [" ".join(self.tokens[int(i)] for i in row if int(i) not in left_out) for row in ids]


def tree_tokens(text: str) -> list[str]:
    """Split a linearized tree only at spaces, as labels may contain other white space."""
    return [token for token in text.split(" ") if token]


def read_trees(path: PathLike, clean: bool = True) -> Iterator[Tree]:
    r"""Read trees from a file, one at a time.

    Args:
        path: UTF-8 file, decompressed if its name ends in `.gz`. A tree may be on a separate line,
            share a line or span several lines.
        clean: whether to remove everything that a parser does not predict; see `parsing.clean`.
            Trees that become empty, such as `(())`, are skipped.

    Yields:
        The trees.

    Raises:
        UserInputError: the file cannot be read or contains no tree, or its brackets do not match
            (the message contains the line number).

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "wsj.mrg"
        >>> _ = path.write_text("( (S (NP-SBJ (PRP it))\n     (VP (VBZ rains) (NP (-NONE- *)))))")
        >>> [str(tree) for tree in read_trees(path)]
        ['(S (NP (PRP it)) (VP (VBZ rains)))']
    """
    reader = TreeReader()
    found = False
    try:
        for tree in reader.read(text_lines(path)):
            found = True
            kept = clean_tree(tree) if clean else tree
            if kept is not None:
                yield kept
    except UserInputError:
        raise
    except ValueError as error:
        raise UserInputError(f"{path}, line {reader.line}: {error}") from error
    if not found:
        raise UserInputError(f"{path} contains no tree")
