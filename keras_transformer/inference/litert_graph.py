"""LiteRT graphs that translate a few sentences sooner than TensorFlow, kept in the user's cache.

A separate process makes a graph from the files of a run or a preset (`graph_maker.py`). Its name is
a hash of everything that determines its outputs.
"""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Self

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum, note
from keras_transformer.formats.registry import FORMAT_VERSION
from keras_transformer.installation import (
    LOG_LEVEL,
    MOST_AT_ONCE,
    __version__,
    has_accelerator,
    num_cores,
    user_cache,
)
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.shipped_models import shipped_graph
from keras_transformer.search_options import TRANSLATION
from keras_transformer.text.sentence_encoding import batches_by_length
from keras_transformer.types import PathLike, Tensor

if TYPE_CHECKING:
    import keras

    from keras_transformer.formats.export_translator import IdsGenerator
    from keras_transformer.formats.litert.reader import LiteRTTranslator
    from keras_transformer.formats.sentence_translator import Rows

Precision = Literal["float32", "int8"]
MOST_ROWS = 4  # more sentences are as fast in TensorFlow's batches, in float32
MANY_ROWS = 32  # sentences in a batch of an int8 graph
SMALL = 16 << 20  # bytes of a graph whose products are too small to be worth a second thread
# The environment variable that replaces the engine "auto", such as for tests.
ENGINE = "KERAS_TRANSFORMER_ENGINE"


@dataclasses.dataclass(frozen=True)
class ModelFiles:
    """The files of a model, and how `Translator` loads them.

    Args:
        method: "load" or "from_preset".
        arguments: arguments of the method.
        paths: the files that it reads.
        digests: the checksums of the files when the model was loaded.
    """

    method: Literal["load", "from_preset"]
    arguments: Sequence[str]
    paths: Sequence[str]
    digests: Sequence[str]

    @classmethod
    def of_run(cls, run: RunDirectory, weights: Path) -> Self:
        """Return the files of a run with these weights."""
        others = run.model_path, run.tokenizer_path, run.source_tokenizer_path, run.shortlist_path
        paths = [weights, *(path for path in others if path.exists())]
        arguments = os.path.abspath(run.path), os.path.abspath(weights)
        return cls._read("load", arguments, [*map(os.path.abspath, paths)])

    @classmethod
    def of_preset(cls, name: PathLike, folder: Path) -> Self:
        """Return the files of a preset that was found in `folder`."""
        path = Path(name)
        if path.is_file():
            return cls._read("from_preset", [os.path.abspath(path)], [os.path.abspath(path)])
        paths = [os.path.abspath(path) for path in sorted(folder.iterdir()) if path.is_file()]
        place = os.path.abspath(path) if path.is_dir() else str(name)
        return cls._read("from_preset", [place], paths)

    @classmethod
    def _read(cls, method: Any, arguments: Sequence[str], paths: Sequence[str]) -> Self:
        return cls(method, arguments, paths, [checksum(path) for path in paths])

    def check(self) -> None:
        """Raise a `UserInputError` if the files have changed."""
        if [checksum(path) for path in self.paths] != [*self.digests]:
            raise UserInputError("the files of the model have changed.")


@dataclasses.dataclass(frozen=True)
class GraphRecipe:
    """Everything that determines a graph.

    Args:
        files: the files of the model.
        search: the search options, as a dict.
        shortlist: whether the search uses the shortlist among the files.
        precision: number format of the weights.
    """

    files: ModelFiles
    search: dict[str, object]
    shortlist: bool
    precision: Precision

    def name(self) -> str:
        """Return the name of the graph's folder."""
        options = self.search, self.shortlist, self.precision
        text = json.dumps([[*self.files.digests], options, __version__, FORMAT_VERSION])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class LiteRTGraph:
    """The LiteRT graph of a translator, which a process begins to make when it is first asked for.

    Until the graph is ready, and whenever it does not suit, the caller computes by itself. A graph
    in float32 suits a few sentences, and one in int8 any number of sentences. If the graph cannot
    be made, a note says so once.

    Args:
        recipe: how to make it.
    """

    def __init__(self, recipe: GraphRecipe) -> None:
        self._recipe = recipe
        self._name = recipe.name()
        self._watched: tuple[Callable[[], np.ndarray], np.ndarray] | None = None
        self._lock = threading.Lock()
        self._maker: subprocess.Popen[bytes] | None = None
        self._messages: IO[bytes] | None = None
        self._reader: LiteRTTranslator | None = None
        self._is_given_up = False

    def watch(self, models: "Sequence[keras.Model]") -> None:
        """Stop using the graph when the weights of these models change.

        Args:
            models: the models that were loaded from the files of the recipe, before the user gets
                them. Comparing their weights takes a tenth of a short search.
        """
        with self._lock:
            if self._watched is None:
                sample = _sampler(models)
                self._watched = sample, sample()

    def search(
        self, rows: "Rows", progress: bool = False
    ) -> "Iterator[tuple[int, Rows, list[float]]] | None":
        """Search for the best output of rows of source ids, as `RowGenerator.search` does.

        Returns None if the graph is not ready or does not suit the rows.
        """
        number = sum(map(bool, rows))
        if not self.is_ready(number) or self._reader is None:
            return None
        if 1 + max(map(len, rows)) > self._reader.settings["limits"]["max_source_length"]:
            return None
        if number <= MOST_ROWS:
            return self._reader.ids_generator.search(rows, [[]] * len(rows), 1, progress)
        return self._search_many(rows, progress)

    def is_ready(self, number: int) -> bool:
        """Return whether the graph is ready for this many rows, and start to make it if needed."""
        is_small = number <= MOST_ROWS
        if not number or self._is_given_up or not (is_small or self._may_be_int8):
            return False
        if self._watched is not None:
            sample, weights = self._watched
            if not np.array_equal(sample(), weights):
                return False
        reader = self._reader or self._found()
        return reader is not None and (is_small or reader.settings["precision"] == "int8")

    def _search_many(
        self, rows: "Rows", progress: bool
    ) -> "Iterator[tuple[int, Rows, list[float]]]":
        """Search in several threads, each with an interpreter, which share the batches."""
        rows_in_use = [i for i, row in enumerate(rows) if row]
        batches = batches_by_length(rows_in_use, [*map(len, rows)], MANY_ROWS, progress)
        lock = threading.Lock()

        def search(generator: "IdsGenerator") -> "Iterator[tuple[int, Rows, list[float]]]":
            while True:
                with lock:
                    indices = next(batches, None)
                if indices is None:
                    return
                found = generator.search([rows[i] for i in indices], [[]] * len(indices), 1)
                yield from ((indices[i], ids, scores) for i, ids, scores in found)

        generators = self._generators
        with ThreadPoolExecutor(len(generators)) as threads:
            for found in threads.map(lambda each: [*search(each)], generators):
                yield from found

    @functools.cached_property
    def _may_be_int8(self) -> bool:
        return self._recipe.precision == "int8" or _shipped_path(self._recipe) is not None

    @functools.cached_property
    def _generators(self) -> "list[IdsGenerator]":
        assert self._reader is not None
        path, at_once = self._reader.directory, min(MOST_AT_ONCE, num_cores())
        readers = [_read(path, batch_size=MANY_ROWS, num_threads=1) for _ in range(at_once)]
        return [reader.ids_generator for reader in readers]

    def _found(self) -> "LiteRTTranslator | None":
        with self._lock:
            if self._reader is None and not self._is_given_up:
                try:
                    self._reader = self._open_or_make()
                except (UserInputError, OSError, RuntimeError) as error:  # such as no home folder
                    self._is_given_up = True
                    note(f"Single sentences are translated without a LiteRT graph: {error}")
        return self._reader

    def _open_or_make(self) -> "LiteRTTranslator | None":
        if self._maker is None:
            if reader := _shipped(self._recipe):
                return reader
            path = _folder() / self._name
            reader = opened(path)
            if reader is None:
                self._start(path)
            return reader
        if self._maker.poll() is None:
            return None
        reader = opened(_folder() / self._name)
        if reader is None:
            assert self._messages is not None
            self._messages.seek(0)
            text = self._messages.read().decode("utf-8", "replace").strip()
            raise UserInputError(text.rpartition("\n")[2] or "the process that made it has ended.")
        return reader

    def _start(self, path: Path) -> None:
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (read when the process has ended)
        program = "import sys; from keras_transformer.inference.graph_maker import main; "
        self._maker = subprocess.Popen(
            [
                *(sys.executable, "-P", "-c", f"{program} main(*sys.argv[1:])"),
                *(json.dumps(dataclasses.asdict(self._recipe)), str(path)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._messages,
            start_new_session=True,  # not interrupted by Ctrl-C
            env={
                **os.environ,
                LOG_LEVEL: "2",
                "KERAS_BACKEND": "tensorflow",
                "CUDA_VISIBLE_DEVICES": "-1",
            },
        )


def may_use_graphs() -> bool:
    """Return whether LiteRT is installed and the user has not turned the graphs off."""
    return (
        os.environ.get(ENGINE) != "own" and importlib.util.find_spec("ai_edge_litert") is not None
    )


def suits_this_machine() -> bool:
    """Return whether graphs may be used and TensorFlow computes on a CPU."""
    import keras

    on_tensorflow = keras.backend.backend() == "tensorflow"
    return may_use_graphs() and on_tensorflow and not has_accelerator()


def ready_graph(recipe: GraphRecipe, target_language: str | None) -> "LiteRTTranslator | None":
    """Return the reader of a graph that exists, for sentences in any number."""
    try:
        path = _folder() / recipe.name()
        options = {"target_language": target_language}
        return _shipped(recipe, **options) or opened(path, **options)
    except (UserInputError, OSError, RuntimeError):
        return None


def _folder() -> Path:
    """Return the folder of the graphs, which only this user can read and write."""
    folder = user_cache("graphs")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(folder)
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077):
        raise UserInputError(f"{folder} must belong to this user, with the mode 0700.")
    return folder


def opened(path: Path, **options: Any) -> "LiteRTTranslator | None":
    """Return the reader of a graph, or None if it is missing, damaged or another user's.

    `options` are arguments of `LiteRTTranslator`.
    """
    if path.is_symlink() or not path.is_dir() or not _is_ours([path, *path.iterdir()]):
        return None
    with contextlib.suppress(UserInputError):
        reader = _read(path, **options)
        with contextlib.suppress(OSError):  # on a disk that is read-only
            os.utime(path)
        return reader
    return None


def _shipped(recipe: GraphRecipe, **options: Any) -> "LiteRTTranslator | None":
    """Return the reader of a shipped model's own graph if it has the search of the recipe.

    The graph may have another precision, and a shortlist that the recipe does not ask for.
    `options` are arguments of `LiteRTTranslator`.
    """
    with contextlib.suppress(UserInputError):
        path = _shipped_path(recipe)
        reader = None if path is None else _read(path, **options)
        if reader and _has_search(reader.settings, recipe):
            return reader
    return None


def _shipped_path(recipe: GraphRecipe) -> Path | None:
    return shipped_graph(Path(recipe.files.paths[0]).parent)


def _has_search(settings: Mapping[str, Any], recipe: GraphRecipe) -> bool:
    given = {**settings["search"], "extra_length": settings["limits"]["extra_length"]}
    found = {**dataclasses.asdict(TRANSLATION), **given}  # older exports lack newer options
    differing = {name for name, value in recipe.search.items() if found[name] != value}
    return recipe.shortlist <= settings["shortlist"] and differing <= {
        "max_source_length",  # rows that are too long are translated by the caller
        "num_results",
    }


def _read(path: PathLike, **options: Any) -> "LiteRTTranslator":
    from keras_transformer.formats.litert.reader import LiteRTDirectory, LiteRTTranslator

    model_path = LiteRTDirectory(path).model_path
    is_small = model_path.is_file() and model_path.stat().st_size < SMALL
    options = {"batch_size": MOST_ROWS, "num_threads": 1 if is_small else None, **options}
    return LiteRTTranslator(path, long_sentences="refuse", **options)


def _is_ours(paths: Iterable[Path]) -> bool:
    if not hasattr(os, "getuid"):
        return True
    found = [os.lstat(path) for path in paths]
    return all(each.st_uid == os.getuid() and not stat.S_ISLNK(each.st_mode) for each in found)


def _sampler(models: "Sequence[keras.Model]") -> Callable[[], np.ndarray]:
    """Return a function that returns an element of each weight, which training changes."""
    import tensorflow as tf

    variables = [variable.value for model in models for variable in model.weights]

    @functools.partial(tf.function, autograph=False)
    def sample() -> Tensor:
        chosen = [
            tf.raw_ops.ResourceGatherNd(
                resource=each.handle, indices=[size // 2 for size in each.shape], dtype=each.dtype
            )
            for each in variables
        ]
        return tf.stack([tf.cast(value, tf.float32) for value in chosen])

    concrete = sample.get_concrete_function()  # a call through `sample` takes twice the time
    return lambda: concrete().numpy()
