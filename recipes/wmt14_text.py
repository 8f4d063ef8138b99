"""The text of the WMT 2014 recipes, from TensorFlow Datasets."""

from keras_transformer.data import TfdsPairs
from keras_transformer.files import write_text
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


def write_newstest(texts, run):
    """Write newstest2013 and newstest2014 into the run directory, for `keras-transformer evaluate`.

    Each is two files, such as `newstest2014.en` and `newstest2014.de`, one sentence a line.

    Args:
        texts: the `TranslationData` of `wmt14_text`.
        run: the `training.TrainingRun`, once it has begun.
    """
    for name, text in (("newstest2013", texts.dev), ("newstest2014", texts.test)):
        for language, sentences in zip(text.languages, zip(*text, strict=True), strict=True):
            lines = (" ".join(sentence.splitlines()) + "\n" for sentence in sentences)
            write_text(run.directory.path / f"{name}.{language}", "".join(lines))
