"""Configuration files of TensorFlow's model server, in protobuf's text format."""

import json
import os
from pathlib import Path

from keras_transformer.files.whole_files import writing

# Files beside the versions of a SavedModel, for the model server.
MODELS_CONFIG = "models.config"
BATCHING_CONFIG = "batching.config"
_MODELS = """\
# For `tensorflow_model_server --model_config_file=...`. Each further model is one more `config`.
model_config_list {{
  config {{
    name: {name}
    base_path: {base_path}
    model_platform: "tensorflow"
  }}
}}
"""

_BATCHING = """\
# For `tensorflow_model_server --enable_batching --batching_parameters_file=...`: requests that
# arrive at the same time are computed together.

# Most sentences in a batch, and in one request. Memory grows with this number.
max_batch_size { value: 32 }
# How long a request waits for other requests.
batch_timeout_micros { value: 2000 }
# How many batches may wait; further batches are refused as "unavailable".
max_enqueued_batches { value: 1000 }
# How many batches are computed at the same time.
num_batch_threads { value: 4 }
# `translate_ids`: a batch may have rows of different lengths. The padding is not read.
pad_variable_length_inputs: true
"""


def write_model_server_files(directory: Path, partial: Path) -> None:
    """Write `models.config` and `batching.config` if they are missing.

    Existing files are kept, because users may have edited them. `partial` is a directory beside the
    versions that only this process uses.
    """
    path = Path(os.path.abspath(directory))  # without "..", but with symbolic links unresolved
    models = _MODELS.format(name=_quoted(path.name), base_path=_quoted(path))
    for name, text in ((MODELS_CONFIG, models), (BATCHING_CONFIG, _BATCHING)):
        _write_if_missing(directory / name, text, partial / name)


def _write_if_missing(path: Path, text: str, partial: Path) -> None:
    """Write a file atomically; `partial` is a name that only this process uses."""
    if path.exists():
        return
    with writing(path):
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)


def _quoted(value: str | Path) -> str:
    """Return a string in protobuf's text format, which has the same escapes as JSON."""
    return json.dumps(str(value), ensure_ascii=False)
