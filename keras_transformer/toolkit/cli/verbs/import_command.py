"""`keras-transformer import`: import another toolkit's model as a run."""

import argparse
import shlex
from contextlib import nullcontext

from keras_transformer.files import tell
from keras_transformer.formats.format import at
from keras_transformer.formats.registry import FORMATS

# Preset formats first.
IMPORTS = dict(
    sorted(
        ((name, each.importer) for name, each in FORMATS.items() if each.importer),
        key=lambda item: not item[1].is_preset,
    )
)


HELP = "import an OPUS-MT, Marian or Firefox model as a run"
DESCRIPTION = """Import another toolkit's model as a run, and print its path. Every verb accepts the
run, and `train --from` fine-tunes it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    for name, kind in IMPORTS.items():
        of_kind = kinds.add_parser(name, help=kind.help, description=kind.description)
        of_kind.add_argument("directory", metavar="MODEL", help=kind.directory)
        of_kind.add_argument("run", metavar="RUN", help="run directory to create")
        of_kind.set_defaults(importer=kind)


def import_(values: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_transformer.installation import start_backend_quietly

    start_backend_quietly()
    from keras_transformer.formats.preset_files import HUB, check_new_run, preset_folder

    check_new_run(values.run)
    is_preset = values.importer.is_preset or values.directory.startswith(HUB)
    with preset_folder(values.directory) if is_preset else nullcontext(values.directory) as folder:
        found = at(values.importer.place)(folder, values.run, origin=values.directory)
    runs = found if isinstance(found, list) else [found]
    for run in runs:
        print(run.path)
    if len(runs) > 1:
        paths = " ".join(shlex.quote(str(run.path)) for run in runs)
        tell(f"An ensemble of {len(runs)} models: keras-transformer translate {paths}")
