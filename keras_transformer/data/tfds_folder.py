"""Translation data sets that TensorFlow Datasets has prepared, read without it."""

import os
import pathlib
import re
from collections.abc import Iterator
from typing import Annotated

import msgspec

from keras_transformer.data.tfrecords import read_records
from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_record
from keras_transformer.files.protocol_buffers import BYTES, fields
from keras_transformer.types import PathLike

_VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
_SHARDS = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"  # the default names of files

_ADVICE = "Prepare the data set again."

# Protocol buffers write large integers into JSON as strings.
_Count = Annotated[str, msgspec.Meta(pattern=r"^\d{1,18}$")] | Annotated[int, msgspec.Meta(ge=0)]

_Name = Annotated[str, msgspec.Meta(max_length=200)]


class _Split(msgspec.Struct):
    name: _Name
    shardLengths: list[_Count]
    numBytes: _Count
    filepathTemplate: _Name = _SHARDS


class _Info(msgspec.Struct):
    name: _Name
    splits: list[_Split] = []
    fileFormat: str = "tfrecord"


class _Translation(msgspec.Struct):
    languages: list[str] = []


class _Features(msgspec.Struct):
    translation: _Translation = msgspec.field(default_factory=_Translation)


class TfdsFolder:
    """The latest version of a data set in the folder of TFDS.

    Reference: https://www.tensorflow.org/tutorials/load_data/tfrecord
    """

    def __init__(self, name: str, data_dir: PathLike | None = None) -> None:
        default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
        self._name = name
        self._path = _latest_version(pathlib.Path(data_dir or default).expanduser(), name)
        self._info = read_record(self._path / "dataset_info.json", _Info, _ADVICE)
        self._splits = {split.name: split for split in self._info.splits}
        self._features = read_record(self._path / "features.json", _Features, _ADVICE)
        file_format = self._info.fileFormat
        if file_format != "tfrecord":
            raise _needs_tfds(f"The data set {name} has files of the format {file_format[:60]}")

    @property
    def full_name(self) -> str:
        """Name with configuration and version."""
        return f"{self._name}/{self._path.name}"

    @property
    def languages(self) -> list[str]:
        """The languages of a pair."""
        return self._features.translation.languages

    @property
    def num_bytes(self) -> int:
        """Bytes of all splits."""
        return sum(int(split.numBytes) for split in self._splits.values())

    def prepare(self, download: bool) -> None:
        """Do nothing, as the data set is prepared already."""

    def num_examples(self, split: str) -> int:
        """Return the number of pairs of a split."""
        return sum(map(int, self._find(split).shardLengths))

    def examples(self, split: str) -> Iterator[dict[str, bytes]]:
        """Yield the pairs of a split: sentences in UTF-8 by language."""
        found = self._find(split)
        number = len(found.shardLengths)
        for shard, count in enumerate(found.shardLengths):
            path = self._path / self._file_name(found, f"{shard:05}-of-{number:05}")
            for record in read_records(path, int(count)):
                try:
                    yield _example(record)
                except (ValueError, IndexError) as error:
                    raise UserInputError(f"{path} is damaged. {_ADVICE}") from error

    def _file_name(self, split: _Split, shard: str) -> str:
        """The name of a file, from a template that is not trusted."""
        name = split.filepathTemplate
        values = {
            "DATASET": self._info.name,
            "SPLIT": split.name,
            "FILEFORMAT": "tfrecord",
            "SHARD_X_OF_Y": shard,
        }
        for key, value in values.items():
            name = name.replace(f"{{{key}}}", value)
        if "\0" in name or pathlib.PurePath(name).name != name:
            raise UserInputError(
                f"{self._path / 'dataset_info.json'} is damaged: it names the file {name[:60]!r}. "
                + _ADVICE
            )
        return name

    def _find(self, split: str) -> _Split:
        if split in self._splits:
            return self._splits[split]
        if "[" in split or "+" in split:
            raise _needs_tfds(f"{split} is a part of a split")
        raise UserInputError(
            f"The data set {self._name}: Unknown split {split!r}. "
            f"Should be one of {list(self._splits)}"
        )


def _latest_version(data_dir: pathlib.Path, name: str) -> pathlib.Path:
    """The folder of the highest version of a data set."""
    versions = [path.parent for path in (data_dir / name).glob("*.*.*/dataset_info.json")]
    versions = [path for path in versions if _VERSION.fullmatch(path.name)]
    if not versions:
        raise _needs_tfds(f"The data set {name} is not prepared in {data_dir}")
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")])


def _needs_tfds(reason: str) -> UserInputError:
    return UserInputError(
        f"{reason}: that needs TensorFlow Datasets, which is not installed "
        f"({pip_install('tensorflow')})"
    )


def _example(record: bytes) -> dict[str, bytes]:
    """Names and values of a `tf.train.Example` whose features hold one string each.

    An Example holds Features, which hold entries of a name and a Feature, which holds a BytesList.
    All but the name are field 1 of their message.
    """
    values = {}
    for _, features in _contents(record):
        for _, entry in _contents(features):
            name, feature = (value for _, value in sorted(_contents(entry)))
            ((_, byte_list),) = _contents(feature)
            ((_, value),) = _contents(byte_list)
            values[name.decode("utf-8")] = value
    return values


def _contents(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield `(number, content)` of a message's fields, all of which must be bytes."""
    for (number, kind), content in fields(message):
        if kind != BYTES:
            raise ValueError("a field is neither a message nor a string")
        yield number, content
