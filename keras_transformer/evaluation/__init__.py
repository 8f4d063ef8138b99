"""Translation scores, computed from lists of strings."""

from keras_transformer.evaluation.alignment_scores import alignment_error_rate
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
    "alignment_error_rate",
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
