"""The page that shows the attention of a pair."""

from typing import TYPE_CHECKING

from keras_transformer.interpretation.attention_page.offline_page import offline_page

if TYPE_CHECKING:
    from keras_transformer.interpretation.attention_maps import AttentionMaps


def attention_page(maps: "AttentionMaps", title: str) -> str:
    """The attention of a pair as one HTML file for a browser; the page loads nothing else.

    Args:
        maps: the `AttentionMaps` of the pair.
        title: title and heading of the page.

    Returns:
        The text of the file, which can be encoded as UTF-8.

    Raises:
        UserInputError: the pair is so long that a browser would not show its weights.

    Example:
        >>> import numpy as np
        >>> from keras_transformer.interpretation.attention_maps import AttentionMaps
        >>> one = np.ones((1, 1, 1, 1), "float32")
        >>> maps = AttentionMaps(["</s>"], ["<s>"], ["</s>"], one, one, one)
        >>> page = attention_page(maps, "A < B")
        >>> page.splitlines()[0], "<title>A &lt; B</title>" in page
        ('<!DOCTYPE html>', True)
    """
    return offline_page(title, '<main id="attention"></main>', maps)
