"""Train the paper's Transformer on WMT 2014, English into French, and score it on newstest2014."""

import sys

from keras_transformer.command_line.command_errors import run_command
from keras_transformer.translation_training.command import run_training
from recipes.recipe_options import recipe_options
from recipes.wmt14_en_fr.settings import WMT14EnFrSettings
from recipes.wmt14_text import add_wmt14_arguments, wmt14_text


def main(arguments=None):
    """Train, average the last checkpoints, score; `arguments` are those of the command line."""
    options, values = recipe_options(
        "wmt14_en_fr",
        WMT14EnFrSettings,
        __doc__,
        arguments=arguments,
        add=add_wmt14_arguments,
    )
    return run_training(options, wmt14_text("fr", values))


if __name__ == "__main__":
    sys.exit(run_command(main))
