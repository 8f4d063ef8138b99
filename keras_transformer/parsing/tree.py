"""Constituency trees: labeled phrases over words with part-of-speech tags."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Union

from keras_transformer.errors import refuse
from keras_transformer.parsing.leaf import WHITE_SPACE, Leaf, is_symbol, shown

_TOKEN = re.compile(rf"[()]|[^(){WHITE_SPACE}]+")
# More than the tree of any sentence has, and little enough for memory.
MAX_CHARACTERS = 1_000_000
_DEEPEST_INDENT = 100  # levels; the text of a tree 100,000 deep would have 10^10 spaces
CLOSE: Final = None  # the end of a phrase, from `walk`


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A phrase: a label over phrases and words, nested to any depth.

    Args:
        label: the label, such as `"NP"`, without round brackets or white space. The empty string
            stands for the Penn Treebank's outermost bracket, `( (S ...) )`.
        children: phrases and words, kept as a tuple. It may be empty; `clean` removes such phrases.

    Raises:
        ValueError: `label` cannot be written, or a child is neither `Tree` nor `Leaf`.

    Example:
        >>> tree = Tree("S", [Tree("NP", [Leaf("PRP", "it")]), Tree("VP", [Leaf("VBZ", "rains")])])
        >>> print(tree)
        (S (NP (PRP it)) (VP (VBZ rains)))
        >>> tree.words(), tree.tags()
        (['it', 'rains'], ['PRP', 'VBZ'])
        >>> tree == Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")
        True
    """

    label: str
    children: Sequence[Union["Tree", Leaf]]

    def __post_init__(self) -> None:
        if self.label != "" and not is_symbol(self.label):
            refuse("label", "be a string without round brackets and white space", self.label)
        children = tuple(self.children)
        for child in children:
            if not isinstance(child, (Tree, Leaf)):
                refuse("children", "be of the types Tree and Leaf", child)
        object.__setattr__(self, "children", children)

    @classmethod
    def fromstring(cls, text: str) -> "Tree":
        """Parse a bracketed tree.

        Args:
            text: a bracketed tree, on one line or several.

        Returns:
            The tree.

        Raises:
            ValueError: the brackets do not match, or `text` is not exactly one tree.
        """
        trees = list(TreeReader().read(text.split("\n")))
        if len(trees) != 1:
            raise ValueError(f"`text` must hold one tree. Received: {len(trees)} trees")
        return trees[0]

    def leaves(self) -> list[Leaf]:
        """Return the words with their tags from left to right."""
        return [event for event in walk(self) if isinstance(event, Leaf)]

    def words(self) -> list[str]:
        """Return the words from left to right."""
        return [leaf.word for leaf in self.leaves()]

    def tags(self) -> list[str]:
        """Return the part-of-speech tags from left to right."""
        return [leaf.tag for leaf in self.leaves()]

    def pretty(self) -> str:
        """Format the tree with each phrase on its own line, indented by its depth up to 100.

        Example:
            >>> print(Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))").pretty())
            (S
              (NP (DT the) (NN dog))
              (VP (VBZ barks))
              (. .))
        """
        parts, depth, inline = [], 0, [False]
        for event in walk(self):
            if event is CLOSE:
                depth -= 1
                inline.pop()
                parts.append(")")
                continue
            if depth:
                parts.append(" " if inline[-1] else "\n" + "  " * min(depth, _DEEPEST_INDENT))
            if isinstance(event, Leaf):
                parts.append(str(event))
            else:
                depth += 1
                inline.append(all(isinstance(child, Leaf) for child in event.children))
                parts.append(f"({event.label}")
        return "".join(parts)

    def __str__(self) -> str:
        parts = []
        for event in walk(self):
            if event is CLOSE:
                parts.append(")")
            else:
                if parts:
                    parts.append(" ")
                parts.append(str(event) if isinstance(event, Leaf) else f"({event.label}")
        return "".join(parts)

    def __repr__(self) -> str:
        return f"Tree.fromstring({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = itertools.zip_longest(_symbols(self), _symbols(other))
        return all(mine == theirs for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash(tuple(_symbols(self)))

    def __reduce__(self) -> tuple[Any, ...]:  # pickle and copy.deepcopy would recurse
        return _from_symbols, (list(_symbols(self)),)


class TreeReader:
    """Reads bracketed trees from lines, which may hold several trees or part of a tree.

    After an error, `line` is the number of the line with the error.

    Example:
        >>> [str(tree) for tree in TreeReader().read(["(NP (NN tea))", "(NP", "(NN cup) )"])]
        ['(NP (NN tea))', '(NP (NN cup))']
    """

    def __init__(self) -> None:
        self.line = 0
        self._open: list[_OpenPhrase] = []
        self._finished: Tree | None = None
        self._characters = 0  # of the current tree

    def read(self, lines: Iterable[str]) -> Iterator[Tree]:
        """Yield the trees.

        Raises:
            ValueError: brackets do not match, a word lacks a tag, or a tree is too long.
        """
        start = 0
        for self.line, line in enumerate(lines, start=1):
            for token in _TOKEN.findall(line):
                if not self._open:
                    start, self._characters = self.line, 0
                self._characters += len(token)
                if self._characters > MAX_CHARACTERS:
                    self.line = start
                    raise ValueError(
                        f"the tree that begins here must have at most {MAX_CHARACTERS:,} characters"
                    )
                self._take(token)
                if self._finished is not None:
                    yield self._finished
                    self._finished = None
        if self._open:
            self.line = start
            count = len(self._open)
            raise ValueError(
                f"the tree that begins here is not closed: {count} closing "
                f"bracket{'s' * (count > 1)} missing"
            )

    def _take(self, token: str) -> None:
        """Process a token."""
        if token == "(":
            self._begin()
        elif not self._open:
            what = "a closing bracket too many" if token == ")" else f"{shown(token)} is in no tree"
            raise ValueError(what)
        elif token == ")":
            self._end()
        else:
            self._name(token)

    def _begin(self) -> None:
        if self._open:
            parent = self._open[-1]
            if parent.word is not None:
                raise ValueError(f"the word {shown(parent.word)} has no bracket and tag of its own")
            parent.label = parent.label or ""
        self._open.append(_OpenPhrase())

    def _name(self, token: str) -> None:
        """Take a string within a bracket: the first is its label, the second the word."""
        phrase = self._open[-1]
        if phrase.label is None:
            phrase.label = token
        elif phrase.children or phrase.word is not None or not phrase.label:
            raise ValueError(f"the word {shown(token)} has no bracket and tag of its own")
        else:
            phrase.word = token

    def _end(self) -> None:
        phrase = self._open.pop()
        label, word = phrase.label or "", phrase.word
        node = Tree(label, phrase.children) if word is None else Leaf(label, word)
        if self._open:
            self._open[-1].children.append(node)
        elif isinstance(node, Leaf):
            raise ValueError(f"the word {shown(word)} is not in a phrase")
        else:
            self._finished = node


@dataclasses.dataclass(slots=True)
class _OpenPhrase:
    """A bracket that is not closed yet."""

    label: str | None = None
    children: list[Tree | Leaf] = dataclasses.field(default_factory=list)
    word: str | None = None


def walk(tree: Tree) -> Iterator[Tree | Leaf | None]:
    """Walk a tree from left to right: phrases as they begin, leaves, `CLOSE` as phrases end."""
    stack: list[Iterator[Tree | Leaf]] = [iter((tree,))]
    while stack:
        node = next(stack[-1], CLOSE)
        if node is CLOSE:
            stack.pop()
            if stack:
                yield CLOSE
        else:
            yield node
            if isinstance(node, Tree):
                stack.append(iter(node.children))


def _symbols(tree: Tree) -> Iterator[str | Leaf | None]:
    """A tree as flat values that compare and hash without recursion."""
    for event in walk(tree):
        yield event.label if isinstance(event, Tree) else event


def _from_symbols(symbols: Iterable[str | Leaf | None]) -> Tree | Leaf:
    """The tree with the given `_symbols`."""
    stack: list[tuple[str, list[Tree | Leaf]]] = [("", [])]
    for symbol in symbols:
        if symbol is CLOSE:
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, children))
        elif isinstance(symbol, Leaf):
            stack[-1][1].append(symbol)
        else:
            stack.append((symbol, []))
    return stack[0][1][0]
