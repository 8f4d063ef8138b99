"""The demo's last step: a SavedModel, strings in and strings out, and its translations."""

import os

import keras

from keras_transformer.demo.number_pairs import NumberPairs
from keras_transformer.errors import UserInputError
from keras_transformer.files import say
from keras_transformer.inference.translator import Translator
from keras_transformer.translation_training.next_steps import program_name

SENTENCES = 3


def check_export(directory: str | None) -> None:
    """Refuse a `directory` to which the result could not be exported; None means no export."""
    if directory is None:
        return
    if keras.backend.backend() != "tensorflow":
        raise UserInputError("`--export` needs the TensorFlow backend: KERAS_BACKEND=tensorflow")
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise UserInputError(f"`--export` must name a directory. Received: the file {directory}")


def export(translator: Translator, directory: str, pairs: NumberPairs) -> None:
    """Export to a new version in `directory` and print how the export translates some numbers.

    Args:
        translator: the translator of the run.
        directory: such as `saved_models/number_words`.
        pairs: numbers to translate.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (the operations of the tokenizer)

    from keras_transformer.export import export_saved_model

    path = export_saved_model(translator, directory)
    translate = tf.saved_model.load(path).signatures["translate"]
    sources = pairs.sources[:SENTENCES]
    outputs = translate(inputs=tf.constant(sources))["outputs"].numpy()
    say(f"\nExported to {path}, which needs no Python. Translations by the export:")
    for source, output in zip(sources, outputs, strict=True):
        say(f"  {source} -> {output.decode('utf-8')}")
    say(f"\nServe it: {program_name()} serve {directory} (docs/serving.md)")
