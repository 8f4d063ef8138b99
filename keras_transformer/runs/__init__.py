"""The run directory with its files, checksums and lock.

Names are imported on first use, because code that only reads checksums needs no tokenizers.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.runs.run_checkpoints import run_lock as run_lock
