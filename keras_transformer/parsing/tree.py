"""Constituency trees and their leaves, with parsing, formatting and cleaning."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeGuard, Union

from keras_transformer.errors import refuse

# White space between the tokens of a bracketed tree. Other Unicode spaces are part of words: a
# no-break space must not split "1 000".
WHITE_SPACE = " \t\n\r\f\v"
_NO_SYMBOL = re.compile(rf"[(){WHITE_SPACE}]")
_NO_WORD = re.compile(rf"[{WHITE_SPACE}]")
BRACKET_NAMES = {  # Penn Treebank names; bracketed trees need only the names of round brackets
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_SHOWN = 60  # maximum length of text in a message
_ROUND_BRACKETS = str.maketrans({bracket: BRACKET_NAMES[bracket] for bracket in "()"})
# The treebank escapes `/` and `*`; SentencePiece vocabularies use a block character for a space.
_REPLACEMENTS = str.maketrans(BRACKET_NAMES | {"\N{LOWER ONE EIGHTH BLOCK}": "_"})
_ESCAPED = re.compile(r"\\([/*])")


def is_symbol(text: object) -> TypeGuard[str]:
    """Whether a value can be a label or tag: nonempty, no round brackets and no white space."""
    return isinstance(text, str) and text != "" and not _NO_SYMBOL.search(text)


def check_symbol(name: str, value: object) -> None:
    """Require a valid label or tag."""
    if not is_symbol(value):
        refuse(name, "be a string, not empty, without round brackets and white space", value)


def shown(value: object) -> str:
    """Return `repr(value)`, shortened for a message."""
    return cut(repr(value))


def cut(text: str) -> str:
    """Return text, shortened for a message."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@dataclasses.dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part-of-speech tag.

    Args:
        tag: tag such as `"NN"`; nonempty, without round brackets or white space.
        word: the word; nonempty, without white space. Round brackets are written as `-LRB-` and
            `-RRB-`.

    Raises:
        ValueError: `tag` or `word` cannot be written in a bracketed tree.

    Example:
        >>> print(Leaf("NN", "dog"), Leaf("-LRB-", "("))
        (NN dog) (-LRB- -LRB-)
    """

    tag: str
    word: str

    def __post_init__(self) -> None:
        check_symbol("tag", self.tag)
        if not isinstance(self.word, str) or not self.word or _NO_WORD.search(self.word):
            refuse("word", "be a string, not empty, without white space", self.word)

    def __str__(self) -> str:
        return f"({self.tag} {self.word.translate(_ROUND_BRACKETS)})"


def source_text(words: Iterable[str]) -> str:
    """Join the words of a sentence into the input text of a model.

    Words from treebanks and user input are normalized: brackets are replaced with their Penn
    Treebank names, and the backslashes are removed from the treebank's `\\/` and `\\*`.

    Args:
        words: words without white space.

    Returns:
        The words, separated by spaces.

    Example:
        >>> source_text(["f(x)", "is", r"1\\/2", "]"])
        'f-LRB-x-RRB- is 1/2 -RSB-'
    """
    return " ".join(_ESCAPED.sub(r"\1", word.translate(_REPLACEMENTS)) for word in words)


_TOKEN = re.compile(rf"[()]|[^(){WHITE_SPACE}]+")
# More than any real tree needs, but few enough for memory.
MAX_CHARACTERS = 1_000_000
_DEEPEST_INDENT = 100  # levels; a tree with a depth of 100,000 would need 10^10 spaces
CLOSE: Final = None  # end of a phrase in `walk`


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A labeled phrase that contains phrases and words, nested to any depth.

    Args:
        label: label such as `"NP"`, without round brackets or white space. An empty label
            represents the Penn Treebank's outermost bracket, `( (S ...) )`.
        children: phrases and words, stored as a tuple; may be empty, but `clean` removes empty
            phrases.

    Raises:
        ValueError: `label` is invalid, or a child is neither a `Tree` nor a `Leaf`.

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
            text: a bracketed tree on one or more lines.

        Returns:
            The tree.

        Raises:
            ValueError: the brackets do not match, or `text` is not exactly one tree.
        """
        trees = list(TreeReader().read(text.split("\n")))
        if len(trees) != 1:
            raise ValueError(f"`text` must contain one tree. Received: {len(trees)} trees")
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
        """Format the tree with each phrase on a separate line, indented by depth (at most 100).

        Example:
            >>> print(Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .))").pretty())
            (S
              (NP (DT the) (NN dog))
              (VP (VBZ barks))
              (. .))
        """
        return self._written(indented=True)

    def __str__(self) -> str:
        return self._written(indented=False)

    def _written(self, *, indented: bool) -> str:
        parts: list[str] = []
        inline: list[bool] = []  # for each open phrase, whether its children share its line
        for event in walk(self):
            if event is CLOSE:
                inline.pop()
                parts.append(")")
                continue
            if inline:
                indent = "  " * min(len(inline), _DEEPEST_INDENT)
                parts.append(" " if inline[-1] else f"\n{indent}")
            if isinstance(event, Leaf):
                parts.append(str(event))
            else:
                of_words = all(isinstance(child, Leaf) for child in event.children)
                inline.append(of_words or not indented)
                parts.append(f"({event.label}")
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
    """A reader for bracketed trees. A line may contain several trees or part of a tree.

    After an error, `line` is the line number of the error.

    Example:
        >>> [str(tree) for tree in TreeReader().read(["(NP (NN tea))", "(NP", "(NN cup) )"])]
        ['(NP (NN tea))', '(NP (NN cup))']
    """

    def __init__(self) -> None:
        self.line = 0
        self._open: list[_OpenPhrase] = []

    def read(self, lines: Iterable[str]) -> Iterator[Tree]:
        """Yield the trees from lines of text.

        Raises:
            ValueError: brackets do not match, a word lacks a tag, or a tree is too long.
        """
        start = characters = 0  # of the current tree
        for self.line, line in enumerate(lines, start=1):
            for token in _TOKEN.findall(line):
                if not self._open:
                    start, characters = self.line, 0
                characters += len(token)
                if characters > MAX_CHARACTERS:
                    self.line = start
                    raise ValueError(
                        f"the tree that starts here must have at most {MAX_CHARACTERS:,} characters"
                    )
                if tree := self._take(token):
                    yield tree
        if self._open:
            self.line = start
            count = len(self._open)
            raise ValueError(
                f"the tree that starts here is not closed: {count} closing "
                f"bracket{'s' * (count > 1)} missing"
            )

    def _take(self, token: str) -> Tree | None:
        """Process a token, and return a tree if the token completes one."""
        if token == "(":
            self._begin()
        elif not self._open:
            what = "a closing bracket too many" if token == ")" else f"{shown(token)} is in no tree"
            raise ValueError(what)
        elif token == ")":
            return self._end()
        else:
            self._name(token)
        return None

    def _begin(self) -> None:
        if self._open:
            parent = self._open[-1]
            if parent.word is not None:
                raise ValueError(f"the word {shown(parent.word)} has no bracket and tag")
            parent.label = parent.label or ""
        self._open.append(_OpenPhrase())

    def _name(self, token: str) -> None:
        """Handle a string within a bracket: the first is the label, and the second is the word."""
        phrase = self._open[-1]
        if phrase.label is None:
            phrase.label = token
        elif phrase.children or phrase.word is not None or not phrase.label:
            raise ValueError(f"the word {shown(token)} has no bracket and tag")
        else:
            phrase.word = token

    def _end(self) -> Tree | None:
        phrase = self._open.pop()
        label, word = phrase.label or "", phrase.word
        node = Tree(label, phrase.children) if word is None else Leaf(label, word)
        if self._open:
            self._open[-1].children.append(node)
            return None
        if isinstance(node, Leaf):
            raise ValueError(f"the word {shown(word)} is not in a phrase")
        return node


@dataclasses.dataclass(slots=True)
class _OpenPhrase:
    """A bracket that has not been closed yet."""

    label: str | None = None
    children: list[Tree | Leaf] = dataclasses.field(default_factory=list)
    word: str | None = None


def walk(tree: Tree) -> Iterator[Tree | Leaf | None]:
    """Walk a tree from left to right, yielding phrases, leaves, and `CLOSE` after each phrase."""
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
    """Yield a tree as flat values that can be compared and hashed without recursion."""
    for event in walk(tree):
        yield event.label if isinstance(event, Tree) else event


def nodes_of(
    symbols: Iterable[str | Leaf | None],
    phrase: Callable[[str, list[Tree | Leaf]], Sequence[Tree | Leaf]],
) -> list[Tree | Leaf]:
    """Build trees and words from their `_symbols`. `phrase` creates the object for a phrase."""
    stack: list[tuple[str, list[Tree | Leaf]]] = [("", [])]
    for symbol in symbols:
        if symbol is CLOSE:
            label, children = stack.pop()
            stack[-1][1].extend(phrase(label, children))
        elif isinstance(symbol, Leaf):
            stack[-1][1].append(symbol)
        else:
            stack.append((symbol, []))
    return stack[0][1]


def _from_symbols(symbols: Iterable[str | Leaf | None]) -> Tree | Leaf:
    return nodes_of(symbols, lambda label, children: [Tree(label, children)])[0]


_TRACE = "-NONE-"
# The part before the first `-` or `=`, as in `NP-SBJ-1` and `NP=2`. Labels that start with these
# characters, such as `-LRB-`, stay unchanged.
_CATEGORY = re.compile(r"[^-=]+")
_UNNAMED_ROOT = "TOP"


def clean(tree: Tree) -> Tree | None:
    """Remove traces, function tags, empty phrases and brackets without a label from a tree.

    Traces are leaves with the tag `-NONE-`. Phrases that become empty are also removed. Function
    tags and indices are removed from phrase labels (`NP-SBJ-1` and `NP=2` become `NP`; `ADVP|PRT`
    stays) but not from part-of-speech tags, such as `-LRB-`. The Penn Treebank's outermost bracket
    `( (S ...) )` is removed; if it contains several phrases, or only a word, its label is changed
    to `TOP`, which EVALB ignores. A clean tree is returned unchanged.

    Args:
        tree: tree to clean.

    Returns:
        The clean tree, or None if it would be empty.

    Example:
        >>> raw = "( (S (NP-SBJ-1 (PRP it)) (VP (VBZ is) (VP (VBN said) (NP (-NONE- *-1))))))"
        >>> print(clean(Tree.fromstring(raw)))
        (S (NP (PRP it)) (VP (VBZ is) (VP (VBN said))))
    """
    kept = (
        symbol
        for symbol in _symbols(tree)
        if not (isinstance(symbol, Leaf) and symbol.tag == _TRACE)
    )
    outermost = nodes_of(kept, _cleaned)
    if len(outermost) == 1 and isinstance(outermost[0], Tree):
        return outermost[0]
    return Tree(_UNNAMED_ROOT, outermost) if outermost else None


def _cleaned(label: str, children: list[Tree | Leaf]) -> Sequence[Tree | Leaf]:
    """Return a phrase without function tags and indices, or its children if it has no label."""
    if not label or not children:
        return children
    category = _CATEGORY.match(label)
    return [Tree(category[0] if category else label, children)]
