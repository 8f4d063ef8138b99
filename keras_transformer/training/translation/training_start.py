"""Preparation for training a translation model: tokenizers, model, batches and validators."""

import dataclasses
import functools
import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer import models
from keras_transformer.data import (
    BatchReader,
    InlineNoise,
    InlineTerms,
    PairFilters,
    ParallelCorpus,
    ParallelText,
    SubwordSampling,
    WordLinks,
    count_overlaps,
    plan_batches,
    prepare_corpus,
)
from keras_transformer.data.corpus_preparation import SiftPairs
from keras_transformer.data.corpus_preparation import sift as sift_here
from keras_transformer.data.pair_filters import apply_filters
from keras_transformer.errors import LongSentenceWarning, reject
from keras_transformer.evaluation.scores import bleu_metric, check_language
from keras_transformer.inference.translator import Translator
from keras_transformer.text import Glossary, SentencePieceTokenizer, sample_lines
from keras_transformer.text.glossary import TermTags
from keras_transformer.training import BleuValidation, Devices, TrainingRun
from keras_transformer.training.translation.data import TranslationData
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.training.translation.word_aligner import (
    compute_links,
    links_from_files,
)

# Maximum number of dev batch shapes if each shape must be compiled.
_DEV_SHAPES = 4
# Added to the seed, to use different random numbers for sampling subwords and shuffling batches.
_SAMPLING_SEED = 1
_NOISE_SEED = 2  # for the first text
_TERMS_SEED = 1 << 16  # for the first text


@dataclasses.dataclass(frozen=True)
class TrainingBatches:
    """Batches for training and validation.

    Args:
        texts: the texts, with a dev text.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        train: reader of the training text.
        dev: reader of the dev text, which reads each pair once per epoch.
        report: lines to print about dev and test sentences found in the training text, unusual
            lengths, and the vocabulary size.
        record: training pairs, dropped pairs, and dev and test overlap, for `scores.json`.
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
    """Return a function that checks whether a source and a target pass the length filters."""
    by_length = dataclasses.replace(filters, copies=False)

    def fits(source: str, target: str) -> bool:
        lengths = [
            [len(side.encode([text])[0])]
            for side, text in ((source_tokenizer, source), (tokenizer, target))
        ]
        (keep,), _ = apply_filters(by_length, [source], [target], np.array(lengths))
        return bool(keep)

    return fits


_SAMPLED = 10_000  # number of lengths, or pairs of lengths, to compare
_FIRST = 100_000  # number of sentences to read from a text that may be sorted
_FEWEST = 1000  # minimum number of sentences to detect sorting
_SORTED = 0.9  # minimum rank correlation of position and length
_NEARLY_ALL = 0.99  # share of the training text
_MANY = 0.2  # share of the dev or test text


def is_sorted_by_length(sentences: Iterable[str]) -> bool:
    """Return whether the first sentences of a text get longer or shorter, in characters or words.

    The test uses gamma, a rank correlation of position and length that ignores equal lengths.

    Example:
        >>> sentences = [int(n) * "a " for n in np.random.default_rng(0).integers(1, 50, 2000)]
        >>> is_sorted_by_length(sentences), is_sorted_by_length(sorted(sentences, reverse=True))
        (False, True)

    Reference:
        Goodman and Kruskal, "Measures of Association for Cross Classifications", 1954.
    """
    first = list(itertools.islice(sentences, _FIRST))
    if len(first) < _FEWEST:
        return False
    lengths = np.array([(len(sentence), len(sentence.split())) for sentence in first])
    pairs = np.random.default_rng(1).integers(len(lengths), size=(2, _SAMPLED))
    earlier, later = np.sort(pairs, axis=0)
    signs = np.sign(lengths[later] - lengths[earlier])  # (_SAMPLED, 2)
    unequal = np.maximum(1, np.count_nonzero(signs, axis=0))
    return bool(np.any(np.abs(signs.sum(axis=0)) >= _SORTED * unequal))


def _length_warnings(
    train: Sequence[tuple[ParallelText, ParallelCorpus]],
    scored: Mapping[str, np.ndarray],
) -> list[str]:
    """Return warnings about training text that lacks certain sentence lengths.

    Args:
        train: the training texts and their tokens.
        scored: lengths of the sources in the dev and test texts.
    """
    sorted_texts = [
        f"warning: {text.name} is sorted by length. Training shuffles it, but if this file is part "
        "of a text, draw the lines at random. Score on text with sentences of all lengths"
        for text, _ in train
        if is_sorted_by_length(source for source, _ in text)
    ]
    total = sum(len(corpus) for _, corpus in train)
    lengths = np.concatenate([_spread(corpus, total) for _, corpus in train])
    usual = np.quantile(lengths, _NEARLY_ALL) if len(lengths) else np.inf
    shares = {name: np.mean(each > usual) for name, each in scored.items() if len(each)}
    return sorted_texts + [
        f"warning: {share:.0%} of the {name} sentences are longer than {_NEARLY_ALL:.0%} of the "
        "training text. Models translate lengths missing from training poorly: add longer text"
        for name, share in shares.items()
        if share > _MANY
    ]


def _spread(corpus: ParallelCorpus, total: int) -> np.ndarray:
    """Sample source lengths evenly across a corpus, at the rate `_SAMPLED` / `total` pairs."""
    stride = max(1, -(-total // _SAMPLED))
    return corpus.source_offsets[1::stride] - corpus.source_offsets[:-1:stride]


def make_batches(
    settings: TranslationSettings,
    data: TranslationData,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
    *,
    sift: SiftPairs = sift_here,
) -> TrainingBatches:
    """Tokenize the texts, or reuse tokenized texts, filter the pairs and plan batches.

    A dev batch is only as large as the part of a training batch that one device processes at a
    time, because a single device may have to process the entire dev batch.

    Args:
        settings: filters, sampling and batch size.
        data: the texts. Without a dev text, some training pairs are held out.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        run: the training run.
        sift: tokenizes and filters the training text, as in `data.prepare_corpus`.
    """
    filters = PairFilters(
        max_tokens=settings.max_tokens,
        max_ratio=settings.max_ratio,
        duplicates=settings.drop_duplicates,
        copies=settings.drop_copies,
    )
    held_out: list[str] = []
    first_text = data.train[0]
    if data.dev is None:
        fits = _length_filter(filters, source_tokenizer, tokenizer)
        data = data.with_dev(settings.held_out, settings.seed, fits)
        held_out = [f"No dev text given: holding out {data.dev_text.num_pairs:,} training pairs"]
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
    texts = _changed_texts(settings, data, source_tokenizer)
    corpora = [prepare(text, filters=filters, keep_text=keep_text, sift=sift) for text in texts]
    special_tokens = tokenizer.special_tokens
    plan, sides = settings.plan_options(), (source_tokenizer, tokenizer)
    links = dev_links = None
    if settings.aligns:
        dev_links = WordLinks([None], *sides, by_spaces=True)
        if data.alignments is None:
            links = compute_links(corpora, *sides, run.prepared_path)
        else:
            links = links_from_files(data.alignments, first_text, corpora, *sides)
    train = plan_batches(
        corpora,
        special_tokens,
        weights=data.weights,
        subword_sampling=sampling,
        links=links,
        **plan,
    )
    dev_corpus = prepare(data.dev_text)
    dev = plan_batches(
        dev_corpus,
        special_tokens,
        shuffle=False,
        batch_tokens=dev_batch_tokens(train.plan.batch_tokens, run, dev_corpus),
        shapes=plan["shapes"] and _DEV_SHAPES,
        packing=plan["packing"],
        links=dev_links,
    )
    scored = {"dev": dev_corpus.source_lengths}
    if data.test is not None:
        rows = source_tokenizer.encode([source for source, _ in data.test])
        scored["test"] = np.array(list(map(len, rows)))
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
            *(
                overlap.report(name) + (", which raises the score" if overlap.sources else "")
                for name, overlap in overlaps.items()
            ),
            *_length_warnings(list(zip(data.train, corpora, strict=True)), scored),
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


def _changed_texts(
    settings: TranslationSettings, data: TranslationData, source_tokenizer: SentencePieceTokenizer
) -> list[ParallelText]:
    """Return the training texts, with terms and noise as the settings specify."""
    for name in ("glossary_tags", "inline_noise"):
        if data.alignments is not None and getattr(settings, name):
            fault = f"`{name}` needs computed alignments: those of a file are of other words"
            reject(fault, **{name: getattr(settings, name)})
    texts = data.train
    if settings.glossary_tags is not None:
        TermTags(source_tokenizer)  # checks that the vocabulary has the tags
        terms = Glossary.load(settings.glossary_tags)
        share, seed = settings.glossary_tags_share, settings.seed + _TERMS_SEED
        texts = [InlineTerms(text, terms, share, seed + i) for i, text in enumerate(texts)]
    if settings.inline_noise:
        seed = settings.seed + _NOISE_SEED
        texts = [InlineNoise(text, settings.inline_noise, seed + i) for i, text in enumerate(texts)]
    return texts


def dev_batch_tokens(batch_tokens: int, run: TrainingRun, corpus: ParallelCorpus) -> int:
    """Return the tokens per side of a dev batch: a device's share, or more for long pairs.

    Args:
        batch_tokens: tokens per side of a training batch.
        run: the training run, with its devices and number of parts per step.
        corpus: the dev text.
    """
    parts = run.devices.replicas * run.accumulate
    longest = 1 + max(int(corpus.source_lengths.max()), int(corpus.target_lengths.max()))
    return max(batch_tokens // parts, min(longest, batch_tokens))


# A signal can end training after this many decoded batches. The number must be the same on all
# machines. It is two because a CPU decodes two batches at a time.
BATCHES_AT_ONCE = 2


def make_tokenizers(
    settings: TranslationSettings, texts: Iterable[ParallelText], run: TrainingRun
) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
    """Return the source and target tokenizers; the same object if they share a vocabulary.

    Args:
        settings: vocabulary settings and files.
        texts: texts for training a vocabulary, if necessary.
        run: the training run. Tokenizers of a run that is resumed or started from are reused.

    Returns:
        `(source_tokenizer, tokenizer)`.

    Raises:
        UserInputError: a file contains no tokenizer, the source tokenizer is missing, or
            `vocabulary_size` does not fit the text. Errors that would otherwise occur hours later
            are also raised: the model is too large for the memory, sacrebleu does not support
            `bleu_tokenize`, `language` is not a language code, or a line of `glossary_tags` is not
            a term.
    """
    if settings.glossary_tags is not None:
        Glossary.load(settings.glossary_tags)
    bleu_metric(settings.bleu_tokenize)
    if settings.language is not None:
        check_language(settings.language)
    if run.earlier is not None:
        return run.earlier.load_tokenizers()
    if settings.separate_vocabularies and settings.tokenizer and not settings.source_tokenizer:
        fault = "`separate_vocabularies` with `tokenizer` needs `source_tokenizer` for the source"
        reject(fault, tokenizer=settings.tokenizer, source_tokenizer=None)
    _check_memory(settings, run.devices)
    if settings.tokenizer:
        tokenizer = SentencePieceTokenizer.load(settings.tokenizer)
        if not settings.source_tokenizer:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(settings.source_tokenizer), tokenizer
    run.say(f"Training the vocabulary: {settings.vocabulary_size:,} subwords")
    if settings.separate_vocabularies:
        sources = (source for source, _ in itertools.chain(*texts))
        targets = (target for _, target in itertools.chain(*texts))
        return _train_tokenizer(settings, sources), _train_tokenizer(settings, targets)
    shared = _train_tokenizer(settings, itertools.chain.from_iterable(itertools.chain(*texts)))
    return shared, shared


def _train_tokenizer(settings: TranslationSettings, lines: Iterable[str]) -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(
        sample_lines(lines, settings.vocabulary_lines, settings.seed),
        vocabulary_size=settings.vocabulary_size,
        model_type=settings.vocabulary_type,
        byte_fallback=settings.byte_fallback,
        normalization=settings.normalization,
        user_defined_symbols=settings.all_symbols,
    )


def _check_memory(settings: TranslationSettings, devices: Devices) -> None:
    """Refuse a model that is too large before hours are spent on preparing text.

    On a CPU, the weights, their gradients and Adam's two moments must fit in memory.
    """
    models.check_model_fits(
        settings.preset,
        # The size of a given tokenizer is known only later; it is checked when the model is built.
        vocabulary_size=1 if settings.tokenizer else settings.vocabulary_size,
        copies=4 if devices.device_name == "CPU" else 1,
        **settings.model_options(),
    )


def translation_model(
    settings: TranslationSettings,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
) -> keras.Model:
    """Return the model to train, with layers frozen and adapters added as `settings` specifies.

    Args:
        settings: architecture settings, and which parts to train.
        source_tokenizer, tokenizer: tokenizers of the source and of the target.
        run: the training run. The model of a run that is resumed or started from is reused.

    Returns:
        A functional model from `models.build_transformer`, not compiled yet.

    Raises:
        UserInputError: see `training.freeze` and `training.enable_lora`.
    """
    model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
        settings.preset,
        **models.vocabulary_options(source_tokenizer, tokenizer),
        **settings.model_options(source_tokenizer, tokenizer),
    )
    if settings.aligns:
        model = models.with_alignment_head(model, settings.alignment_layer)
    settings.choose_trained_weights(model)
    return model


def bleu_validators(
    settings: TranslationSettings,
    batches: TrainingBatches,
    model: keras.Model,
    run: TrainingRun,
) -> list[BleuValidation]:
    """Return a callback that measures BLEU on the dev text with greedy decoding, if enabled.

    Args:
        settings: how often to measure, and on how many sentences.
        batches: the texts. The sentences are spread over the dev text, which may be sorted by
            length.
        model: the functional model being trained.
        run: the training run. All processes must translate, but only the chief writes samples.
    """
    if not settings.bleu_every:
        return []
    translator = Translator(
        model,
        batches.tokenizer,
        source_tokenizer=batches.source_tokenizer,
        beam_size=1,
        long_sentences="cut",  # a long validation sentence must not stop training
    )
    pairs = [pair for pair in batches.texts.dev_text if pair[0].strip()]
    pairs = pairs[:: -(-len(pairs) // settings.bleu_sentences)]
    sources, targets = zip(*pairs, strict=True)
    batches_of_search = translator.batches(sources)
    parts = [
        list(itertools.chain(*batches_of_search[start : start + BATCHES_AT_ONCE]))
        for start in range(0, len(batches_of_search), BATCHES_AT_ONCE)
    ]

    def translate(part: Sequence[str]) -> list[str]:
        with warnings.catch_warnings():  # `batches` has already warned about all sentences
            warnings.simplefilter("ignore", LongSentenceWarning)
            return translator.translate(part)

    return [
        BleuValidation(
            translate,
            list(sources),
            list(targets),
            path=run.directory.samples_path if run.is_chief else None,
            history=run.directory.dev_samples_path if run.is_chief else None,
            every=settings.bleu_every,
            tokenize=settings.bleu_tokenize,
            parts=parts,
        )
    ]


def begin_training(
    settings: TranslationSettings,
    batches: TrainingBatches,
    model: keras.Model,
    training_model: keras.Model,
    run: TrainingRun,
) -> None:
    """Print a report on the batches and start the run, with BLEU validation if enabled.

    If training starts from a run with a shortlist, the shortlist is copied.

    Args:
        settings: how often to measure BLEU, and on how many sentences.
        batches: the batches and their texts.
        model: the model from `translation_model`.
        training_model: the model to `fit`, from `settings.compile`.
        run: the training run, whose `batches`, `callbacks` and `fit_options` can then be used in
            `fit`.

    Raises:
        UserInputError: see `TrainingRun.begin`.
    """
    run.say(*batches.report)
    run.begin(
        training_model,
        batches.train,
        batches.dev,
        tokenizer=batches.tokenizer,
        source_tokenizer=batches.source_tokenizer,
        validators=bleu_validators(settings, batches, model, run),
    )
    if run.is_chief and run.origin and run.origin.shortlist_path.is_file():
        tokenizers = batches.tokenizer, batches.source_tokenizer
        run.directory.write_shortlist(run.origin.load_shortlist(*tokenizers))
