"""Train a small Transformer to translate English number words into German."""

import sys
from collections.abc import Sequence

from keras_transformer.toolkit.cli import run_command
from keras_transformer.toolkit.demo import (
    NumberWordsSettings,
    add_export_argument,
    train_number_words,
)
from recipes.recipe_options import recipe_options


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Run `keras-transformer demo`. `arguments` are command-line arguments."""
    options, flags = recipe_options(
        "number_words",
        NumberWordsSettings,
        __doc__,
        arguments=arguments,
        add=add_export_argument,
        fine_tuning=False,
    )
    return train_number_words(options, flags.export)


if __name__ == "__main__":
    sys.exit(run_command(main))
