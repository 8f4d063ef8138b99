"""The page that shows attention, and its component, `attention.js` and `attention.css`."""

from keras_transformer.interpretation.attention_page.attention_page import attention_page

__all__ = ["attention_page"]
