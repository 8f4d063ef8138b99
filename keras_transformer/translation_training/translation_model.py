"""The model of a translation training: of an earlier run, or a new one."""

import keras

from keras_transformer import models
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training.settings import TranslationSettings


def translation_model(
    settings: TranslationSettings,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
    run: TrainingRun,
) -> keras.Model:
    """The model to train, whose frozen layers and adapters are those of the settings.

    Args:
        settings: the architecture, and what of it is trained.
        source_tokenizer, tokenizer: of the source and of the target.
        run: the training. If it resumes a run, or starts from one, the model is that run's.

    Returns:
        A functional model of `models.build_transformer`, not compiled yet.

    Raises:
        UserInputError: as `training.freeze` and `training.enable_lora`.
    """
    model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
        settings.preset,
        **models.vocabulary_options(source_tokenizer, tokenizer),
        **settings.model_options(source_tokenizer, tokenizer),
    )
    settings.choose_trained_weights(model)
    return model
