"""The directory of a training on disk: its files, their checksums and its lock."""

from keras_transformer.runs.run_checkpoints import run_lock

__all__ = ["run_lock"]
