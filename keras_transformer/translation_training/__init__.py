"""A whole training of a translation model, from sentence pairs to a scored run directory."""

from keras_transformer.training_flags import add_text_arguments
from keras_transformer.translation_training.fitted_settings import fit_settings
from keras_transformer.translation_training.training import train_translation
from keras_transformer.translation_training.training_batches import (
    TrainingBatches,
    dev_batch_tokens,
    make_batches,
)
from keras_transformer.translation_training.training_end import (
    average_weights,
    write_report,
    write_scores,
)
from keras_transformer.translation_training.training_start import (
    begin_training,
    bleu_validators,
    make_tokenizers,
    translation_model,
)
from keras_transformer.translation_training.translation_data import (
    TranslationData,
    text_of,
)
from keras_transformer.translation_training.translation_settings import TranslationSettings

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
]
