"""`keras-transformer import`: make a run from a model that another toolkit trained."""

import argparse

from keras_transformer.cli.program import Verbs


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "import",
        help="import a Marian model, such as an OPUS-MT model, as a run",
        description="Make a run from a model that another toolkit trained, and print its path. "
        "Every verb takes this run, and `train --from` trains it further.",
    )
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    marian = kinds.add_parser(
        "marian",
        help="a Hugging Face or Marian folder",
        description="Make a run from a Marian model. No code in its files is executed.",
    )
    marian.add_argument(
        "directory",
        metavar="DIR",
        help="a Hugging Face folder (config.json, model.safetensors or pytorch_model.bin, "
        "source.spm, target.spm, vocab.json), a Marian folder (model.npz, decoder.yml, vocab.yml, "
        "source.spm, target.spm), or hf://NAME, such as hf://Helsinki-NLP/opus-mt-en-de",
    )
    marian.add_argument("run", metavar="RUN", help="run directory to write")
    marian.set_defaults(verb=import_)


def import_(values: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_transformer.backend_start import start_backend_quietly

    start_backend_quietly()
    from keras_transformer.formats.preset_files import check_new_run, preset_folder
    from keras_transformer.interop import import_marian_run

    check_new_run(values.run)
    with preset_folder(values.directory) as folder:
        run = import_marian_run(folder, values.run, origin=values.directory)
    print(run.path)
