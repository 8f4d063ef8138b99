"""Train a translator on any two text files, as `keras-transformer train` does."""

import sys

from keras_transformer.command_line.command_errors import run_command
from keras_transformer.commands.text_arguments import add_text_arguments, text_of
from keras_transformer.translation_training import TranslationSettings
from keras_transformer.translation_training.command import run_training
from recipes.recipe_options import recipe_options


def main(arguments=None):
    """Train, average, score; `arguments` are those of the command line."""
    options, values = recipe_options(
        "translate_text",
        TranslationSettings,
        __doc__,
        arguments=arguments,
        add=add_text_arguments,
    )
    return run_training(options, text_of(values))


if __name__ == "__main__":
    sys.exit(run_command(main))
