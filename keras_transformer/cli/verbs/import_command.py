"""`keras-transformer import`: make a run from a model that another toolkit trained."""

import argparse
import shlex
from contextlib import nullcontext
from typing import NamedTuple

from keras_transformer.cli.program import Verbs
from keras_transformer.files.standard_streams import tell


class Kind(NamedTuple):
    """A kind of models: the words of its help."""

    importer: str  # name in `keras_transformer.interop`
    help: str
    description: str
    directory: str


KINDS = {
    "marian": Kind(
        "import_marian_runs",
        "a folder of Hugging Face or of Marian",
        "Make a run of a Marian model, such as one of OPUS-MT. Nothing in its files is run.",
        "a Hugging Face folder (config.json, model.safetensors or pytorch_model.bin, source.spm, "
        "target.spm, vocab.json), one of Marian (model.npz or model.bin, decoder.yml, and "
        "vocab.spm, or vocab.yml with source.spm and target.spm or .bpe files), or hf://NAME, such "
        "as hf://Helsinki-NLP/opus-mt-en-de",
    ),
    "ctranslate2": Kind(
        "import_ctranslate2_run",
        "a folder of CTranslate2, or a package of Argos Translate",
        "Make a run of a translation model of CTranslate2 or Argos Translate. Nothing in its files "
        "is run.",
        "a folder with model.bin and its vocabularies, or an .argosmodel file",
    ),
    "bergamot": Kind(
        "import_bergamot_run",
        "a folder of Bergamot, such as a model of Firefox Translations",
        "Make a run of a Bergamot model, such as one of Firefox Translations. Nothing in its files "
        "is run.",
        "a folder with model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm) and "
        "config.*.yml if there is one; the files may end in .gz or .zst",
    ),
}


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "import",
        help="import a model of OPUS-MT, of Marian or of Firefox, as a run",
        description="Make a run of a model that another toolkit trained, and print its path. Every "
        "verb takes it, and `train --from` trains it further.",
    )
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    for name, kind in KINDS.items():
        of_kind = kinds.add_parser(name, help=kind.help, description=kind.description)
        of_kind.add_argument("directory", metavar="DIR", help=kind.directory)
        of_kind.add_argument("run", metavar="RUN", help="run directory to write")
        of_kind.set_defaults(verb=import_, importer=kind.importer)


def import_(values: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_transformer.backend_start import start_backend_quietly

    start_backend_quietly()
    from keras_transformer import interop
    from keras_transformer.formats.preset_files import HUB, check_new_run, preset_folder

    check_new_run(values.run)
    # Bergamot's and CTranslate2's importers unpack their own files.
    is_preset = values.directory.startswith(HUB) or values.importer == KINDS["marian"].importer
    with preset_folder(values.directory) if is_preset else nullcontext(values.directory) as folder:
        found = getattr(interop, values.importer)(folder, values.run, origin=values.directory)
    runs = found if isinstance(found, list) else [found]
    for run in runs:
        print(run.path)
    if len(runs) > 1:
        paths = " ".join(shlex.quote(str(run.path)) for run in runs)
        tell(f"An ensemble of {len(runs)} models: keras-transformer translate {paths}")
