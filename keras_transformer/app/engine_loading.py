"""The engines of runs: what each run does is in its record."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from keras_transformer.app.engine import Engine
from keras_transformer.app.limits import AppLimits
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike


@contextlib.contextmanager
def loaded_engines(paths: Sequence[PathLike], limits: AppLimits) -> Iterator[list[Engine]]:
    """Runs at work, whose threads end with the block.

    Args:
        paths: run directories, of translators and parsers.
        limits: the app's limits.

    Yields:
        The engines, with compiled searches.

    Raises:
        UserInputError: a path is no run, or the files of a run are damaged.
    """
    runs = [RunDirectory.open(path) for path in paths]
    engines: list[Engine] = []
    with contextlib.ExitStack() as stack:
        for run, name in zip(runs, run_names(run.path for run in runs), strict=True):
            engine = _load(run, name, limits)
            stack.callback(engine.queue.close)
            engine.warm_up()
            engines.append(engine)
        yield engines


def run_names(paths: Iterable[Path]) -> list[str]:
    """Names of runs: the last parts of their paths, with numbers where these are the same.

    Example:
        >>> run_names([Path("runs/en_de"), Path("old/en_de"), Path("runs/parser")])
        ['en_de', 'en_de (2)', 'parser']
    """
    names: list[str] = []
    for path in paths:
        name = wanted = (
            Path(os.path.abspath(path)).name.encode("utf-8", "replace").decode() or "run"
        )
        number = 1
        while name in names:
            number += 1
            name = f"{wanted} ({number})"
        names.append(name)
    return names


def _load(run: RunDirectory, name: str, limits: AppLimits) -> Engine:
    if run.record().output == "trees":
        from keras_transformer.app.parsing_engine import ParsingEngine
        from keras_transformer.inference.parser import Parser

        parser = Parser.load(run.path, max_source_length=limits.tokens)
        return ParsingEngine(name, parser, limits)
    from keras_transformer.app.translation_engine import TranslationEngine
    from keras_transformer.inference.translator import Translator

    most = run.search_defaults().get("max_source_length", limits.tokens)
    translator = Translator.load(run.path, max_source_length=min(most, limits.tokens))
    return TranslationEngine(name, translator, limits)
