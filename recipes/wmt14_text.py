"""Text for the WMT 2014 recipes, from TensorFlow Datasets."""

import argparse
from typing import Literal

from keras_transformer.data import TfdsPairs, one_line
from keras_transformer.files import write_text
from keras_transformer.training import TrainingRun
from keras_transformer.translation_training import TranslationData


def add_wmt14_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the text to a parser."""
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder of TensorFlow Datasets (default: ~/tensorflow_datasets)",
    )
    parser.add_argument(
        "--no-download",
        dest="download",
        action="store_false",
        help="use the dataset only if it has already been prepared in that folder",
    )


def wmt14_text(
    language: Literal["de", "fr"], *, data_dir: str | None = None, download: bool = True
) -> TranslationData:
    """Return WMT 2014 text from English, with newstest2013 as dev and newstest2014 as test text.

    Args:
        language: code of the target language.
        data_dir: folder for TensorFlow Datasets. None means its default.
        download: whether to download and prepare the dataset if it is missing.

    Raises:
        UserInputError: the dataset is missing, and must not or cannot be downloaded.
    """
    train, dev, test = (
        TfdsPairs(
            f"wmt14_translate/{language}-en",
            split,
            source_language="en",
            target_language=language,
            data_dir=data_dir,
            download=download,
        )
        for split in ("train", "validation", "test")
    )
    return TranslationData([train], dev=dev, test=test)


def write_newstest(texts: TranslationData, run: TrainingRun) -> None:
    """Write newstest2013 and newstest2014 to the run directory, for `keras-transformer evaluate`.

    Each set consists of two files, such as `newstest2014.en` and `newstest2014.de`, with one
    sentence per line.

    Args:
        texts: result of `wmt14_text`.
        run: the training run, after `begin`.
    """
    for name, text in (("newstest2013", texts.dev), ("newstest2014", texts.test)):
        if isinstance(text, TfdsPairs):
            for language, sentences in zip(text.languages, zip(*text, strict=True), strict=True):
                lines = (one_line(sentence) + "\n" for sentence in sentences)
                write_text(run.directory.path / f"{name}.{language}", "".join(lines))
