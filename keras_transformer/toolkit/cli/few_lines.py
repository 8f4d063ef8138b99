"""Translates a few lines with the LiteRT graph of earlier commands, without starting Keras."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import SentenceTooLong
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.inference.litert_graph import (
    MOST_ROWS,
    GraphRecipe,
    ModelFiles,
    may_use_graphs,
    ready_graph,
)
from keras_transformer.installation import LOG_LEVEL
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import NONE

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator
    from keras_transformer.toolkit.cli.run_exports import LineOptions


def few_lines(
    options: "LineOptions", num_lines: int, load: Callable[[], "Translator"]
) -> "FewLines | None":
    """Return a translator for about `num_lines` lines (0 if unknown), or None without a graph.

    `load` loads the translator for lines that the graph cannot translate.
    """
    models = options.models
    others = options.sampling, options.n_best, options.glossary, options.markup
    is_plain = others == (None,) * 4 and not options.tab_prefix and options.keep in (None, NONE)
    if num_lines > MOST_ROWS or models.is_ensemble or not is_plain or not may_use_graphs():
        return None
    os.environ.setdefault(LOG_LEVEL, "2")
    run = RunDirectory.open(models.runs[0])
    files = ModelFiles.of_run(run, run.find_weights(*(models.checkpoint or ())))
    search = dataclasses.asdict(options.full_search)
    recipe = GraphRecipe(files, search, options.shortlist, options.precision)
    graph = ready_graph(recipe, models.target_language)
    return None if graph is None else FewLines(graph, load)


class FewLines:
    """A graph for a few lines, and a translator that is loaded for anything else."""

    def __init__(self, graph: LiteRTTranslator, load: Callable[[], "Translator"]) -> None:
        self._graph = graph
        self._load = functools.cache(load)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the translations of lines."""
        if sum(bool(line.strip()) for line in lines) <= MOST_ROWS:
            with contextlib.suppress(SentenceTooLong):  # the graph's limit may be smaller
                return self._graph.translate(lines)
        return self._load().translate(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._load(), name)
