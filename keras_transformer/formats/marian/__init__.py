"""Marian models for Marian itself, Hugging Face Transformers and Bergamot."""

from typing import Literal, get_args

from keras_transformer.formats.format import Flag, Format, Import

BergamotPrecision = Literal["float32", "int8"]
CALIBRATION = Flag(
    "--calibration",
    "calibration",
    "a few hundred typical source sentences, one per line; int8 needs them",
    metavar="FILE",
)
MARIAN = Format(
    name="marian",
    help="a folder for Hugging Face's MarianMTModel and MarianTokenizer",
    writer="marian.writer:export_marian",
    files=("vocab.json", "vocab.spm", "target.spm"),
    flags=(
        Flag(
            "--native",
            "native",
            "write model.npz, vocab.spm and decoder.yml for Marian itself instead",
        ),
    ),
    importer=Import(
        "marian.reader:import_marian_runs",
        help="a Hugging Face or Marian folder",
        description="Import a Marian model, such as an OPUS-MT model, as a run. No code in its "
        "files is executed.",
        directory="a Hugging Face folder (config.json, model.safetensors or pytorch_model.bin, "
        "source.spm, target.spm, vocab.json), a Marian folder (model.npz or model.bin, "
        "decoder.yml, and vocab.spm, or vocab.yml with source.spm and target.spm or .bpe files), "
        "or hf://NAME, such as hf://Helsinki-NLP/opus-mt-en-de",
        is_preset=True,
    ),
)
BERGAMOT = Format(
    name="bergamot",
    help="a folder for Bergamot, the engine of Firefox Translations",
    writer="marian.bergamot_writer:export_bergamot",
    precisions=get_args(BergamotPrecision),
    files=("vocab.*.spm",),
    directory="output directory, named after the languages, such as firefox/enpt, which must "
    "be empty or not exist",
    flags=(CALIBRATION,),
    importer=Import(
        "marian.reader:import_bergamot_run",
        help="a Bergamot folder, such as a Firefox Translations model",
        description="Import a Bergamot model, such as a Firefox Translations model, as a run. No "
        "code in its files is executed.",
        directory="a folder with model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm) "
        "and config.*.yml if there is one; the files may end in .gz or .zst",
    ),
)
FORMATS = (MARIAN, BERGAMOT)
