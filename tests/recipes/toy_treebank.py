"""Trees of a toy grammar, which a small model learns in seconds."""

import gzip
import random

from keras_transformer.parsing import linearize, rebuild

NOUNS = ["dog", "cat", "house", "tree", "man", "garden"]
NEW_NOUNS = ["elephant", "rüsselkäfer", "日本"]


def toy_trees(number, nouns, seed):
    """Trees of a small grammar: `of` belongs to the noun before it, `with` to the verb."""
    draw = random.Random(seed).choice

    def noun_phrase(deep=True):
        plain = f"(NP (DT {draw(['the', 'a'])}) (NN {draw(nouns)}))"
        if draw([True, False]):
            plain = f"(NP (DT the) (ADJP (RB very) (JJ {draw(['big', 'old'])})) (NN {draw(nouns)}))"
        if deep and draw([True, False]):
            return f"(NP {plain} (PP (IN of) {noun_phrase(deep=False)}))"
        return plain

    def verb_phrase():
        parts = [f"(VBZ {draw(['sees', 'likes', 'finds'])})", noun_phrase()]
        if draw([True, False]):
            parts.append(f"(PP (IN with) {noun_phrase()})")
        return f"(VP {' '.join(parts)})"

    return [f"(S {noun_phrase()} {verb_phrase()} (. .))" for _ in range(number)]


def write_treebank(folder):
    """A folder as the recipe wants it, the training trees compressed and in the treebank's form."""
    folder.mkdir()
    train = [f"( {tree} )".replace("(NP ", "(NP-SBJ-1 ", 1) for tree in toy_trees(400, NOUNS, 1)]
    (folder / "train.mrg.gz").write_bytes(gzip.compress("\n".join(train).encode()))
    dev = "\n".join(toy_trees(30, NOUNS + NEW_NOUNS, 2))
    (folder / "dev.mrg").write_text(dev, encoding="utf-8")
    return folder


def with_tags(tree, tags):
    """The tree with other tags."""
    return rebuild(linearize(tree), tree.words(), tags)
