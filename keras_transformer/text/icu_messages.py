"""Translate the text inside plural and select arguments of ICU messages."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from keras_transformer.errors import refuse
from keras_transformer.text.variables import Variable, find_variables, has_words
from keras_transformer.types import AUTO, NUMBERS

MOST_TEXTS = 32  # of a message that is expanded to whole sentences
MOST_LEVELS = 32  # of nested arguments
_NAME = r"([^\s{},#']++)\s*+"
_CHOICE = re.compile(
    rf"\{{\s*+{_NAME},\s*+(plural|selectordinal|select)\s*+,\s*+"
    r"(?:offset:\s*+(-?\d{1,9})\s++)?"
)
_OPTION = re.compile(rf"{_NAME}\{{")
_END = re.compile(r"\}\s*+")
_ARGUMENT = re.compile(rf"\{{\s*+{_NAME}(?:,\s*+{_NAME}(?:,[^{{}}]*+)?)?\}}")
# Literal text: without quotes, and in quotes. An apostrophe before another character is literal.
_LITERAL = {
    counts: re.compile(
        rf"((?:[^'{special}]|''|'(?![{special}']))+)|'([{special}](?:[^']|'')*)(?:'|\Z)"
    )
    for counts, special in ((False, "{}"), (True, "{}#"))
}
# Characters of literal text that need quotes. "{name}" in quotes is code, so it is one part.
_SYNTAX = re.compile(r"(\{[^{}'\s]*\}|[{}]+|#+)")
# A part of a shown text that may be an argument, `#` or quoted.
_TOKEN = re.compile(r"'(?:\{[^{}'\s]*\}|[{}]+|#+)'|\{[^{}]*\}|#")


class IcuMessage:
    """A message with plural or select arguments, whose texts can be translated.

    Each text is a whole sentence: the text around an argument is repeated in each of its branches.
    If this would give more than 32 texts, or if the message contains more than 32 of these
    arguments, the branches are separate texts, and each argument is a placeholder such as `{count}`
    in the text around it.

    The texts are written as in the message, except that apostrophes are not doubled, and that the
    `#` of an outer plural argument is `{count, number}`, which has the same value.

    Example:
        >>> message = IcuMessage.parse("{n, plural, one {# file} other {# files}} deleted")
        >>> message.texts
        ['# file deleted', '# files deleted']
        >>> message.join(["# Datei gelöscht", "# Dateien gelöscht"])
        '{n, plural, one {# Datei gelöscht} other {# Dateien gelöscht}}'
    """

    def __init__(self, tree: "_Tree", doubled: bool) -> None:
        self._tree = tree
        self._doubled = doubled  # the message doubles its apostrophes
        self._leaves = [leaf for leaf in _leaves(tree) if leaf.text]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return a message, or None for other text, which includes messages with wrong syntax."""
        nodes = _parsed(text)
        choices = sum(1 for _ in _choices(nodes))
        if not choices:
            return None
        try:
            if choices > MOST_TEXTS:
                raise _CannotExpand
            tree = _sentences(nodes, None, {}, itertools.count(1))
        except _CannotExpand:
            try:
                tree = _parts(nodes, None)
            except _CannotExpand:
                return None
        return cls(tree, "''" in text)

    @property
    def texts(self) -> list[str]:
        """The texts to translate, without surrounding spaces. Blank texts are omitted."""
        return [leaf.text for leaf in self._leaves]

    def variables(self, keep: str = AUTO) -> list[list[Variable]]:
        """Return the variables of each text, which include `#`, arguments and quoted braces.

        Args:
            keep: as in `find_variables`.
        """
        return [
            find_variables(leaf.text, keep, fixed=leaf.tokens(leaf.text)) for leaf in self._leaves
        ]

    def join(self, translations: Sequence[str]) -> str:
        """Return the message with a translation for each text.

        The result is a valid message if each translation contains the variables of its text. If
        the translations are the texts themselves, it means the same as the original, with these
        differences: text around an argument is in its branches, spaces between the parts of an
        argument are single, and quotes and double apostrophes are used only where necessary. If the
        original doubles an apostrophe, the result doubles all.

        Raises:
            UserInputError: the number of translations is not the number of texts.
        """
        if len(translations) != len(self._leaves):
            refuse(
                "translations",
                "contain a translation for each text",
                number_of_texts=len(self._leaves),
                number_of_translations=len(translations),
            )
        return self._written(self._tree, dict(zip(self._leaves, translations, strict=True)))

    def _written(self, tree: "_Tree", translations: Mapping["_Leaf", str]) -> str:
        if isinstance(tree, _Branches):
            branches = [
                f" {selector} {{{self._written(each, translations)}}}"
                for selector, each in tree.trees.items()
            ]
            return f"{{{tree.choice.head}{''.join(branches)}}}"
        text = tree.before + translations.get(tree, "") + tree.after
        parts: list[str] = []
        literal: list[str] = []
        place = 0
        for start, end in tree.tokens(text):
            literal.append(text[place:start])
            token, place = text[start:end], end
            meaning = tree.meanings[token]
            if meaning is None:
                literal.append(token.strip("'"))
                continue
            if not isinstance(meaning, str):
                meaning = self._written(meaning, translations)
            parts += [_quoted("".join(literal), tree.counts, self._doubled), meaning]
            literal = []
        literal.append(text[place:])
        return "".join([*parts, _quoted("".join(literal), tree.counts, self._doubled)])


class TextsToTranslate:
    """The texts of a sentence: the sentence itself, or the texts of an ICU message.

    Texts that consist of variables, which a translation contains unchanged, are left out.

    Args:
        sentence: the sentence.
        keep, fixed: as in `find_variables`.
        may_be_message: whether the sentence can be a message. For this, `keep` must be `"auto"` or
            `"numbers"`.

    Attributes:
        message: the message, or None.
        texts: the texts to translate.
        variables: the variables of each text.
    """

    def __init__(
        self,
        sentence: str,
        keep: str,
        fixed: Sequence[tuple[int, int]] = (),
        may_be_message: bool = True,
    ) -> None:
        may_be_message = may_be_message and keep in (AUTO, NUMBERS) and not fixed
        self.message = IcuMessage.parse(sentence) if may_be_message else None
        if self.message is None:
            self._all, variables = [sentence], [find_variables(sentence, keep, fixed)]
        else:
            self._all, variables = self.message.texts, self.message.variables(keep)
        self._is_text = [
            not spans or has_words(text, spans)
            for text, spans in zip(self._all, variables, strict=True)
        ]
        self.texts = list(itertools.compress(self._all, self._is_text))
        self.variables = list(itertools.compress(variables, self._is_text))

    def join(self, translations: Iterable[str]) -> str:
        """Return the translation of the sentence from a translation of each text."""
        rest = iter(translations)
        texts = [
            next(rest) if is_text else text
            for text, is_text in zip(self._all, self._is_text, strict=True)
        ]
        return texts[0] if self.message is None else self.message.join(texts)


class _NoMessage(Exception):
    """The syntax is wrong."""


class _CannotExpand(Exception):
    """The message cannot be written in the wanted form."""


@dataclasses.dataclass(eq=False)
class _Choice:
    """An argument that selects one of several texts."""

    name: str
    kind: str
    offset: int
    options: dict[str, list["_Node"]]

    @property
    def counts(self) -> bool:
        """Whether `#` is the number."""
        return self.kind != "select"

    @property
    def head(self) -> str:
        offset = f" offset:{self.offset}" if self.offset else ""
        return f"{self.name}, {self.kind},{offset}"


@dataclasses.dataclass
class _Argument:
    source: str


@dataclasses.dataclass
class _Number:
    """The `#` of an argument."""

    choice: _Choice


_Node = str | _Choice | _Argument | _Number


@dataclasses.dataclass(eq=False)
class _Branches:
    choice: _Choice
    trees: dict[str, "_Tree"]


@dataclasses.dataclass(eq=False)
class _Leaf:
    """A text.

    Args:
        counts: whether `#` is the number in this place of the message.
        before, text, after: the text and the space around it.
        meanings: for each token, its source or the branches that it stands for. None is literal.
    """

    counts: bool
    before: str
    text: str
    after: str
    meanings: dict[str, str | _Branches | None]

    def tokens(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each token in the text or a translation."""
        place = 0
        while match := _TOKEN.search(text, place):
            is_token = match.group() in self.meanings
            place = match.end() if is_token else match.start() + 1
            if is_token:
                yield match.span()


_Tree = _Branches | _Leaf


class _Shown(NamedTuple):
    """A part of a text as it is shown to the translator."""

    text: str
    is_token: bool = False
    meaning: str | _Branches | None = None


def _leaves(tree: _Tree) -> Iterator[_Leaf]:
    if isinstance(tree, _Leaf):
        yield tree
    inner = tree.meanings if isinstance(tree, _Leaf) else tree.trees
    for each in inner.values():
        if isinstance(each, _Branches | _Leaf):
            yield from _leaves(each)


def _parsed(text: str) -> list[_Node]:
    """Return the parts of a message; nothing for text that is not a message."""
    try:
        nodes, end = _message(text, 0, None, MOST_LEVELS)
    except _NoMessage:
        return []
    return nodes if end == len(text) else []


def _message(text: str, place: int, parent: _Choice | None, levels: int) -> tuple[list[_Node], int]:
    """Return the parts from a place to the end or the next `}`, and the place after them."""
    nodes: list[_Node] = []
    literal = _LITERAL[parent is not None and parent.counts]
    while place < len(text) and text[place] != "}":
        if match := literal.match(text, place):
            nodes.append((match[1] or match[2]).replace("''", "'"))
        elif match := _CHOICE.match(text, place):
            choice, place = _choice(text, match, levels)
            nodes.append(choice)
            continue
        elif match := _ARGUMENT.match(text, place):
            nodes.append(_Argument(match.group()))
        elif parent is not None and text[place] == "#":
            nodes.append(_Number(parent))
            place += 1
            continue
        else:
            raise _NoMessage
        place = match.end()
    return nodes, place


def _choice(text: str, head: re.Match[str], levels: int) -> tuple[_Choice, int]:
    """Return the argument that starts with a match of `_CHOICE`, and the place after it."""
    if not levels:
        raise _NoMessage
    choice = _Choice(head[1], head[2], int(head[3] or 0), {})
    place = head.end()
    while option := _OPTION.match(text, place):
        nodes, place = _message(text, option.end(), choice, levels - 1)
        end = _END.match(text, place)
        if option[1] in choice.options or not end:
            raise _NoMessage
        choice.options[option[1]] = nodes
        place = end.end()
    if "other" not in choice.options or not text.startswith("}", place):
        raise _NoMessage
    return choice, place + 1


def _choices(nodes: list[_Node]) -> Iterator[_Choice]:
    for node in nodes:
        if isinstance(node, _Choice):
            yield node
            for option in node.options.values():
                yield from _choices(option)


def _sentences(
    nodes: list[_Node],
    parent: _Choice | None,
    selected: Mapping[tuple[object, ...], str],
    texts: Iterator[int],
) -> _Tree:
    """Return a tree with the text around each argument inside its branches.

    Args:
        nodes: the parts of the message, of which the first argument is expanded.
        parent: the innermost argument of the tree.
        selected: the selectors of the arguments around. An argument that occurs several times
            has the same value everywhere.
        texts: counts the texts.
    """
    place = next((i for i, node in enumerate(nodes) if isinstance(node, _Choice)), None)
    if place is None:
        if next(texts) > MOST_TEXTS:
            raise _CannotExpand
        return _leaf(nodes, parent)
    choice = nodes[place]
    assert isinstance(choice, _Choice)

    def inside(selector: str, parent: _Choice | None) -> _Tree:
        inner = [*nodes[:place], *choice.options[selector], *nodes[place + 1 :]]
        return _sentences(inner, parent, {**selected, key: selector}, texts)

    key = (choice.head, *choice.options)
    if key in selected:
        return inside(selected[key], parent)
    return _Branches(choice, {selector: inside(selector, choice) for selector in choice.options})


def _parts(nodes: list[_Node], parent: _Choice | None) -> _Tree:
    """Return a tree with separate texts for the branches and the text around arguments."""
    if len(nodes) == 1 and isinstance(nodes[0], _Choice):
        return _branches(nodes[0])
    used = {node.source for node in nodes if isinstance(node, _Argument)}
    shown: list[_Node | _Shown] = []
    for number, node in enumerate(nodes):
        if isinstance(node, _Choice):
            names = (node.name, f"{node.name}_{number}")
            sources = [f"{{{name}}}" for name in names if f"{{{name}}}" not in used]
            if not sources:
                raise _CannotExpand
            used.add(sources[0])
            shown.append(_Shown(sources[0], True, _branches(node)))
        else:
            shown.append(node)
    return _leaf(shown, parent)


def _branches(choice: _Choice) -> _Branches:
    return _Branches(choice, {name: _parts(each, choice) for name, each in choice.options.items()})


def _leaf(nodes: Sequence[_Node | _Shown], parent: _Choice | None) -> _Leaf:
    """Return a text for parts without branches."""
    counts = parent is not None and parent.counts
    shown: list[_Shown] = []
    for is_literal, group in itertools.groupby(nodes, lambda node: isinstance(node, str)):
        if is_literal:
            shown += _shown_literal("".join(map(str, group)), counts)
        else:
            shown += [node if isinstance(node, _Shown) else _shown(node, parent) for node in group]
    text = "".join(part.text for part in shown)
    start, inner = len(text) - len(text.lstrip()), text.strip()
    meanings = {part.text: part.meaning for part in shown if part.is_token}
    leaf = _Leaf(counts, text[:start], inner, text[start + len(inner) :], meanings)
    ends = itertools.accumulate(len(part.text) for part in shown)
    expected = [
        (end - len(part.text), end) for part, end in zip(shown, ends, strict=True) if part.is_token
    ]
    if list(leaf.tokens(text)) != expected:  # such as quotes around quotes
        raise _CannotExpand
    return leaf


def _shown_literal(text: str, counts: bool) -> Iterator[_Shown]:
    for number, part in enumerate(_SYNTAX.split(text)):
        if number % 2 == 0:
            yield _Shown(part)
        elif counts or part[0] != "#":
            yield _Shown(f"'{part}'", True)
        else:
            yield from [_Shown("#", True)] * len(part)


def _shown(node: _Node, parent: _Choice | None) -> _Shown:
    source = _source(node, parent)
    return _Shown(source, True, source)


def _source(node: _Node, parent: _Choice | None) -> str:
    """Return how an argument or `#` is written inside the branches of another argument."""
    if isinstance(node, _Argument):
        return node.source
    assert isinstance(node, _Number)
    choice = node.choice
    if parent and parent.counts and (parent.name, parent.offset) == (choice.name, choice.offset):
        return "#"
    if choice.offset:
        raise _CannotExpand
    return f"{{{choice.name}, number}}"


def _quoted(text: str, counts: bool, doubled: bool) -> str:
    """Return literal text in the syntax of messages."""
    syntax = rf"\{{[^{{}}'\s]*\}}|[{'{}#' if counts else '{}'}]"
    plain = "'+" if doubled else r"''+|'\Z"

    def quote(match: re.Match[str]) -> str:
        escaped = match[0].replace("'", "''")
        return f"'{escaped}'" if match[1] else escaped

    return re.sub(rf"'*+({syntax})(?:{syntax}|')*|{plain}", quote, text)
