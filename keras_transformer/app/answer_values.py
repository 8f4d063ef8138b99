"""Results of translators and parsers as the JSON interface gives them."""

import math
from collections.abc import Sequence

from keras_transformer.app import schemas
from keras_transformer.inference.alignment import Alignment
from keras_transformer.inference.parser import Parse
from keras_transformer.parsing import Leaf, Tree
from keras_transformer.parsing.tree import CLOSE, walk


def translations(found: Sequence[tuple[str, float]]) -> list[schemas.Translation]:
    """The n best translations of a sentence."""
    return [schemas.Translation(text=text, score=score) for text, score in found]


def sentence_tree(parse: Parse) -> schemas.SentenceTree:
    """The tree of a sentence, in brackets and phrase by phrase.

    Example:
        >>> found = sentence_tree(Parse(Tree.fromstring("(S (NP (XX It)) (XX .))"), -0.5, 0))
        >>> found.tree
        '(S (NP (XX It)) (XX .))'
        >>> [(node.parent, node.label, node.word) for node in found.nodes]
        [(None, 'S', None), (0, 'NP', None), (1, 'XX', 'It'), (0, 'XX', '.')]
    """
    score = parse.score if math.isfinite(parse.score) else None
    tree = "" if parse.tree is None else str(parse.tree)
    return schemas.SentenceTree(tree=tree, nodes=_nodes(parse.tree), score=score)


def _nodes(tree: Tree | None) -> list[schemas.TreeNode]:
    nodes: list[schemas.TreeNode] = []
    inside: list[int] = []  # the phrases that are open
    for event in () if tree is None else walk(tree):
        if event is CLOSE:
            inside.pop()
            continue
        parent = inside[-1] if inside else None
        if isinstance(event, Leaf):
            nodes.append(schemas.TreeNode(parent=parent, label=event.tag, word=event.word))
        else:
            inside.append(len(nodes))
            nodes.append(schemas.TreeNode(parent=parent, label=event.label, word=None))
    return nodes


def word_alignment(alignment: Alignment, source: str, target: str) -> schemas.WordAlignment:
    """The aligned words, spelled as in the texts where the tokenizer has the same number of them.

    Example:
        >>> import numpy as np
        >>> weights = np.array([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
        >>> alignment = Alignment(["▁ja", "▁nein", "</s>"], ["▁no", "▁yes"], weights)
        >>> found = word_alignment(alignment, "Ja  nein", "no yes")
        >>> found.source_words, found.pairs
        (['Ja', 'nein'], [(0, 1), (1, 0)])
    """
    source_words, target_words = alignment.words()
    return schemas.WordAlignment(
        source_words=_spelled(source_words, source),
        target_words=_spelled(target_words, target),
        pairs=alignment.word_pairs(),
    )


def _spelled(words: Sequence[str], text: str) -> list[str]:
    """The words of a text, with the tag of a language in front if the pieces have one."""
    spelled = text.split()
    tags = [word for word in words[:1] if word.startswith(">>") and spelled[:1] != [word]]
    return [*tags, *spelled] if len(words) == len(tags) + len(spelled) else list(words)
