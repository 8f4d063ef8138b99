"""What the trained parser finds on the dev set: trees, EVALB's figures, and how many are repaired.

The gold trees' tags come into play here alone: they are put into the parser's trees because EVALB
tells punctuation by its tag.
"""

import dataclasses
import math
import sys
import time

from keras_transformer import Parser
from keras_transformer.evaluation import score_record
from keras_transformer.files import write_text
from keras_transformer.parsing import evalb, linearize, rebuild
from keras_transformer.training import training_cost

GOLD, PARSED, REPAIRED = "dev.gold.mrg", "dev.parsed.mrg", "dev.repaired.mrg"
EXAMPLES, EXAMPLE_WORDS = 3, 12


@dataclasses.dataclass(frozen=True)
class DevScores:
    """How good the trees of a dev set are.

    Args:
        trees: list of `Tree` with the gold tags, one a sentence.
        evalb: the `EvalbResult` against the gold trees.
        flat_trees: number of sentences for which there was no tree and a flat one stands.
        repaired: number of sentences whose tree was made by repairs.
        repairs: number of these repairs.
        seconds: how long it took to parse the set.
    """

    trees: list
    evalb: evalb.EvalbResult
    flat_trees: int
    repaired: int
    repairs: int
    seconds: float

    @property
    def well_formed(self):
        """Share of the sentences whose output was a tree over their words as it stood."""
        return 1 - (self.flat_trees + self.repaired) / len(self.trees)

    def as_dict(self):
        """What `scores.json` holds of it."""
        return {
            "evalb": self.evalb.as_dict(),
            "well_formed": self.well_formed,
            "repaired_sentences": self.repaired,
            "repairs": self.repairs,
            "flat_trees": self.flat_trees,
            "parsing_seconds": self.seconds,
        }


def with_gold_tags(tree, gold):
    """A parser's tree with the tags of the gold tree in place of its own.

    Example:
        >>> gold = Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")
        >>> print(with_gold_tags(Tree.fromstring("(S (XX it) (VP (XX rains)))"), gold))
        (S (PRP it) (VP (VBZ rains)))
    """
    return rebuild(linearize(tree), gold.words(), gold.tags())


def score_parses(parses, gold, seconds=0.0):
    """Score a parser's output.

    A sentence without a usable tree counts as the flat one that the parser gives for it: dropping
    it would raise the score.

    Args:
        parses: list of `Parse`, in the order of `gold`. One whose score is -inf has no tree.
        gold: list of `Tree`.
        seconds: how long it took to parse.

    Returns:
        A `DevScores`.
    """
    found = [math.isfinite(parse.score) for parse in parses]
    trees = [with_gold_tags(parse.tree, tree) for parse, tree in zip(parses, gold, strict=True)]
    repairs = [parse.repairs for parse, usable in zip(parses, found, strict=True) if usable]
    return DevScores(
        trees=trees,
        evalb=evalb.evaluate(gold, trees),
        flat_trees=found.count(False),
        repaired=sum(number > 0 for number in repairs),
        repairs=sum(repairs),
        seconds=seconds,
    )


def parse_dev(run, gold, settings, *, constrained):
    """Parse the words of the gold trees with a run, and score what comes.

    Args:
        run: the `RunDirectory`.
        gold: list of `Tree`.
        settings: `ParsingSettings`: those of the search.
        constrained: whether to search among well-formed trees alone; else what is no tree is
            repaired.

    Returns:
        A `DevScores`.
    """
    parser = Parser.load(run.path, constrained=constrained, **settings.search_options())
    start = time.monotonic()
    parses = parser.parse_with_scores([tree.words() for tree in gold], sys.stderr.isatty())
    return score_parses(parses, gold, time.monotonic() - start)


def remove_parses(run):
    """Remove the trees that an older run left in the directory."""
    for name in (GOLD, PARSED, REPAIRED):
        (run.path / name).unlink(missing_ok=True)


def report(run, gold, settings, **results):
    """Parse the dev set in both ways; write `scores.json` and the trees, and print the figures.

    Args:
        run: the `training.TrainingRun`.
        gold: list of `Tree`, the dev set.
        settings: `ParsingSettings`.
        **results: what `scores.json` holds besides.
    """
    directory = run.directory
    print(f"Parsing {len(gold):,} sentences, among trees alone and then freely", flush=True)
    parsed = parse_dev(directory, gold, settings, constrained=True)
    repaired = parse_dev(directory, gold, settings, constrained=False)
    for name, trees in ((GOLD, gold), (PARSED, parsed.trees), (REPAIRED, repaired.trees)):
        write_text(directory.path / name, "".join(f"{tree}\n" for tree in trees))
    content = score_record(
        sentences=len(gold),
        **parsed.as_dict(),
        repair=repaired.as_dict(),
        **results,
        settings=settings.to_dict(),
        steps=run.record.steps,
        step_seconds=run.record.step_seconds,
        flop_utilisation=run.record.flop_utilisation,
        training_cost=training_cost(run.record, run.speed),
        seconds=run.record.seconds,
        target_tokens_per_second=run.record.target_tokens_per_second,
        command=run.command,
    )
    directory.checksums.write_json(directory.scores_path, content)
    print(f"\n{_table(parsed, repaired)}\n")
    for tree, right in _examples(parsed.trees, gold):
        print(f"{tree}\n  (gold: {'the same' if tree == right else right})")
    print(f"""
All trees: {directory.path / PARSED}
Next, try
  echo "The dog barks ." | keras-transformer parse {directory.path} --pretty
  keras-transformer evalb {directory.path / GOLD} {directory.path / PARSED}
""")
    print(directory.path)


def _table(parsed, repaired):
    """The figures of both searches side by side, and how many trees are none of the search's."""
    lines = [
        f"dev set, {len(parsed.trees):,} sentences     F1  recall  precision  complete  F1 <= 40"
    ]
    for name, scores in (("among trees alone", parsed), ("free, then repaired", repaired)):
        whole, short = scores.evalb.all, scores.evalb.short
        lines.append(
            f"  {name:22} {whole.f1:8.2f} {whole.recall:7.2f} {whole.precision:10.2f} "
            f"{whole.complete_match:9.2f} {short.f1:9.2f}"
        )
    for name, scores in (("Among trees alone", parsed), ("Free search", repaired)):
        lines.append(
            f"{name}: {scores.well_formed:.1%} well-formed, {scores.repaired:,} sentences repaired "
            f"({scores.repairs:,} repairs), {scores.flat_trees:,} without a tree that count as flat"
        )
    return "\n".join(lines)


def _examples(trees, gold):
    """The first pairs of short sentences."""
    pairs = zip(trees, gold, strict=True)
    return [pair for pair in pairs if len(pair[1].words()) <= EXAMPLE_WORDS][:EXAMPLES]
