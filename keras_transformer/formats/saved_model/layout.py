"""Configuration files of TensorFlow's model server, in protobuf's text format."""

import json
import os
from pathlib import Path

from keras_transformer.files.whole_files import writing
from keras_transformer.formats.export_contract import BATCHING_CONFIG, MODELS_CONFIG

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
# For `tensorflow_model_server --enable_batching --batching_parameters_file=...`: requests that come
# at the same time are computed together.

# Most sentences of a batch, and of one request. Memory grows with it.
max_batch_size { value: 32 }
# How long a request waits for others.
batch_timeout_micros { value: 2000 }
# How many batches may wait; what comes on top of them is refused as "unavailable".
max_enqueued_batches { value: 1000 }
# Batches that are computed at the same time.
num_batch_threads { value: 4 }
# `translate_ids`: rows of different lengths may meet. What fills them up is not read.
pad_variable_length_inputs: true
"""


def write_model_server_files(directory: Path, partial: Path) -> None:
    """Write `models.config` and `batching.config` where they are missing.

    Existing ones stay, because somebody may have edited them. `partial` is a directory beside the
    versions that only this process uses.
    """
    path = Path(os.path.abspath(directory))  # without "..", and symbolic links as they are
    models = _MODELS.format(name=_quoted(path.name), base_path=_quoted(path))
    for name, text in ((MODELS_CONFIG, models), (BATCHING_CONFIG, _BATCHING)):
        _write_if_missing(directory / name, text, partial / name)


def _write_if_missing(path: Path, text: str, partial: Path) -> None:
    """Write a file whole; `partial` is a name that only this process uses."""
    if path.exists():
        return
    with writing(path):
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)


def _quoted(value: str | Path) -> str:
    """A string in protobuf's text format, which has the escapes of JSON."""
    return json.dumps(str(value), ensure_ascii=False)
