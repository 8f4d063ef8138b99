"""Translation data sets of TensorFlow Datasets (TFDS), by name."""

from collections.abc import Iterable, Iterator

import numpy as np

from keras_transformer.backend_start import leave_gpus_to_keras
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tfds_folder import TfdsFolder
from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike

_PAIRS_AT_ONCE = 1024


class TfdsPairs(ParallelText):
    """Pairs of a split of a TFDS data set.

    A data set that TFDS has prepared in `data_dir` is opened without the network; whole splits of
    TFRecord files are read even without TensorFlow and TFDS. Others are downloaded and prepared
    first, which for `wmt14_translate` takes hours and tens of gigabytes,
    and needs `pip install 'keras-transformer-garden[tensorflow]'`.

    Args:
        name: name in TFDS, such as `"wmt14_translate/de-en"`.
        split: a split or a part of one, such as `"train"`, `"test"` or `"train[:10%]"`.
        source_language: feature of the source, such as `"en"`.
        target_language: feature of the target, such as `"de"`.
        data_dir: folder of TFDS; defaults to `$TFDS_DATA_DIR` or `~/tensorflow_datasets`.
        download: whether to download a data set that is not prepared.

    Raises:
        UserInputError: TFDS is needed and not installed, the data set, split or language is
            unknown, or the data set cannot be prepared.

    Reference:
        https://www.tensorflow.org/datasets/catalog/wmt14_translate
    """

    def __init__(
        self,
        name: str,
        split: str,
        source_language: str,
        target_language: str,
        data_dir: PathLike | None = None,
        download: bool = True,
    ) -> None:
        super().__init__(f"{name} {split}")
        self.split = split
        self.languages = (source_language, target_language)
        self._data_set = _open(name, data_dir)
        _check_languages(self._data_set.languages, name, self.languages)  # a download takes hours
        self._data_set.prepare(download)
        self._num_pairs = self._data_set.num_examples(split)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        found = 0
        for example in self._data_set.examples(self.split):
            found += 1
            try:
                source, target = (example[language].decode("utf-8") for language in self.languages)
            except (KeyError, UnicodeDecodeError) as error:
                raise UserInputError(
                    f"The data set {self.name} is damaged: a pair has no text. Prepare it again."
                ) from error
            yield source, target
        if found != self._num_pairs:
            raise UserInputError(
                f"The data set {self.name} is damaged: it must hold {self._num_pairs:,} pairs. "
                f"Received: {found:,}. Prepare it again."
            )

    def fingerprint(self) -> str:
        """Return the name, version, split and languages, and the sizes that TFDS recorded."""
        languages = " ".join(self.languages)
        sizes = f"{self._num_pairs} examples, {self._data_set.num_bytes} bytes"
        return f"tfds {self._data_set.full_name} {self.split} {languages}: {sizes}"

    @property
    def num_pairs(self) -> int:
        """Number of pairs of the split."""
        return self._num_pairs


class _TfdsLibrary:
    """A data set opened by TFDS, with the attributes of a `TfdsFolder`."""

    def __init__(self, name: str, data_dir: PathLike | None) -> None:
        import tensorflow_datasets

        leave_gpus_to_keras()
        self._name = name
        try:
            self._builder = tensorflow_datasets.builder(name, data_dir=data_dir and str(data_dir))
            self._builder.info.features  # noqa: B018 - read from files, which may be damaged
        except ImportError:
            raise
        except Exception as error:  # whatever a builder or its damaged files may raise
            raise UserInputError(f"TFDS cannot open the data set {name}: {_line(error)}") from error

    @property
    def full_name(self) -> str:
        return self._builder.info.full_name

    @property
    def languages(self) -> list[str]:
        return list(self._builder.info.features)

    @property
    def num_bytes(self) -> int:
        return int(self._builder.info.dataset_size)

    def prepare(self, download: bool) -> None:
        """Download and prepare the data set if it is not prepared yet."""
        name, builder = self._name, self._builder
        if builder.is_prepared():
            return
        if not download:
            raise UserInputError(
                f"The data set {name} is not prepared in {builder.data_dir}, and downloading is off"
            )
        try:
            builder.download_and_prepare()
        except Exception as error:  # whatever a download, a web site or an archive may raise
            raise UserInputError(
                f"TFDS cannot prepare the data set {name}: {_line(error)}"
            ) from error

    def num_examples(self, split: str) -> int:
        try:
            return self._builder.info.splits[split].num_examples
        except ValueError as error:
            raise UserInputError(f"The data set {self._name}: {_line(error)}") from error

    def examples(self, split: str) -> Iterable[dict[str, bytes]]:
        import tensorflow_datasets

        if self._builder.info.file_format is tensorflow_datasets.core.FileFormat.TFRECORD:
            return self._read_records(split)
        return self._builder.as_data_source(split)

    def _read_records(self, split: str) -> Iterator[dict[str, bytes]]:
        """Yield examples of TFDS's usual format, parsed in batches, ten times as fast."""
        import tensorflow as tf

        form = dict.fromkeys(self.languages, tf.io.FixedLenFeature([], tf.string))
        files = self._builder.info.splits[split].file_instructions
        parts = tf.data.Dataset.from_tensor_slices(
            {
                "filename": [str(file.filename) for file in files],
                "skip": np.array([file.skip for file in files], dtype="int64"),
                "take": np.array([file.take for file in files], dtype="int64"),
            }
        )
        records = parts.flat_map(
            lambda part: (
                tf.data.TFRecordDataset(part["filename"]).skip(part["skip"]).take(part["take"])
            )
        ).batch(_PAIRS_AT_ONCE)
        batches = records.map(lambda batch: tf.io.parse_example(batch, form)).prefetch(2)
        try:
            for batch in batches.as_numpy_iterator():
                sides = (batch[language].tolist() for language in self.languages)
                for pair in zip(*sides, strict=True):
                    yield dict(zip(self.languages, pair, strict=True))
        except tf.errors.OpError as error:
            raise UserInputError(
                f"The data set {self._name} is damaged: {_line(error)}. Prepare it again."
            ) from error


def _open(name: str, data_dir: PathLike | None) -> _TfdsLibrary | TfdsFolder:
    """The data set, opened without TFDS if that is not installed."""
    try:
        return _TfdsLibrary(name, data_dir)
    except ImportError:
        return TfdsFolder(name, data_dir)


def _check_languages(known: list[str], name: str, languages: Iterable[str]) -> None:
    for language in languages:
        if language not in known:
            raise UserInputError(
                f"The data set {name} has no language {language!r}: it has {known}"
            )


def _line(error: Exception) -> str:
    """The first line of an error; TFDS adds lists of everything it knows."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
