"""A translation training from top to bottom: text, batches, model, `fit`, average, scores."""

from collections.abc import Mapping

from keras_transformer import losses, training
from keras_transformer.data.corpus_preparation import SiftPairs
from keras_transformer.data.pair_sifting import sift as sift_here
from keras_transformer.settings import SettingValue
from keras_transformer.translation_training.fitted_settings import fit_settings
from keras_transformer.translation_training.training_batches import make_batches
from keras_transformer.translation_training.training_end import (
    average_weights,
    write_report,
    write_shortlist,
)
from keras_transformer.translation_training.training_start import (
    begin_training,
    make_tokenizers,
    translation_model,
)
from keras_transformer.translation_training.translation_data import TranslationData
from keras_transformer.translation_training.translation_settings import TranslationSettings
from keras_transformer.types import PathLike


def train_translation(
    settings: TranslationSettings,
    data: TranslationData,
    run_directory: PathLike,
    *,
    minutes: float | None = None,
    origin: PathLike | None = None,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    given: Mapping[str, SettingValue] | None = None,
    sift: SiftPairs = sift_here,
) -> training.FitRecord:
    """Train a translation model into a run directory, average checkpoints, and score the result.

    With several machines, each machine calls this; only the first writes and scores.

    Args:
        settings: settings of the training.
        data: its texts.
        run_directory: path of the run; tokenized text is kept in `prepared/` beside it.
        minutes: minutes of training after which to end.
        origin: path of a run to start from, with its model and tokenizers.
        overwrite: whether to replace an existing run.
        resume: whether to resume an existing run.
        command: the command line, for `scores.json`.
        given: the explicitly given settings, by name; the others are fitted to the text, the
            minutes and the speed of the devices. None means that all settings are kept.
        sift: tokenizes and filters the text, as in `data.prepare_corpus`.

    Returns:
        What the training did. If it has an `exit_code`, a signal stopped the training, and nothing
        was averaged or scored.

    Raises:
        UserInputError: text, settings or a run are not suitable, memory or disk space runs out,
            or another machine is lost.

    Example:

    ```python
    data = TranslationData([ParallelFiles("train.en", "train.de")])
    train_translation(TranslationSettings(preset="small"), data, "runs/en_de", minutes=60)
    ```
    """
    call = training.TrainingCommand(
        settings, run_directory, overwrite, resume, minutes, origin, command, given
    )
    return train_as_called(call, data, sift)


def train_as_called(
    call: training.TrainingCommand[TranslationSettings],
    data: TranslationData,
    sift: SiftPairs = sift_here,
) -> training.FitRecord:
    """Train as in `train_translation`, whose other arguments are in `call`."""
    with training.TrainingRun.of(call) as run:
        # Settings that were not given: fitted to the text and the minutes
        settings = fit_settings(call, data, run)

        # Tokenizer: one for both sides, or one for each
        source_tokenizer, tokenizer = make_tokenizers(settings, data.train, run)

        # Batches
        batches = make_batches(settings, data, source_tokenizer, tokenizer, run, sift=sift)

        # Model
        with run.scope():
            model = translation_model(settings, source_tokenizer, tokenizer, run)
            loss = losses.LabelSmoothingCrossEntropy(**settings.loss_options(tokenizer))
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        begin_training(settings, batches, model, training_model, run)
        training_model.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            averaged = average_weights(settings, batches.dev, run)

            # Shortlist
            if settings.shortlist:
                write_shortlist(batches, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
    return run.record
