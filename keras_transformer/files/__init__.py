"""Files that may come from anybody, and files that must not be lost: reading, writing, locking."""

from keras_transformer.files.whole_files import write_json, write_text

__all__ = ["write_json", "write_text"]
