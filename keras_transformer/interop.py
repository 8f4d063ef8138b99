"""Import models from Marian (including Hugging Face folders), Bergamot and CTranslate2."""

from keras_transformer.formats.ctranslate2.importer import (
    import_ctranslate2,
    import_ctranslate2_run,
)
from keras_transformer.formats.marian.reader import (
    import_bergamot,
    import_bergamot_run,
    import_marian,
    import_marian_run,
    import_marian_runs,
)
from keras_transformer.formats.preset_files import ImportedModel

__all__ = [
    "ImportedModel",
    "import_bergamot",
    "import_bergamot_run",
    "import_ctranslate2",
    "import_ctranslate2_run",
    "import_marian",
    "import_marian_run",
    "import_marian_runs",
]
