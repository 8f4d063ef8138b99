"""Presets: runs without checkpoints, to publish."""

from keras_transformer.formats.format import Format

PRESET = Format(
    name="preset",
    help="a preset: a run that contains only what translation needs, with small files",
    writer="preset_files:export_preset",
    precisions=("float32", "int8"),
    directory="output directory, which must be empty or not exist, or a new .zip file",
)
FORMATS = (PRESET,)
