"""Models of other toolkits, Marian's and Hugging Face's, and presets of this package's own."""

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
