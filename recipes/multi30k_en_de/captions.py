"""Multi30k caption files."""

import argparse
import pathlib

from keras_transformer.data import ParallelFiles, find_text
from keras_transformer.translation_training import TranslationData


def add_caption_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the captions to a parser."""
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        required=True,
        metavar="DIR",
        help="folder with train, val and test_2016_flickr, each as .en and .de, plain or .gz",
    )
    parser.add_argument(
        "--no-test",
        dest="test",
        action="store_false",
        help="score val instead of the test set at the end, for choosing settings",
    )


def captions(directory: pathlib.Path, *, test: bool = True) -> TranslationData:
    """Return Multi30k's training, dev and, with `test`, test captions from a folder."""

    def read(part: str) -> ParallelFiles:
        source, target = (find_text(directory, f"{part}.{side}") for side in ("en", "de"))
        return ParallelFiles(source, target, part)

    return TranslationData(
        [read("train")], dev=read("val"), test=read("test_2016_flickr") if test else None
    )
