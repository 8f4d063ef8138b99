"""Text to token ids and back. The TensorFlow form is in `text.tensorflow_sentencepiece`."""

from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

__all__ = ["SentencePieceTokenizer"]
