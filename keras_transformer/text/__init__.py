"""Text to token ids and back. The TensorFlow form is in `text.tensorflow_sentencepiece`."""

from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.vocabulary_sample import sample_lines

__all__ = ["SentencePieceTokenizer", "sample_lines"]
