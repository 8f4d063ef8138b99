"""The files of a model's vocabularies, in a run as in an export."""

from pathlib import Path

TOKENIZER = "tokenizer.model"
SOURCE_TOKENIZER = "source_tokenizer.model"  # of a source with a vocabulary of its own


def save_tokenizers(directory, source_tokenizer, tokenizer):
    """Write a model's tokenizers; returns the names of the files of `source` and `target`."""
    names = {"source": TOKENIZER, "target": TOKENIZER}
    tokenizer.save(Path(directory) / TOKENIZER)
    if source_tokenizer is not tokenizer:
        names["source"] = SOURCE_TOKENIZER
        source_tokenizer.save(Path(directory) / SOURCE_TOKENIZER)
    return names
