"""The demo's last step: a SavedModel, strings in and strings out, and what it translates."""

import os

import keras

from keras_transformer.errors import UserInputError

SENTENCES = 3


def add_export_argument(parser):
    """Add the flag `--export` to a recipe's parser."""
    parser.add_argument(
        "--export",
        metavar="DIRECTORY",
        help="export the result there at the end, as a SavedModel, and translate through it",
    )


def check_export(directory):
    """Refuse at once to export to `directory`, unless it is None, where it could not be done."""
    if directory is None:
        return
    if keras.backend.backend() != "tensorflow":
        raise UserInputError("`--export` needs the TensorFlow backend: KERAS_BACKEND=tensorflow")
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UserInputError(f"`--export` must name a directory. Received: the file {directory}")


def export(translator, directory, pairs):
    """Export to a new version in `directory` and print what the export makes of some numbers.

    Args:
        translator: the `Translator` of the run.
        directory: such as `saved_models/number_words`.
        pairs: `NumberPairs` to translate.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (the operations of the tokenizer)

    from keras_transformer.export import export_saved_model

    path = export_saved_model(translator, directory)
    translate = tf.saved_model.load(path).signatures["translate"]
    sources = pairs.sources[:SENTENCES]
    outputs = translate(inputs=tf.constant(sources))["outputs"].numpy()
    print(f"\nExported to {path}, where no Python is needed. Through the export:")
    for source, output in zip(sources, outputs, strict=True):
        print(f"  {source} -> {output.decode('utf-8')}")
    print(f"\nServe it: .venv/bin/keras-transformer serve {directory} (docs/serving.md)")
