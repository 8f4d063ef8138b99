"""Translation scores, computed from lists of strings."""

from keras_transformer.evaluation.scores import (
    bleu,
    chrf,
    exact_match,
    paired_bootstrap,
    perplexity,
    score_record,
    system_scores,
    tokenized_compound_split_bleu,
)
from keras_transformer.evaluation.search_tuning import SearchScore, SearchTuning, tune_search

__all__ = [
    "SearchScore",
    "SearchTuning",
    "bleu",
    "chrf",
    "exact_match",
    "paired_bootstrap",
    "perplexity",
    "score_record",
    "system_scores",
    "tokenized_compound_split_bleu",
    "tune_search",
]
