"""From strings to input for `model.fit`, in one call and without files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_positive_int, check_rate
from keras_transformer.data.batches.fit_input import plan_batches
from keras_transformer.data.batches.subword_sampling import SubwordSampling
from keras_transformer.data.corpus_preparation import check_special_tokens
from keras_transformer.data.corpus_writer import PackedRows
from keras_transformer.data.pair_sifting import CHUNK_PAIRS
from keras_transformer.data.parallel_corpus import ID_TYPE, TEXT_TYPE, ParallelCorpus
from keras_transformer.errors import refuse
from keras_transformer.text.sentence_batches import check_equal_numbers, checked_strings

if TYPE_CHECKING:
    import keras

    from keras_transformer.text import SentencePieceTokenizer

_Packed: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer]]  # values, offsets


def fit_texts(
    sources: Iterable[str] | None,
    targets: Iterable[str],
    tokenizer: SentencePieceTokenizer,
    *,
    batch_tokens: int,
    source_tokenizer: SentencePieceTokenizer | None = None,
    max_tokens: int | None = None,
    seed: int = 0,
    shuffle: bool = True,
    subword_sampling: float = 0.0,
    shapes: int = 16,
    row_multiple: int = 1,
    workers: int = 1,
    use_multiprocessing: bool = False,
    max_queue_size: int = 10,
) -> keras.utils.PyDataset:
    """Turn strings into a dataset for `model.fit` and `model.evaluate`, on any backend.

    The strings are tokenized once, in this call, and their ids stay in memory, 4 bytes each. Every
    epoch draws its batches anew. `fit` also shuffles the order of an epoch's batches with Python's
    random numbers, unless it is called with `shuffle=False`. For text that is larger than memory or
    must be filtered, see `prepare_corpus`.

    Args:
        sources: source texts; read once, may be empty. None means that `targets` are the texts of a
            language model, as `build_language_model` reads them.
        targets: target texts, one for each source.
        tokenizer: tokenizer of the targets: a `SentencePieceTokenizer`, or an object with the same
            `encode` and `special_tokens`.
        batch_tokens: maximum number of source tokens and of target tokens in a batch, with padding.
        source_tokenizer: tokenizer of the sources; defaults to `tokenizer`.
        max_tokens: longer texts are cut to this many tokens, not counting the end of sentence. With
            None, a text longer than `batch_tokens` is an error.
        seed: integer >= 0; determines the batches.
        shuffle: whether epochs differ; False, for validation, gives the same batches in each epoch.
        subword_sampling: strength of subword sampling, in [0, 1): the `alpha` of
            `SentencePieceTokenizer.sample`, which draws the pieces of each batch anew. 0 turns
            sampling off. It needs tokenizers of this class.
        shapes: maximum number of padded shapes of batches; JAX and XLA compile a step for each
            shape.
        row_multiple: empty rows fill every batch up to a multiple of this, such as the number of
            devices that share a batch.
        workers, use_multiprocessing, max_queue_size: as for `keras.utils.PyDataset`.

    Returns:
        A `keras.utils.PyDataset` of `(inputs, labels, mask)`. Inputs are `{"source_ids": (batch,
        source_length), "target_ids": (batch, target_length)}`, or without sources `{"token_ids":
        (batch, target_length)}`, all int32. Labels are int32, (batch, target_length). The mask,
        used as `sample_weight`, is float32, (batch, target_length): 1 for real tokens and 0 for
        padding. Sources and labels end with EOS; the target inputs begin with BOS.

    Raises:
        UserInputError: there are no texts, the numbers of sources and targets differ, the
            tokenizers have different special tokens, or a text is longer than `batch_tokens`.
        ValueError: another argument is out of range, or `sources` or `targets` are not strings.

    Example:
        >>> from keras_transformer.text import SentencePieceTokenizer
        >>> lines = ["a small house", "a small tree", "the house and the tree"]
        >>> tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=40)
        >>> dataset = fit_texts(lines, lines, tokenizer, batch_tokens=64)
        >>> inputs, labels, mask = dataset[0]
        >>> len(dataset), sorted(inputs), labels.shape == mask.shape
        (1, ['source_ids', 'target_ids'], True)
    """
    from keras_transformer.data.batches.text_dataset import TextDataset  # imports Keras

    targets = checked_strings("targets", targets)
    for_language_model = sources is None
    sources = [""] * len(targets) if sources is None else checked_strings("sources", sources)
    check_equal_numbers("sources", sources, "targets", targets)
    if not targets:
        refuse("targets", "hold at least one text", targets)
    source_tokenizer = source_tokenizer or tokenizer
    check_special_tokens(tokenizer, source_tokenizer)
    if max_tokens is not None:
        check_positive_int("max_tokens", max_tokens)
    check_positive_int("shapes", shapes)
    check_positive_int("row_multiple", row_multiple)
    check_rate("subword_sampling", subword_sampling)
    sampling = None
    if subword_sampling:
        sampling = SubwordSampling(tokenizer, source_tokenizer, subword_sampling, seed)
    corpus = ParallelCorpus(
        *_packed_ids(source_tokenizer, sources, max_tokens),
        *_packed_ids(tokenizer, targets, max_tokens),
        line_numbers=np.arange(len(targets)),
        metadata={},
        texts={"source": _packed_texts(sources), "target": _packed_texts(targets)}
        if sampling
        else None,
        unit="index",
    )
    reader = plan_batches(
        corpus,
        tokenizer.special_tokens,
        batch_tokens=batch_tokens,
        seed=seed,
        shuffle=shuffle,
        subword_sampling=sampling,
        shapes=shapes,
    )
    return TextDataset(
        reader,
        row_multiple,
        for_language_model,
        workers=workers,
        use_multiprocessing=use_multiprocessing,
        max_queue_size=max_queue_size,
    )


def _packed_ids(
    tokenizer: SentencePieceTokenizer, texts: Sequence[str], max_tokens: int | None
) -> _Packed:
    """The token ids of texts, and the offset of each text."""
    chunks = (texts[start : start + CHUNK_PAIRS] for start in range(0, len(texts), CHUNK_PAIRS))
    rows = ([row[:max_tokens] for row in tokenizer.encode(chunk)] for chunk in chunks)
    return _joined(map(PackedRows.of_ids, rows), ID_TYPE)


def _packed_texts(texts: Sequence[str]) -> _Packed:
    """The bytes of texts, and the offset of each text."""
    return _joined([PackedRows.of_texts(texts)], TEXT_TYPE)


def _joined(chunks: Iterable[PackedRows], dtype: np.dtype) -> _Packed:
    values, lengths = zip(*chunks, strict=True)
    offsets = np.append(0, np.cumsum(np.concatenate(lengths)))
    return np.frombuffer(b"".join(values), dtype), offsets
