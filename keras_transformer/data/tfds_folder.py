"""Translation data sets that TensorFlow Datasets has prepared, read without it."""

import json
import os
import pathlib
import struct

from keras_transformer.errors import UserInputError

_LENGTH = struct.Struct("<Q")
_CHECKSUM_BYTES = 4
_SHARDS = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"  # the names of files, if nothing is said


class TfdsFolder:
    """A data set in the folder of TFDS, as its files say; of several versions the latest.

    Args:
        name: what TFDS calls it, such as `"wmt14_translate/de-en"`.
        data_dir: folder of TFDS. None: `$TFDS_DATA_DIR` or `~/tensorflow_datasets`.

    Raises:
        UserInputError: the data set is not there, or in another form than TFRecord files.

    Reference: https://www.tensorflow.org/tutorials/load_data/tfrecord
    """

    def __init__(self, name, data_dir=None):
        default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
        self._name = name
        self._path = _latest_version(pathlib.Path(data_dir or default).expanduser(), name)
        self._info = _read_json(self._path / "dataset_info.json")
        self._splits = {split["name"]: split for split in self._info.get("splits", [])}
        self._features = _read_json(self._path / "features.json")
        file_format = self._info.get("fileFormat", "tfrecord")
        if file_format != "tfrecord":
            raise _needs_tfds(f"The data set {name} has files of the format {file_format}")

    @property
    def full_name(self):
        """Name with configuration and version."""
        return f"{self._name}/{self._path.name}"

    @property
    def languages(self):
        """List of the languages of a pair."""
        return list(self._features.get("translation", {}).get("languages", []))

    @property
    def num_bytes(self):
        """Bytes of all splits."""
        return sum(int(split["numBytes"]) for split in self._splits.values())

    def prepare(self, download):
        """As the library would; here the data set is prepared, else it could not be opened."""

    def num_examples(self, split):
        """Number of pairs of a split."""
        return sum(map(int, self._find(split)["shardLengths"]))

    def examples(self, split):
        """Yield the pairs of a split: language -> sentence in UTF-8."""
        found = self._find(split)
        number = len(found["shardLengths"])
        for shard in range(number):
            file_name = found.get("filepathTemplate", _SHARDS).format(
                DATASET=self._info["name"],
                SPLIT=split,
                FILEFORMAT="tfrecord",
                SHARD_X_OF_Y=f"{shard:05}-of-{number:05}",
            )
            for record in _records(self._path / file_name):
                try:
                    yield _example(record)
                except (ValueError, IndexError) as error:
                    raise UserInputError(f"{self._path / file_name} is damaged") from error

    def _find(self, split):
        if split in self._splits:
            return self._splits[split]
        if "[" in split or "+" in split:
            raise _needs_tfds(f"{split} is a part of a split")
        raise UserInputError(
            f"The data set {self._name}: Unknown split {split!r}. "
            f"Should be one of {list(self._splits)}"
        )


def _latest_version(data_dir, name):
    """The folder of the highest version of a data set."""
    versions = [path.parent for path in (data_dir / name).glob("*.*.*/dataset_info.json")]
    if not versions:
        raise _needs_tfds(f"The data set {name} is not prepared in {data_dir}")
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")])


def _needs_tfds(reason):
    return UserInputError(
        f"{reason}: that needs TensorFlow Datasets, which is not installed "
        "(pip install keras-transformer[tensorflow])"
    )


def _read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserInputError(f"Cannot read {path}: {error}") from error


def _records(path):
    """Yield the records of a TFRecord file: length, its checksum, the bytes, their checksum.

    The checksums are left alone: Python's library has no CRC-32C.
    """
    with open(path, "rb") as file:
        while header := file.read(_LENGTH.size + _CHECKSUM_BYTES):
            length = _LENGTH.unpack_from(header)[0] if len(header) >= _LENGTH.size else 0
            record = file.read(length)
            if len(record) < length or len(file.read(_CHECKSUM_BYTES)) < _CHECKSUM_BYTES:
                raise UserInputError(f"{path} is cut off")
            yield record


def _example(record):
    """Names and values of a `tf.train.Example` whose features hold one string each.

    Its messages are an Example, which holds Features, which hold entries of a name and a Feature,
    which holds a BytesList. All but the name are field 1 of what they lie in.
    """
    values = {}
    for _, features in _fields(record):
        for _, entry in _fields(features):
            name, feature = (value for _, value in sorted(_fields(entry)))
            ((_, byte_list),) = _fields(feature)
            ((_, value),) = _fields(byte_list)
            values[name.decode("utf-8")] = value
    return values


def _fields(message):
    """Yield `(number, content)` of a protocol buffer's fields, all of them with a length."""
    position = 0
    while position < len(message):
        tag, position = _integer(message, position)
        length, position = _integer(message, position)
        yield tag >> 3, message[position : position + length]
        position += length


def _integer(message, position):
    """The integer at a position, seven bits a byte, lowest first; and where it ends."""
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
