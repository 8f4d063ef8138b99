"""The captions of Multi30k as files."""

import argparse
import pathlib

from keras_transformer.data import ParallelFiles, find_text
from keras_transformer.translation_training import TranslationData


def add_caption_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flag that names the folder of captions to a parser."""
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="folder with train, val and test_2016_flickr, each as .en and .de, .gz or not",
    )


def captions(directory: pathlib.Path) -> TranslationData:
    """The training, dev and test captions of Multi30k in a folder."""
    train, dev, test = (
        ParallelFiles(find_text(directory, f"{part}.en"), find_text(directory, f"{part}.de"), part)
        for part in ("train", "val", "test_2016_flickr")
    )
    return TranslationData([train], dev=dev, test=test)
