"""TensorFlow's `saved_model_cli` with support for the tokenizers of exported models.

Run this module with the arguments of `saved_model_cli`:

    python -m keras_transformer.serving.saved_model_cli show --dir exports/en_de/1 --all

Reference:
    https://www.tensorflow.org/guide/saved_model#details_of_the_savedmodel_command_line_interface
"""

import importlib.metadata
import os
import sys

from keras_transformer.errors import UserInputError
from keras_transformer.installation import LOG_LEVEL, held_stderr, requiring_tensorflow_text
from keras_transformer.toolkit.cli.program import run_command


def main() -> int | None:
    """Run TensorFlow's tool with this process's arguments and return the exit code."""
    os.environ.setdefault(LOG_LEVEL, "2")
    with requiring_tensorflow_text(), held_stderr(ImportError):  # suppress distracting log messages
        import tensorflow as tf
        import tensorflow_text  # noqa: F401 (registers the tokenizer's operations)

        tf.config.list_physical_devices()
    (tool,) = importlib.metadata.entry_points(group="console_scripts", name="saved_model_cli")
    try:
        return tool.load()()
    except OSError as error:
        raise UserInputError(str(error)) from error
    except tf.errors.OpError as error:  # for a damaged file or an input that the graph refuses
        raise UserInputError(error.message) from error


if __name__ == "__main__":
    sys.exit(run_command(main))
