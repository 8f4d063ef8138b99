"""Trained models that come with the package, and names that stand for them.

They are folders next to a list, `models.csv`: in `saved_models/` of a clone, or in the distribution
keras-transformer-garden-models. The engine of `export page` lies next to them.
"""

import contextlib
import csv
import dataclasses
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files import note
from keras_transformer.input_files import MOST_RECORD_BYTES, read_lines
from keras_transformer.types import PathLike

LIST = "models.csv"
_CLONE = Path(__file__).parents[2] / "saved_models"
_PACKAGE = "keras_transformer_models"
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Size = Annotated[float, msgspec.Meta(gt=0)]

_note_once = functools.cache(note)


@dataclasses.dataclass(frozen=True)
class ShippedModel:
    """A trained model that comes with the package, as returned by `presets`.

    Attributes:
        name: name for `Translator.from_preset` and for commands.
        source_language, target_language: codes such as "en".
        megabytes: size of its files.
        bleu: BLEU on the text `bleu_text`.
        bleu_text: name of that text.
        sentences_per_second: speed on one core, one sentence at a time.
        license: license of the model.
        description: one line about the model.
        path: its folder, a preset with a LiteRT export in `litert/`.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^\w[\w.-]*$")]
    source_language: _Text
    target_language: _Text
    megabytes: _Size
    bleu: _Size
    bleu_text: _Text
    sentences_per_second: _Size
    license: _Text
    description: _Text
    path: Path = Path()

    @property
    def languages(self) -> str:
        """The codes of the languages, such as "en → de"."""
        return f"{self.source_language} → {self.target_language}"


def presets() -> list[ShippedModel]:
    """Return the models that come with the package, in the order of their list.

    Raises:
        UserInputError: the list is damaged.

    Example:

    ```python
    for model in presets():
        print(model.name, model.bleu)
    ```
    """
    found: dict[str, ShippedModel] = {}
    for folder in _folders():
        for model in _read_list(folder / LIST):
            model = dataclasses.replace(model, path=folder / model.name)
            if (model.path / "run.json").is_file():
                found.setdefault(model.name, model)
    return list(found.values())


def table_of(models: Sequence[ShippedModel]) -> list[list[str]]:
    """Return the rows of a table of models, with its head."""
    head = "name languages MB BLEU on sentences/s license description".split()
    return [head] + [
        [
            each.name,
            each.languages,
            *(f"{each.megabytes:g}", f"{each.bleu:.1f}", each.bleu_text),
            *(f"{each.sentences_per_second:g}", each.license, each.description),
        ]
        for each in models
    ]


def _folders() -> Iterator[Path]:
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (_CLONE, *(spec.submodule_search_locations or () if spec else ())):
        if Path(folder, LIST).is_file():
            yield Path(folder)


def shipped_folder(name: str) -> Path:
    """Return a folder of other files that come with the models, such as an engine.

    Raises:
        UserInputError: they are not installed.
    """
    for folder in _folders():
        if (folder / name).is_dir():
            return folder / name
    raise UserInputError(
        f"The files `{name}` are not installed: they are in a clone of the package, and in the "
        "wheel keras-transformer-garden-models, which `make wheel` builds there."
    )


def _read_list(path: Path) -> list[ShippedModel]:
    try:
        rows = list(csv.DictReader(read_lines(path, MOST_RECORD_BYTES)))
        return msgspec.convert(rows, list[ShippedModel], strict=False)
    except (csv.Error, msgspec.ValidationError) as error:
        raise UserInputError(f"{path} is damaged: {error}.") from error


def found_run(path: PathLike) -> Path:
    """Return the path of a run or a preset, which may be given as the name of a shipped model.

    Files and folders with this name take precedence. A note tells which of the two was taken.
    """
    name, exists = os.fspath(path), os.path.lexists(path)
    models: dict[str, ShippedModel] = {}
    if os.path.basename(name) == name:
        with contextlib.suppress(UserInputError) if exists else contextlib.nullcontext():
            models = {model.name: model for model in presets()}
    shipped = models[name].path if name in models else None
    if shipped is None or os.path.realpath(path) == os.path.realpath(shipped):
        return Path(path)
    taken = f"{os.path.abspath(path)}, not the" if exists else "the"
    _note_once(f"{name}: {taken} shipped model in {shipped}")
    return Path(path) if exists else shipped


def names_to_try() -> str:
    """Return a sentence with the names of the shipped models, after a space, or an empty string."""
    names = ", ".join(model.name for model in presets())
    return f" Shipped models: {names}." if names else ""


def shipped_graph(run: Path) -> Path | None:
    """Return the LiteRT export of a shipped model, or None for other runs."""
    path = run / "litert"
    shipped = (model.path for model in presets())
    return path if path.is_dir() and any(run.samefile(each) for each in shipped) else None
