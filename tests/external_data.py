"""Data sets that cannot be part of the repository; tests that need one are skipped without it.

CONTRIBUTING.md says what the folder holds.
"""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
VARIABLE = "KERAS_TRANSFORMER_TEST_DATA"
# By default beside the clone.
FOLDER = pathlib.Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")
MULTI30K = FOLDER / "multi30k" / "tok"
PTB_SAMPLE = FOLDER / "ptb_sample"
MULTI30K_RUN = ROOT / "runs" / "multi30k_en_de" / "full"


def needs(*paths):
    """Skip a test unless these files or folders of the data sets exist."""
    missing = ", ".join(str(path.relative_to(FOLDER)) for path in paths if not path.exists())
    return pytest.mark.skipif(
        bool(missing), reason=f"needs {missing} in the folder that {VARIABLE} names"
    )


needs_multi30k_run = pytest.mark.skipif(
    not (MULTI30K.is_dir() and MULTI30K_RUN.is_dir()),
    reason=f"needs multi30k/tok in the folder that {VARIABLE} names, and a model that "
    f"recipes/multi30k_en_de has trained on it in {MULTI30K_RUN.relative_to(ROOT)}",
)
