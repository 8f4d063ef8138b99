"""The models of a translator: from one run or several, with one checkpoint or several."""

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory


def load_ensemble(run_directory, checkpoint):
    """The models of a run, or of several, and their tokenizers: see `Translator.load`.

    Returns `(models, source_tokenizer, tokenizer, origins)`; `origins` is a list with the
    `RunDirectory` and the file of weights of each model.
    """
    origins = [
        (run, run.find_weights(name)) for run, name in ensemble_members(run_directory, checkpoint)
    ]
    runs = {run.path: run for run, _ in origins}.values()
    tokenizers = [run.load_tokenizers() for run in runs]
    fingerprints = {tuple(one.fingerprint for one in pair) for pair in tokenizers}
    models = [run.load_model(weights) for run, weights in origins]
    if len(fingerprints) > 1 or len({model.output_shape[-1] for model in models}) > 1:
        raise UserInputError(
            "The runs of an ensemble must have the same tokenizers and vocabulary sizes. "
            f"Received: {', '.join(str(run.path) for run in runs)}"
        )
    return models, *tokenizers[0], origins


def ensemble_members(run_directory, checkpoint):
    """Pairs of a `RunDirectory` and a checkpoint, one for each model of `Translator.load`."""
    runs = run_directory if isinstance(run_directory, (list, tuple)) else [run_directory]
    runs = [RunDirectory.open(path) for path in runs]
    names = checkpoint if isinstance(checkpoint, (list, tuple)) else [checkpoint]
    if len(runs) == 1:
        runs = runs * len(names)
    elif len(names) == 1:
        names = names * len(runs)
    if not runs or len(runs) != len(names):
        raise UserInputError(
            "There must be one run, one checkpoint, or as many checkpoints as runs. "
            f"Received: {len(runs)} runs, {len(names)} checkpoints"
        )
    return zip(runs, names, strict=True)
