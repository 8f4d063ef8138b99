"""End-to-end training of a translation model, from sentence pairs to a scored run directory."""

from keras_transformer.settings import add_text_arguments
from keras_transformer.training.translation.data import TranslationData, fit_settings, text_of
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.training.translation.training import (
    average_weights,
    train_translation,
    write_report,
    write_scores,
    write_shortlist,
)
from keras_transformer.training.translation.training_start import (
    TrainingBatches,
    begin_training,
    bleu_validators,
    dev_batch_tokens,
    make_batches,
    make_tokenizers,
    translation_model,
)

__all__ = [
    "TrainingBatches",
    "TranslationData",
    "TranslationSettings",
    "add_text_arguments",
    "average_weights",
    "begin_training",
    "bleu_validators",
    "dev_batch_tokens",
    "fit_settings",
    "make_batches",
    "make_tokenizers",
    "text_of",
    "train_translation",
    "translation_model",
    "write_report",
    "write_scores",
    "write_shortlist",
]
