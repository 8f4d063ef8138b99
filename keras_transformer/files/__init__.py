"""Reading untrusted files, writing files without data loss, and locking."""

from keras_transformer.files.standard_streams import say
from keras_transformer.files.whole_directories import scratch_directory
from keras_transformer.files.whole_files import write_bytes, write_json, write_text

__all__ = ["say", "scratch_directory", "write_bytes", "write_json", "write_text"]
