"""`keras-transformer attention`: show a model's attention as a page or a figure."""

import argparse
import dataclasses
import pathlib
import warnings
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.files import check_figure, tell, write_output
from keras_transformer.installation import start_backend_quietly
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_run_arguments,
    tell_search_taken,
)
from keras_transformer.toolkit.cli.program import add_flags, flag, open_in_browser

if TYPE_CHECKING:
    from keras_transformer.inference.attention_maps import AttentionMaps

PAGE = ".html"
# Duplicated from `interpretation`, whose import is too slow for `--help`.
KINDS = ("encoder", "decoder", "cross", "alignment")
STYLES = ("lines", "matrix")


HELP = "show the attention of a model as a page or a figure"
DESCRIPTION = """Show the attention of a model for one sentence and its translation: all layers and
heads in an HTML page, or one layer in a figure. For an ensemble, the first model is shown. The run
of a parser works too."""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The verb's flags."""

    source: str = flag("the source sentence", required=True, metavar="TEXT")
    target: str | None = flag(
        "the translation, or the bracketed tree for a parser (default: the best output of the "
        "search)",
        metavar="TEXT",
    )
    output: str = flag(
        "output file: .html for the page; .png, .pdf or .svg for a figure",
        required=True,
        metavar="FILE",
    )
    open: bool = flag("open the file in the browser", False)


@dataclasses.dataclass(frozen=True)
class _FigureFlags:
    """Flags for figures."""

    kind: str | None = flag("kind of attention (default: cross)", choices=KINDS)
    layer: int | None = flag(
        "number of the layer, starting at 1 (default: the second to last)", type=positive_int
    )
    heads: list[int] | None = flag(
        "numbers of the heads, starting at 1 (default: all)", type=positive_int, nargs="+"
    )
    style: str | None = flag(
        "lines between the two sentences, or a matrix for each head (default: lines)",
        choices=STYLES,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_run_arguments(parser)
    add_flags(parser, NamedModels, "target_language")
    add_flags(parser, _Flags)
    add_flags(parser.add_argument_group("figures"), _FigureFlags)


def attention(values: argparse.Namespace) -> None:
    """Run the verb."""
    ending = check_figure(values.output, "--output", others=[PAGE])
    if ending == PAGE:
        for field in dataclasses.fields(_FigureFlags):
            if getattr(values, field.name) is not None:
                raise UserInputError(
                    f"`--{field.name}` is only for figures; the page shows everything. "
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
        content = _figure(maps, ending, values)
    write_output(values.output, content)
    print(values.output)
    if values.open:
        open_in_browser(pathlib.Path(values.output).absolute().as_uri())


def _load(models: NamedModels) -> Any:
    """Load a `Translator` for the runs, or a `Parser` if the run outputs trees."""
    from keras_transformer.inference.parser import Parser
    from keras_transformer.runs.run_directory import RunDirectory

    if models.is_ensemble or RunDirectory.open(models.runs[0]).record().output != "trees":
        return models.load()
    if models.target_language is not None:
        raise UserInputError(
            "`--target-language` is only for translations, not for the run of a parser. "
            f"Received: --target-language {models.target_language}"
        )
    return Parser.load(models.runs[0], *(models.checkpoint or ()))


def _figure(maps: "AttentionMaps", ending: str, values: argparse.Namespace) -> bytes:
    """Return the contents of a figure file."""
    from keras_transformer.evaluation.figures import figure_file
    from keras_transformer.inference.attention_figure import attention_figure

    kind: Any = values.kind or "cross"
    style: Any = values.style or STYLES[0]
    num_layers, num_heads = maps.weights(kind).shape[:2]
    layer = values.layer or max(1, num_layers - 1)  # layers and heads are counted from 1
    _check_number("layer", layer, num_layers)
    for head in values.heads or ():
        _check_number("heads", head, num_heads)
    numbers = values.heads and [head - 1 for head in values.heads]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        figure = attention_figure(maps, kind, layer - 1, numbers, style=style)
        content = figure_file(figure, ending[1:])
    if any("missing from font" in str(warning.message) for warning in found):
        tell("warning: the installed fonts lack some characters of the text, shown as boxes.")
    return content


def _check_number(name: str, number: int, count: int) -> None:
    if number > count:
        raise UserInputError(
            f"`--{name}` must be at most {count}, the model's number. Received: --{name} {number}"
        )
