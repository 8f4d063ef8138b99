"""Turn parallel text into batches of token ids."""

from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.data.batch_reader import BatchReader, batch_stream, token_weights
from keras_transformer.data.corpus_mixture import SubwordSampling
from keras_transformer.data.corpus_preparation import prepare_corpus
from keras_transformer.data.fit_input import fit_batches, fit_texts, plan_batches, prepare_batches
from keras_transformer.data.inline_noise import InlineNoise
from keras_transformer.data.inline_terms import InlineTerms
from keras_transformer.data.packed_plan import PackedPlan
from keras_transformer.data.pair_filters import PairFilters
from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.data.parallel_text import (
    Overlap,
    ParallelFiles,
    ParallelText,
    SentencePairs,
    count_overlap,
    count_overlaps,
    find_text,
    find_text_files,
    read_parallel_text,
    read_text,
)
from keras_transformer.data.tfds_text import TfdsPairs
from keras_transformer.data.word_links import PackedLinks, WordLinks, read_links
from keras_transformer.text.text_lines import one_line, text_lines

__all__ = [
    "BatchPlan",
    "BatchReader",
    "InlineNoise",
    "InlineTerms",
    "Overlap",
    "PackedLinks",
    "PackedPlan",
    "PairFilters",
    "ParallelCorpus",
    "ParallelFiles",
    "ParallelText",
    "SentencePairs",
    "SubwordSampling",
    "TfdsPairs",
    "WordLinks",
    "batch_stream",
    "count_overlap",
    "count_overlaps",
    "find_text",
    "find_text_files",
    "fit_batches",
    "fit_texts",
    "one_line",
    "plan_batches",
    "prepare_batches",
    "prepare_corpus",
    "read_links",
    "read_parallel_text",
    "read_text",
    "text_lines",
    "token_weights",
]
