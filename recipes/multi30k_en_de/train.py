"""Train a Transformer on Multi30k captions, English into German, and score it on the test set."""

import pathlib
import sys

from keras_transformer.command_line.command_errors import run_command
from keras_transformer.data import ParallelFiles, find_text
from keras_transformer.translation_training import TranslationData
from keras_transformer.translation_training.command import run_training
from recipes.multi30k_en_de.settings import Multi30kSettings
from recipes.recipe_options import recipe_options

DATA_HELP = "folder with train, val and test_2016_flickr, each as .en and .de, .gz or not"


def captions(directory):
    """The parts of Multi30k in a folder, as `TranslationData`."""
    train, dev, test = (
        ParallelFiles(find_text(directory, f"{part}.en"), find_text(directory, f"{part}.de"), part)
        for part in ("train", "val", "test_2016_flickr")
    )
    return TranslationData([train], dev=dev, test=test)


def main(arguments=None):
    """Train, average the last checkpoints, score; `arguments` are those of the command line."""

    def add(parser):
        parser.add_argument(
            "--data", type=pathlib.Path, required=True, metavar="DIR", help=DATA_HELP
        )

    options, values = recipe_options(
        "multi30k_en_de", Multi30kSettings, __doc__, arguments=arguments, add=add
    )
    return run_training(options, captions(values.data))


if __name__ == "__main__":
    sys.exit(run_command(main))
