"""The prepared batches of a translation training, and a record of their preparation."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_transformer.data import (
    BatchReader,
    PairFilters,
    ParallelCorpus,
    SubwordSampling,
    count_overlaps,
    plan_batches,
    prepare_corpus,
)
from keras_transformer.data.corpus_preparation import SiftPairs
from keras_transformer.data.pair_filters import PairSieve
from keras_transformer.data.pair_sifting import sift as sift_here
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training.translation_data import TranslationData
from keras_transformer.translation_training.translation_settings import TranslationSettings

# Shapes of dev batches if each must be compiled.
_DEV_SHAPES = 4
# Added to the seed: sampling subwords and shuffling batches use different random numbers.
_SAMPLING_SEED = 1


@dataclasses.dataclass(frozen=True)
class TrainingBatches:
    """Batches to train and to validate on.

    Args:
        texts: the texts, with a dev text.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        train: reader of the training text.
        dev: reader of the dev text, every pair once an epoch.
        report: lines to print: known dev and test sentences, and the size of the vocabulary.
        record: training pairs, dropped pairs, and known dev and test sentences, for `scores.json`.
    """

    texts: TranslationData
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    train: BatchReader
    dev: BatchReader
    report: list[str]
    record: dict[str, Any]


def _length_filter(
    filters: PairFilters,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
) -> Callable[[str, str], bool]:
    """Return a function that tells whether a source and a target pass the length filters."""
    sieve = PairSieve(dataclasses.replace(filters, duplicates=False, copies=False))

    def fits(source: str, target: str) -> bool:
        lengths = [
            np.array([len(side.encode([text])[0])])
            for side, text in ((source_tokenizer, source), (tokenizer, target))
        ]
        return bool(sieve.keep([source], [target], *lengths)[0])

    return fits


def make_batches(
    settings: TranslationSettings,
    data: TranslationData,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
    *,
    sift: SiftPairs = sift_here,
) -> TrainingBatches:
    """Tokenize the texts, or reuse tokenized ones, filter them and plan their batches.

    Dev batches are as large as the part of a training step that one device holds at a time,
    because a single device may have to hold them.

    Args:
        settings: filters, sampling and size of the batches.
        data: the texts; without a dev text, some of the training pairs are held out.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        run: the training.
        sift: tokenizes and filters the training text, as in `data.prepare_corpus`.
    """
    filters = PairFilters(
        max_tokens=settings.max_tokens,
        max_ratio=settings.max_ratio,
        duplicates=settings.drop_duplicates,
        copies=settings.drop_copies,
    )
    held_out: list[str] = []
    if data.dev is None:
        fits = _length_filter(filters, source_tokenizer, tokenizer)
        data = data.with_dev(settings.held_out, settings.seed, fits)
        held_out = [
            f"No dev text given: {data.dev_text.num_pairs:,} training pairs are held out as one"
        ]
    sampling = None
    if settings.subword_sampling:
        sampling = SubwordSampling(
            tokenizer,
            source_tokenizer,
            alpha=settings.subword_sampling,
            seed=settings.seed + _SAMPLING_SEED,
        )
    prepare = functools.partial(
        prepare_corpus,
        tokenizer=tokenizer,
        cache_directory=run.prepared_path,
        source_tokenizer=source_tokenizer,
    )
    keep_text = sampling is not None
    corpora = [
        prepare(text, filters=filters, keep_text=keep_text, sift=sift) for text in data.train
    ]
    special_tokens = tokenizer.special_tokens
    plan = settings.plan_options()
    train = plan_batches(
        corpora, special_tokens, weights=data.weights, subword_sampling=sampling, **plan
    )
    dev_corpus = prepare(data.dev_text)
    dev = plan_batches(
        dev_corpus,
        special_tokens,
        shuffle=False,
        batch_tokens=dev_batch_tokens(train.plan.batch_tokens, run, dev_corpus),
        shapes=plan["shapes"] and _DEV_SHAPES,
        packing=plan["packing"],
    )
    known = {"dev": data.dev_text, **({"test": data.test} if data.test is not None else {})}
    counted = count_overlaps(itertools.chain(*data.train), known.values())
    overlaps = dict(zip(known, counted, strict=True))
    return TrainingBatches(
        texts=data,
        source_tokenizer=source_tokenizer,
        tokenizer=tokenizer,
        train=train,
        dev=dev,
        report=[
            *held_out,
            *(overlap.report(name) for name, overlap in overlaps.items()),
            f"{tokenizer.vocabulary_size:,} subwords",
        ],
        record={
            "training_pairs": sum(len(corpus) for corpus in corpora),
            "dropped_pairs": [
                {"text": text.name, **corpus.dropped}
                for text, corpus in zip(data.train, corpora, strict=True)
            ],
            "in_training_text": {
                name: dataclasses.asdict(overlap) for name, overlap in overlaps.items()
            },
        },
    )


def dev_batch_tokens(batch_tokens: int, run: TrainingRun, corpus: ParallelCorpus) -> int:
    """Tokens per side of a dev batch: what a device computes at once, at least the longest pair.

    Args:
        batch_tokens: tokens per side of a training batch.
        run: the training, with its devices and its parts of a step.
        corpus: the dev text.
    """
    parts = run.devices.replicas * run.accumulate
    longest = 1 + max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    return max(batch_tokens // parts, min(longest, batch_tokens))
