"""Vocabularies and batches from treebanks."""

import dataclasses

from keras_transformer.data import (
    BatchReader,
    ParallelText,
    SubwordSampling,
    plan_batches,
    prepare_corpus,
)
from keras_transformer.parsing import Tree, TreeTokenizer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training import dev_batch_tokens
from recipes.wsj_parsing.phrase_swaps import SwappedPhrases
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.treebank import TreePairs, unknown_labels


@dataclasses.dataclass(frozen=True)
class TreeData:
    """The training and dev data of a parser.

    Args:
        source_tokenizer: tokenizer for words.
        tokenizer: tokenizer for trees.
        train, dev: readers for the batches.
        gold: the gold trees of the dev set.
        num_trees: `(name, number of trees)` of each text; the dev set is last.
    """

    source_tokenizer: SentencePieceTokenizer
    tokenizer: TreeTokenizer
    train: BatchReader
    dev: BatchReader
    gold: list[Tree]
    num_trees: list[tuple[str, int]]

    @property
    def training_trees(self) -> int:
        """The number of training trees, including trees with swapped phrases."""
        return sum(number for _, number in self.num_trees[:-1])

    def __str__(self) -> str:
        *parts, dev = (f"{name}: {number:,} trees" for name, number in self.num_trees)
        lines = [
            *parts,
            f"{dev} to score",
            f"{self.source_tokenizer.vocabulary_size:,} subwords of words, "
            f"{self.tokenizer.vocabulary_size:,} tokens of trees",
        ]
        if unknown := unknown_labels(self.gold, self.tokenizer):
            lines.append(f"No training tree has {', '.join(unknown)}: the parser never predicts it")
        return "\n".join(lines)


def make_batches(
    train_texts: list[TreePairs],
    dev_text: TreePairs,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: TreeTokenizer,
    settings: ParsingSettings,
    run: TrainingRun,
) -> TreeData:
    """Tokenize the treebanks, or reuse tokenized treebanks, and plan the batches.

    Args:
        train_texts: training treebanks. Phrases are swapped only in the first one.
        dev_text: the dev treebank.
        source_tokenizer, tokenizer: tokenizers for words and trees.
        settings: settings for phrase swaps, subword sampling and batch size.
        run: the training run.
    """
    sampling = None
    if settings.subword_sampling:
        sampling = SubwordSampling(
            tokenizer,
            source_tokenizer,
            alpha=settings.subword_sampling,
            seed=settings.seed + 1,  # different random numbers than for the batch order
        )
    texts: list[ParallelText] = [*train_texts, dev_text]
    if settings.phrase_swaps:
        swaps = SwappedPhrases(train_texts[0], settings.phrase_swaps, settings.seed + 2)
        texts.insert(1, swaps)
    corpora = [
        prepare_corpus(
            text,
            tokenizer,
            run.prepared_path,
            source_tokenizer=source_tokenizer,
            keep_text=sampling is not None,
        )
        for text in texts
    ]
    plan, special = settings.plan_options(), tokenizer.special_tokens
    dev = dev_batch_tokens(plan["batch_tokens"], run, corpora[-1])
    return TreeData(
        source_tokenizer,
        tokenizer,
        train=plan_batches(corpora[:-1], special, subword_sampling=sampling, **plan),
        dev=plan_batches(corpora[-1], special, shuffle=False, **{**plan, "batch_tokens": dev}),
        gold=list(dev_text.trees()),
        num_trees=[(text.name, len(trees)) for text, trees in zip(texts, corpora, strict=True)],
    )
