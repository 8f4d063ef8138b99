"""Convert text to token ids and back. For TensorFlow graphs, see `text.tensorflow_sentencepiece`.

Names are imported lazily, so model server clients need neither NumPy nor SentencePiece.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.text.glossary import Glossary as Glossary
    from keras_transformer.text.icu_messages import IcuMessage as IcuMessage
    from keras_transformer.text.sentencepiece_tokenizer import (
        SentencePieceTokenizer as SentencePieceTokenizer,
    )
    from keras_transformer.text.sentencepiece_tokenizer import sample_lines as sample_lines
    from keras_transformer.text.shortlist import Shortlist as Shortlist
    from keras_transformer.text.variables import find_variables as find_variables
