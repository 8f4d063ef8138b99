"""`keras-transformer models`: list the models that come with the package."""

import argparse
import dataclasses
import json

from keras_transformer.toolkit.cli.program import add_flags, flag

HELP = "list the trained models that come with the package"
DESCRIPTION = """Print the trained models that come with the package, with their languages, size,
BLEU, speed on one core (one sentence at a time) and license. Every verb that takes a RUN accepts
their names."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    json: bool = flag("print JSON", False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_flags(parser, _Flags)


def models(values: argparse.Namespace) -> None:
    """Run the verb."""
    from keras_transformer.runs.shipped_models import presets, table_of
    from keras_transformer.text.text_lines import text_table

    found = presets()
    if values.json:
        print(json.dumps([dataclasses.asdict(model) for model in found], indent=2, default=str))
    elif found:
        print(text_table(table_of(found), align="<<>><><<"))
    else:
        print("No models are shipped with this installation.")
