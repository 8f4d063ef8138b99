"""The parser's results on the dev set: trees, EVALB scores and the number of repairs.

Only this module uses the tags of the gold trees. They are copied into the parser's trees because
EVALB recognizes punctuation by its tag.
"""

import dataclasses
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, cast

import keras

from keras_transformer import Parse, Parser, RunDirectory
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.evaluation import score_record
from keras_transformer.files import say, write_text
from keras_transformer.parsing import Tree, evalb, linearize, rebuild
from keras_transformer.training import TrainingRun, training_cost
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.tree_data import TreeData

TREES = GOLD, PARSED, REPAIRED = "dev.gold.mrg", "dev.parsed.mrg", "dev.repaired.mrg"
EXAMPLES, EXAMPLE_WORDS = 3, 12


@dataclasses.dataclass(frozen=True)
class DevScores:
    """The quality of a parser's trees for a dev set.

    Args:
        trees: one tree per sentence, with the gold tags.
        evalb: scores against the gold trees.
        flat_trees: number of sentences without a tree, for which a flat tree is used.
        repaired: number of sentences whose tree needed repairs.
        repairs: total number of repairs.
        seconds: time to parse the set.
    """

    trees: list[Tree]
    evalb: evalb.EvalbResult
    flat_trees: int
    repaired: int
    repairs: int
    seconds: float

    @property
    def well_formed(self) -> float:
        """The share of sentences whose output was a valid tree without repairs."""
        return 1 - (self.flat_trees + self.repaired) / len(self.trees)

    def as_dict(self) -> dict[str, Any]:
        """Return the section of `scores.json` about these trees."""
        return {
            "evalb": self.evalb.as_dict(),
            "well_formed": self.well_formed,
            "repaired_sentences": self.repaired,
            "repairs": self.repairs,
            "flat_trees": self.flat_trees,
            "parsing_seconds": self.seconds,
        }


def with_gold_tags(tree: Tree, gold: Tree) -> Tree:
    """Return a parser's tree with the tags of the gold tree.

    Example:
        >>> gold = Tree.fromstring("(S (NP (PRP it)) (VP (VBZ rains)))")
        >>> print(with_gold_tags(Tree.fromstring("(S (XX it) (VP (XX rains)))"), gold))
        (S (PRP it) (VP (VBZ rains)))
    """
    return rebuild(linearize(tree), gold.words(), gold.tags())


def score_parses(parses: Sequence[Parse], gold: Sequence[Tree], seconds: float = 0.0) -> DevScores:
    """Score a parser's output.

    A sentence without a usable tree is scored with the parser's flat tree, because dropping it
    would raise the score.

    Args:
        parses: parses in the order of `gold`. A score of -inf means that no tree was found.
        gold: the gold trees.
        seconds: time to parse.
    """
    found = [math.isfinite(parse.score) for parse in parses]
    trees = [
        with_gold_tags(cast(Tree, parse.tree), tree)  # None only for sentences without words
        for parse, tree in zip(parses, gold, strict=True)
    ]
    repairs = [parse.repairs for parse, usable in zip(parses, found, strict=True) if usable]
    return DevScores(
        trees=trees,
        evalb=evalb.evaluate(gold, trees),
        flat_trees=found.count(False),
        repaired=sum(number > 0 for number in repairs),
        repairs=sum(repairs),
        seconds=seconds,
    )


def parse_dev(
    run: RunDirectory, gold: Sequence[Tree], settings: ParsingSettings, *, constrained: bool
) -> DevScores:
    """Parse the words of the gold trees with a run, and score the result.

    Args:
        run: the parser's run.
        gold: the gold trees.
        settings: settings for decoding.
        constrained: whether to search only among well-formed trees; otherwise, the output of an
            unconstrained search is repaired.
    """
    parser = Parser.load(run.path, constrained=constrained, **settings.search_options())
    start = time.monotonic()
    parses = parser.parse_with_scores([tree.words() for tree in gold], sys.stderr.isatty())
    return score_parses(parses, gold, time.monotonic() - start)


def check_dev_set(data: TreeData, model: keras.Model, settings: ParsingSettings) -> None:
    """Before training, refuse a dev set that `report` cannot parse.

    Args:
        data: the gold trees and the tokenizers.
        model: the model to train.
        settings: settings for decoding.

    Raises:
        UserInputError: a sentence has too many tokens.
    """
    parser = Parser(model, data.tokenizer, data.source_tokenizer, **settings.search_options())
    try:
        parser.check_lengths([tree.words() for tree in data.gold])
    except SentenceTooLong as error:
        raise UserInputError(f"Tree {error.index + 1} of the dev set {error.fault}") from error


def report(
    run: TrainingRun, gold: Sequence[Tree], settings: ParsingSettings, **results: Any
) -> None:
    """Parse the dev set in both ways, write `scores.json` and the trees, and print the scores.

    Args:
        run: the completed training run.
        gold: the gold trees of the dev set.
        settings: settings for decoding.
        **results: additional results for `scores.json`.
    """
    directory = run.directory
    say(f"Parsing {len(gold):,} sentences, first only among trees, then without constraints")
    parsed = parse_dev(directory, gold, settings, constrained=True)
    repaired = parse_dev(directory, gold, settings, constrained=False)
    for name, trees in ((GOLD, gold), (PARSED, parsed.trees), (REPAIRED, repaired.trees)):
        write_text(directory.path / name, "".join(f"{tree}\n" for tree in trees))
    content = score_record(
        sentences=len(gold),
        **parsed.as_dict(),
        repair=repaired.as_dict(),
        **results,
        settings=run.settings,
        steps=run.record.steps,
        step_seconds=run.record.step_seconds,
        flop_utilisation=run.record.flop_utilisation,
        training_cost=training_cost(run.record, run.speed),
        seconds=run.record.seconds,
        target_tokens_per_second=run.record.target_tokens_per_second,
        command=run.command,
    )
    directory.checksums.write_json(directory.scores_path, content)
    say(f"\n{_table(parsed, repaired)}\n")
    for tree, right in _examples(parsed.trees, gold):
        say(f"{tree}\n  (gold: {'the same' if tree == right else right})")
    say(f"""
All trees: {directory.path / PARSED}
Try next:
  echo "The dog barks ." | keras-transformer parse {directory.path} --pretty
  keras-transformer evalb {directory.path / GOLD} {directory.path / PARSED}
""")
    say(directory.path)


def _table(parsed: DevScores, repaired: DevScores) -> str:
    """Show both searches' scores side by side, with the numbers of repaired and flat trees."""
    lines = [
        f"dev set, {len(parsed.trees):,} sentences     F1  recall  precision  complete  F1 <= 40"
    ]
    for name, scores in (("only among trees", parsed), ("free, then repaired", repaired)):
        whole, short = scores.evalb.all, scores.evalb.short
        lines.append(
            f"  {name:22} {whole.f1:8.2f} {whole.recall:7.2f} {whole.precision:10.2f} "
            f"{whole.complete_match:9.2f} {short.f1:9.2f}"
        )
    for name, scores in (("Only among trees", parsed), ("Free search", repaired)):
        lines.append(
            f"{name}: {scores.well_formed:.1%} well-formed, {scores.repaired:,} sentences repaired "
            f"({scores.repairs:,} repairs), {scores.flat_trees:,} without a tree, counted as flat"
        )
    return "\n".join(lines)


def _examples(trees: Sequence[Tree], gold: Sequence[Tree]) -> list[tuple[Tree, Tree]]:
    """Return the first pairs with short sentences."""
    pairs = zip(trees, gold, strict=True)
    return [pair for pair in pairs if len(pair[1].words()) <= EXAMPLE_WORDS][:EXAMPLES]
