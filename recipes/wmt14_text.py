"""The text of the WMT 2014 recipes, from TensorFlow Datasets."""

from keras_transformer.data import TfdsPairs
from keras_transformer.translation_training import TranslationData


def add_wmt14_arguments(parser):
    """Give an `argparse` parser the flags that `wmt14_text` reads."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder of TensorFlow Datasets (default: its own, ~/tensorflow_datasets)",
    )
    parser.add_argument(
        "--no-download",
        action="store_true",
        help="use the data set only if it is prepared in that folder already",
    )


def wmt14_text(language, values):
    """English into another language: train, newstest2013 as dev and newstest2014 as test text.

    Args:
        language: "de" or "fr".
        values: the namespace of a parser that `add_wmt14_arguments` extended.

    Returns:
        `TranslationData`.

    Raises:
        UserInputError: the data set is not there and may not be, or cannot be, downloaded.
    """
    train, dev, test = (
        TfdsPairs(
            f"wmt14_translate/{language}-en",
            split,
            source_language="en",
            target_language=language,
            data_dir=values.data_dir,
            download=not values.no_download,
        )
        for split in ("train", "validation", "test")
    )
    return TranslationData([train], dev=dev, test=test)
