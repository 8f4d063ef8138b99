"""Any sequence of tokens becomes a tree over exactly the given words."""

from keras_transformer.parsing.bracket_matching import match_brackets
from keras_transformer.parsing.leaf import is_symbol, shown
from keras_transformer.parsing.linearization import (
    LEAF_TOKEN,
    build,
    make_leaves,
    token_list,
)


def repair(tokens, words, tags=None, root="S"):
    """Make a tree over exactly the given words of any sequence of tokens.

    A sequence that `rebuild` takes gives the same tree, without a repair. Else these steps are
    taken one after another; each token that is added, dropped, moved or given another label is one
    repair, and so is each phrase without a word that is taken out:

    1. What is no token of a tree is dropped, and brackets are made to match with the fewest
       changes that a beam search finds.
    2. Too many or too few `XX`. If phrases were open at the sequence's end, it was broken off:
       words are dropped from the end, or added to the innermost open phrase, the last word to the
       outermost, as it is most often the sentence's full stop. A sequence that ended was
       miscounted somewhere: words are added and dropped in the middle, where the brackets on both
       sides keep most of their words.
    3. Phrases without a word are taken out.
    4. A single tree takes words beside it in as its own; several trees, or words alone, become a
       tree with the label `root`.

    Args:
        tokens: sequence of any objects, such as a model's output.
        words: sequence of strings, at least one.
        tags: part-of-speech tags, one for each word. By default each tag is `XX`.
        root: label of a tree over several trees, or over words alone: most trees of the Penn
            Treebank are sentences, `"S"`.

    Returns:
        `(tree, repairs)`: a `Tree` with `tree.words() == list(words)`, and the number of repairs.

    Raises:
        ValueError: there is no word, tags do not fit, `root` can be no label, or a string stands
            for a sequence.

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
    tokens, removed = _without_empty(_with_leaves(matched, len(leaves)))
    tokens, joined = _with_one_root(tokens, root)
    return build(tokens, leaves), matched.repairs + miscounted + removed + joined


def _with_leaves(matched, count):
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
    dropped = set()
    if not matched.unclosed:
        dropped.update(_surplus_in_runs(tokens, excess))
    leaves = [place for place, token in enumerate(tokens) if token == LEAF_TOKEN]
    leaves = [place for place in leaves if place not in dropped]
    dropped.update(leaves[count:])
    return [token for place, token in enumerate(tokens) if place not in dropped]


def _middle(tokens):
    """Where to put words: after the middle `XX`; without one, in the first phrase if there is."""
    leaves = [place for place, token in enumerate(tokens, start=1) if token == LEAF_TOKEN]
    if leaves:
        return leaves[(len(leaves) - 1) // 2]
    return min(len(tokens), 1)


def _surplus_in_runs(tokens, excess):
    """Up to `excess` places of `XX` beside another `XX`, near the middle: no phrase gets empty."""
    places = [place for place, token in enumerate(tokens) if token == LEAF_TOKEN]
    doubled = [place for place in places if place and tokens[place - 1] == LEAF_TOKEN]
    middle = places[len(places) // 2] if places else 0
    return sorted(doubled, key=lambda place: abs(place - middle))[:excess]


def _without_empty(tokens):
    """The tokens without the brackets of phrases that hold no word, and how many these were."""
    kept, opened = [], []  # where in `kept` the open phrases begin
    removed = words = 0
    held = []  # number of words before the phrase began
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


def _with_one_root(tokens, root):
    """The tokens of one tree, and whether something was changed for it."""
    depth, trees, top_level = 0, [], 0
    for place, token in enumerate(tokens):
        top_level += depth == 0
        if token[0] == "(":
            if depth == 0:
                trees.append(place)
            depth += 1
        elif token[0] == ")":
            depth -= 1
            if depth == 0:
                trees[-1] = (trees[-1], place)
    if top_level == 1 and trees:
        return tokens, 0
    if len(trees) != 1:
        return [f"({root}", *tokens, f"){root}"], 1
    ((begin, end),) = trees
    inside = tokens[:begin] + tokens[begin + 1 : end] + tokens[end + 1 :]
    return [tokens[begin], *inside, tokens[end]], 1
