"""`keras-transformer attention`: show a model's attention, as a page or a figure."""

import argparse
import pathlib
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.files import check_figure, find_output, tell, write_output
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_run_arguments,
    add_target_language,
    tell_search_taken,
)
from keras_transformer.toolkit.cli.program import open_in_browser

if TYPE_CHECKING:
    from keras_transformer.inference.attention_maps import AttentionMaps

PAGE = ".html"
OF_FIGURES = ("kind", "layer", "heads", "style")
# The same as in `interpretation`, which takes too long to import for `--help`.
KINDS = ("encoder", "decoder", "cross")
STYLES = ("lines", "matrix")


HELP = "show the attention of a model, as a page or a figure"
DESCRIPTION = """Write the attention of every layer and head for one sentence and its translation
as a page, one file to open in a browser; or the attention of one layer as a figure. For an
ensemble, the first model is shown. A parser's run works too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_run_arguments(parser)
    add_target_language(parser)
    add = parser.add_argument
    add("--source", required=True, metavar="TEXT", help="the source sentence")
    add(
        "--target",
        metavar="TEXT",
        help="its translation, or the bracketed tree for a parser (default: the best that the "
        "search finds)",
    )
    add(
        "--output",
        required=True,
        metavar="FILE",
        help="file to write: .html for the page; .png, .pdf or .svg for a figure",
    )
    add("--open", action="store_true", help="open the file in the browser")
    figure = parser.add_argument_group("figures").add_argument
    figure("--kind", choices=KINDS, help="which attention (default: cross)")
    figure(
        "--layer",
        type=positive_int,
        metavar="N",
        help="number of the layer, from 1 (default: the last but one)",
    )
    figure(
        "--heads",
        type=positive_int,
        nargs="+",
        metavar="N",
        help="numbers of the heads, from 1 (default: all)",
    )
    figure(
        "--style",
        choices=STYLES,
        help="lines between the two sentences, or a matrix for each head (default: lines)",
    )


def attention(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = check_figure(values.output, "--output", others=[PAGE])
    find_output(values.output)
    if ending == PAGE:
        for name in OF_FIGURES:
            if getattr(values, name) is not None:
                raise UserInputError(
                    f"`--{name}` is for figures; a page lets its reader choose. "
                    f"Received: --output {values.output}"
                )
    if not values.source.strip():
        raise UserInputError(f"`--source` must be a sentence. Received: {values.source!r}")
    models = NamedModels.of(values)
    if values.target is None:
        tell_search_taken(models.runs, {})
    start_backend_quietly()
    from keras_transformer.inference.attention_maps import attention_maps
    from keras_transformer.inference.attention_page import attention_page

    try:
        maps = attention_maps(_load(models), values.source, values.target)
    except SentenceTooLong as error:
        flag = "source" if error.name in ("sentences", "sources") else "target"
        message = str(error).replace(f"{error.name}[{error.index}]", f"--{flag}", 1)
        raise UserInputError(message) from error
    if ending == PAGE:
        content: str | bytes = attention_page(maps, values.source)
    else:
        content = _figure(
            maps,
            ending,
            kind=values.kind or KINDS[-1],
            layer=values.layer,
            heads=values.heads,
            style=values.style or STYLES[0],
        )
    write_output(values.output, content)
    print(values.output)
    if values.open:
        open_in_browser(pathlib.Path(values.output).absolute().as_uri())


def _load(models: NamedModels) -> Any:
    """Load the `Translator` of the runs, or the `Parser` of a run whose outputs are trees."""
    from keras_transformer.inference.parser import Parser
    from keras_transformer.runs.run_directory import RunDirectory

    if models.is_ensemble or RunDirectory.open(models.runs[0]).record().output != "trees":
        return models.load()
    if models.target_language is not None:
        raise UserInputError(
            "`--target-language` is for translations, not for a parser's run. "
            f"Received: --target-language {models.target_language}"
        )
    return Parser.load(models.runs[0], *(models.checkpoint or ()))


def _figure(
    maps: "AttentionMaps",
    ending: str,
    *,
    kind: Any,
    layer: int | None,
    heads: Sequence[int] | None,
    style: Any,
) -> bytes:
    """Return the content of a figure's file; layers and heads count from 1."""
    from keras_transformer.evaluation.figures import figure_file
    from keras_transformer.inference.attention_figure import attention_figure

    num_layers, num_heads = maps.weights(kind).shape[:2]
    layer = layer or max(1, num_layers - 1)
    _check_number("layer", layer, num_layers)
    for head in heads or ():
        _check_number("heads", head, num_heads)
    numbers = heads and [head - 1 for head in heads]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        figure = attention_figure(maps, kind, layer - 1, numbers, style=style)
        content = figure_file(figure, ending[1:])
    if any("missing from font" in str(warning.message) for warning in found):
        tell("warning: the fonts of this machine lack characters of the text: they are boxes.")
    return content


def _check_number(name: str, number: int, count: int) -> None:
    if number > count:
        raise UserInputError(
            f"`--{name}` must be at most {count}, the model's number. Received: --{name} {number}"
        )
