"""The weights that translate: the mean of checkpoints, chosen on the dev text."""

import keras

from keras_transformer import losses, metrics, training
from keras_transformer.data import fit_batches


def average_weights(settings, run, tokenizer, dev):
    """Write the mean of a run's checkpoints as its weights.

    Args:
        settings: `TranslationSettings`; they say which checkpoints, and whether validation decides
            how many.
        run: the `RunDirectory`.
        tokenizer: of the target.
        dev: `BatchReader` of the dev text.

    Returns:
        The number of checkpoints in the mean.

    Raises:
        UserInputError: no checkpoint is whole.
    """
    paths = run.checkpoints.paths()
    if settings.average_of == "best":
        paths = run.checkpoints.best()[::-1] or paths
    paths = run.checkpoints.whole(paths)
    if not settings.choose_average:
        paths = paths[-settings.average :]
        training.average_checkpoints(paths, run.weights_path)
        return len(paths)
    model = run.load_architecture()
    padding_id = tokenizer.special_tokens.pad
    model.compile(
        loss=losses.LabelSmoothingCrossEntropy(0.0, padding_id),
        metrics=[metrics.Perplexity(padding_id)],
        jit_compile=settings.jit_compile(keras.backend.backend()),
    )
    steps = dev.plan.steps_per_epoch

    def perplexity(weights):
        training.load_weights(model, weights)
        values = model.evaluate(fit_batches(dev), steps=steps, verbose=0, return_dict=True)
        return values["perplexity"]

    return training.average_best(paths, run.weights_path, perplexity, settings.average)
