"""Importing models from other toolkits: Marian, and Marian models of Hugging Face."""

from keras_transformer.formats.marian.reader import (
    ImportedModel,
    import_bergamot,
    import_bergamot_run,
    import_marian,
    import_marian_run,
)

__all__ = [
    "ImportedModel",
    "import_bergamot",
    "import_bergamot_run",
    "import_marian",
    "import_marian_run",
]
