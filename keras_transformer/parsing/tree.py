"""Constituency trees: phrases with a label over words with their part-of-speech tag."""

import dataclasses
import itertools
import re

from keras_transformer.parsing.leaf import WHITE_SPACE, Leaf, is_symbol, shown

_TOKEN = re.compile(rf"[()]|[^(){WHITE_SPACE}]+")
# More than any tree has that was made of a sentence, and what fits into memory.
MAX_CHARACTERS = 1_000_000
_DEEPEST_INDENT = 100  # levels; the text of a tree 100,000 deep would have 10^10 spaces
CLOSE = None  # what `walk` gives for the end of a phrase


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A phrase: a label over phrases and words. No method recurses, so any depth is fine.

    Args:
        label: the label, such as `"NP"`: no round bracket, no white space. The empty string is
            the Penn Treebank's outermost bracket, `( (S ...) )`.
        children: iterable of `Tree` and `Leaf`. It may be empty; `clean` takes such phrases out.

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
    children: tuple

    def __post_init__(self):
        if self.label != "" and not is_symbol(self.label):
            raise ValueError(
                "`label` must be a string without round brackets and white space. "
                f"Received: label={shown(self.label)}"
            )
        children = tuple(self.children)
        for child in children:
            if not isinstance(child, (Tree, Leaf)):
                raise ValueError(
                    "`children` must be of the types Tree and Leaf. "
                    f"Received: {type(child).__name__} {shown(child)}"
                )
        object.__setattr__(self, "children", children)

    @classmethod
    def fromstring(cls, text):
        """The one tree that a string holds.

        Args:
            text: a bracketed tree, on one line or several.

        Returns:
            A `Tree`.

        Raises:
            ValueError: the string holds no tree, several, or brackets that do not match.
        """
        trees = list(TreeReader().read(text.split("\n")))
        if len(trees) != 1:
            raise ValueError(f"`text` must hold one tree. Received: {len(trees)} trees")
        return trees[0]

    def leaves(self):
        """The words with their tags from left to right, a list of `Leaf`."""
        return [event for event in walk(self) if isinstance(event, Leaf)]

    def words(self):
        """The words from left to right, a list of strings."""
        return [leaf.word for leaf in self.leaves()]

    def tags(self):
        """The part-of-speech tags from left to right, a list of strings."""
        return [leaf.tag for leaf in self.leaves()]

    def pretty(self):
        """The tree over several lines, each phrase on a line of its own, indented by its depth.

        What is deeper than 100 phrases has the indent of that depth.

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

    def __str__(self):
        parts = []
        for event in walk(self):
            if event is CLOSE:
                parts.append(")")
            else:
                if parts:
                    parts.append(" ")
                parts.append(str(event) if isinstance(event, Leaf) else f"({event.label}")
        return "".join(parts)

    def __repr__(self):
        return f"Tree.fromstring({str(self)!r})"

    def __eq__(self, other):
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = itertools.zip_longest(_symbols(self), _symbols(other))
        return all(mine == theirs for mine, theirs in pairs)

    def __hash__(self):
        return hash(tuple(_symbols(self)))

    def __reduce__(self):  # pickle and copy.deepcopy would recurse
        return _from_symbols, (list(_symbols(self)),)


class TreeReader:
    """Reads bracketed trees from lines: one tree a line, several, or one over many lines.

    After an error, `line` is the number of the line to name.

    Example:
        >>> [str(tree) for tree in TreeReader().read(["(NP (NN tea))", "(NP", "(NN cup) )"])]
        ['(NP (NN tea))', '(NP (NN cup))']
    """

    def __init__(self):
        self.line = 0
        self._open = []  # of phrases: [label or None, children, word or None]
        self._finished = None
        self._characters = 0  # of the tree that is read

    def read(self, lines):
        """Yield the `Tree`s; ValueError where brackets do not match, or a word has no tag."""
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
                if not self._open:
                    yield self._finished
        if self._open:
            self.line = start
            count = len(self._open)
            raise ValueError(
                f"the tree that begins here is not closed: {count} closing "
                f"bracket{'s' * (count > 1)} missing"
            )

    def _take(self, token):
        """Go one token on."""
        if token == "(":
            self._begin()
        elif not self._open:
            what = "a closing bracket too many" if token == ")" else f"{shown(token)} is in no tree"
            raise ValueError(what)
        elif token == ")":
            self._end()
        else:
            self._name(token)

    def _begin(self):
        if self._open:
            parent = self._open[-1]
            if parent[2] is not None:
                raise ValueError(f"the word {shown(parent[2])} has no bracket and tag of its own")
            parent[0] = parent[0] or ""
        self._open.append([None, [], None])

    def _name(self, token):
        """A string within a bracket: the first is its label, a second one the word."""
        label, children, word = self._open[-1]
        if label is None:
            self._open[-1][0] = token
        elif children or word is not None or not label:
            raise ValueError(f"the word {shown(token)} has no bracket and tag of its own")
        else:
            self._open[-1][2] = token

    def _end(self):
        label, children, word = self._open.pop()
        node = Tree(label or "", children) if word is None else Leaf(label, word)
        if self._open:
            self._open[-1][1].append(node)
        elif isinstance(node, Leaf):
            raise ValueError(f"the word {shown(word)} is in no phrase")
        else:
            self._finished = node


def walk(tree):
    """Walk a tree from left to right: phrases as they begin, leaves, `CLOSE` as a phrase ends."""
    stack = [iter((tree,))]
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


def _symbols(tree):
    """A tree as flat values that compare and hash without recursion."""
    for event in walk(tree):
        yield event.label if isinstance(event, Tree) else event


def _from_symbols(symbols):
    """The tree whose `_symbols` are given."""
    stack = [("", [])]
    for symbol in symbols:
        if symbol is CLOSE:
            label, children = stack.pop()
            stack[-1][1].append(Tree(label, children))
        elif isinstance(symbol, Leaf):
            stack[-1][1].append(symbol)
        else:
            stack.append((symbol, []))
    return stack[0][1][0]
