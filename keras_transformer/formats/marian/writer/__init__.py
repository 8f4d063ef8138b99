"""A translator as a folder for Marian, or for Hugging Face's `MarianMTModel`."""

from pathlib import Path

from keras_transformer.formats.marian.writer.hugging_face import export_hugging_face
from keras_transformer.formats.marian.writer.native import export_native
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.types import PathLike


def export_marian(
    translator: TranslationModel, directory: PathLike, *, native: bool = False
) -> Path:
    """Write a translator's model for `transformers.MarianMTModel`, with its tokenizers.

    The logits are equal, except that `MarianMTModel` always uses 1e-5 as the epsilon of its layer
    normalizations. Its `generate` divides a score by the length to the power of `alpha`, and ends
    the search in its own way. With `length_penalty="power", ending="transformers"`, the search here
    is the same, but there the limit of tokens for sources and outputs is this translator's limit
    for sources, from 512 to 4,096.

    Args:
        translator: a translator of one model, on any backend.
        directory: directory to write; it must not exist, or be empty.
        native: whether the folder is for Marian itself, which decodes with it and trains it
            further: model.npz, vocab.spm (or source.spm and target.spm) and decoder.yml. Marian's
            decoder begins with a zero vector, spaces the frequencies of positions as tensor2tensor
            does, and takes SentencePiece's ids. So a model of your own needs `zero_id=1`, the id
            of BOS, and `positions="sinusoidal_t2t"`. Pre-norm models are written too: Marian trains
            and scores them as here, but its decoder computes only those with SSRUs alike.

    Returns:
        The path of the directory.

    Raises:
        UserInputError: Marian has no counterpart for an option of the model, the package
            safetensors is not installed, or the directory is not empty.

    Example:

    ```python
    export_marian(Translator.load("runs/en_de"), "marian/en_de")
    model = transformers.MarianMTModel.from_pretrained("marian/en_de")
    ```
    """
    write = export_native if native else export_hugging_face
    return write(translator, directory)
