"""The names of a model's layers, by which a reloaded model is taken apart."""

import itertools
from typing import Any

SOURCE_MASK = "source_mask"
SHARED_EMBEDDING = "embedding"
SOURCE_EMBEDDING = "source_embedding"
TARGET_EMBEDDING = "target_embedding"
ENCODER_LAYER = "encoder_layer_{}"
DECODER_LAYER = "decoder_layer_{}"
ENCODER_NORM = "encoder_norm"
DECODER_NORM = "decoder_norm"


def numbered(by_name: dict[str, Any], pattern: str) -> list[Any]:
    """The layers whose names are the pattern with 1, 2, ... in it, in this order."""
    names = (pattern.format(number) for number in itertools.count(1))
    return [by_name[name] for name in itertools.takewhile(by_name.__contains__, names)]
