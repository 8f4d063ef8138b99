"""The final weights of a translation model: the mean of checkpoints, chosen on the dev text."""

from pathlib import Path

from keras_transformer import losses, metrics, training
from keras_transformer.data import BatchReader, fit_batches
from keras_transformer.translation_training.settings import TranslationSettings


def average_weights(
    settings: TranslationSettings, dev: BatchReader, run: training.TrainingRun
) -> int:
    """Write the mean of a run's checkpoints as its weights.

    Args:
        settings: which checkpoints to average, and whether validation decides how many.
        dev: reader of the dev text.
        run: the training, at its end.

    Returns:
        The number of checkpoints in the mean.

    Raises:
        UserInputError: all checkpoints are damaged.
    """
    directory = run.directory
    paths = directory.checkpoints.last(settings.save_every)
    if settings.average_of == "best":
        paths = directory.checkpoints.best()[::-1] or paths
    paths = directory.checkpoints.whole(paths)
    if not settings.choose_average:
        paths = paths[-settings.keep_last :]
        training.average_checkpoints(paths, directory.weights_path)
        return len(paths)
    model = directory.load_architecture()
    padding_id = dev.special_tokens.pad
    model.compile(
        loss=losses.LabelSmoothingCrossEntropy(0.0, padding_id, reduction="sum"),
        metrics=[metrics.Perplexity(padding_id)],
        jit_compile=settings.jit_compile(),
    )
    steps = dev.plan.steps_per_epoch

    def perplexity(weights: Path) -> float:
        training.load_weights(model, weights)
        values = model.evaluate(fit_batches(dev), steps=steps, verbose=0, return_dict=True)
        return values["perplexity"]

    return training.average_best(paths, directory.weights_path, perplexity, settings.keep_last)
