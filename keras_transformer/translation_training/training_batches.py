"""The prepared batches of a translation training, and what became of its text."""

import dataclasses
import itertools

import numpy as np

from keras_transformer.data import (
    BatchReader,
    PairFilters,
    SubwordSampling,
    count_overlaps,
    plan_batches,
    prepare_corpus,
)
from keras_transformer.data.pair_filters import PairSieve
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translation_training.translation_data import TranslationData

# Shapes of dev batches where each has to be compiled.
_DEV_SHAPES = 4
# Batches are sampled with other numbers than they are shuffled with.
_SAMPLING_SEED = 1


@dataclasses.dataclass(frozen=True)
class TrainingBatches:
    """Batches to train and to validate on.

    Args:
        texts: the `TranslationData`, with a dev text.
        source_tokenizer, tokenizer: of the source and of the target.
        train: `BatchReader` of the training text.
        dev: `BatchReader` of the dev text, every pair once an epoch.
        report: list of lines for people: pairs kept and dropped, and known test sentences.
        record: the same as a dictionary for `scores.json`.
    """

    texts: TranslationData
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    train: BatchReader
    dev: BatchReader
    report: list[str]
    record: dict


def _length_filter(settings, source_tokenizer, tokenizer):
    """Function of a source and a target: whether neither is too long, alone or for the other."""
    sieve = PairSieve(PairFilters(max_tokens=settings.max_tokens, max_ratio=settings.max_ratio))

    def fits(source, target):
        lengths = [
            np.array([len(side.encode([text])[0])])
            for side, text in ((source_tokenizer, source), (tokenizer, target))
        ]
        return bool(sieve.keep([source], [target], *lengths)[0])

    return fits


def make_batches(settings, data, source_tokenizer, tokenizer, run):
    """Tokenize the texts, or find them tokenized, filter them and plan their batches.

    Dev batches are as large as the part of a training step that one device holds at a time: a
    single one may have to hold them.

    Args:
        settings: `TranslationSettings`.
        data: `TranslationData`; without a dev text, some of its pairs are held out.
        source_tokenizer, tokenizer: of the source and of the target.
        run: the `training.TrainingRun`.

    Returns:
        `TrainingBatches`.
    """
    fits = _length_filter(settings, source_tokenizer, tokenizer)
    data = data.with_dev(settings.held_out, settings.seed, fits)
    filters = PairFilters(
        max_tokens=settings.max_tokens,
        max_ratio=settings.max_ratio,
        duplicates=settings.drop_duplicates,
        copies=settings.drop_copies,
    )
    sampling = None
    if settings.subword_sampling:
        sampling = SubwordSampling(
            tokenizer,
            source_tokenizer,
            alpha=settings.subword_sampling,
            seed=settings.seed + _SAMPLING_SEED,
        )

    def prepare(text, **options):
        return prepare_corpus(
            text, tokenizer, run.prepared_path, source_tokenizer=source_tokenizer, **options
        )

    corpora = [
        prepare(text, filters=filters, keep_text=sampling is not None) for text in data.train
    ]
    special_tokens = tokenizer.special_tokens
    plan = settings.plan_options()
    train = plan_batches(
        corpora,
        special_tokens,
        weights=data.weights,
        subword_sampling=sampling,
        **plan,
    )
    dev_corpus = prepare(data.dev)
    parts = run.devices.replicas * run.accumulate
    dev = plan_batches(
        dev_corpus,
        special_tokens,
        shuffle=False,
        batch_tokens=_dev_tokens(settings.batch_tokens, parts, dev_corpus),
        shapes=plan["shapes"] and _DEV_SHAPES,
    )
    known = {"dev": data.dev} if data.test is None else {"dev": data.dev, "test": data.test}
    counted = count_overlaps(itertools.chain(*data.train), known.values())
    overlaps = dict(zip(known, counted, strict=True))
    return TrainingBatches(
        texts=data,
        source_tokenizer=source_tokenizer,
        tokenizer=tokenizer,
        train=train,
        dev=dev,
        report=[
            *(
                f"{text.name}: {corpus.report()}"
                for text, corpus in zip(data.train, corpora, strict=True)
            ),
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


def _dev_tokens(batch_tokens, parts, corpus):
    """Tokens a side of a dev batch: a part of a training batch, but at least the longest pair."""
    longest = 1 + max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    return max(batch_tokens // parts, min(longest, batch_tokens))
