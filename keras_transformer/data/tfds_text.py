"""Translation data sets from TensorFlow Datasets (TFDS)."""

import contextlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import UserInputError
from keras_transformer.installation import pip_install
from keras_transformer.types import PathLike

_PAIRS_AT_ONCE = 1024


class TfdsPairs(ParallelText):
    """Sentence pairs from a split of a TFDS data set.

    A data set that is already prepared in `data_dir` is opened without network access. Any other
    data set is downloaded and prepared first; for `wmt14_translate`, this takes hours and tens of
    gigabytes. `TfdsPairs` requires the `tensorflow` extra. Without TensorFlow,
    `pip install tensorflow-datasets` is enough to read data sets prepared as ArrayRecord files
    with `download_and_prepare(file_format="array_record")`.

    Args:
        name: TFDS name of the data set, such as `"wmt14_translate/de-en"`.
        split: a split or part of a split, such as `"train"`, `"test"` or `"train[:10%]"`.
        source_language: feature name of the source, such as `"en"`.
        target_language: feature name of the target, such as `"de"`.
        data_dir: TFDS data folder; defaults to `$TFDS_DATA_DIR` or `~/tensorflow_datasets`.
        download: whether to download and prepare a data set that is not prepared yet.

    Raises:
        UserInputError: TFDS is not installed; TensorFlow is needed for TFRecord files but not
            installed; the data set, split or language is unknown; or the preparation fails.

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
        self._builder = _open(name, data_dir)
        known = list(self._builder.info.features)
        for language in self.languages:
            if language not in known:
                raise UserInputError(
                    f"The data set {name} has no language {language!r}, only {known}"
                )
        _prepare(self._builder, name, download)
        _check_file_format(self._builder, name)
        with _reported(f"The data set {name}"):
            self._num_pairs: int = self._builder.info.splits[split].num_examples

    def __iter__(self) -> Iterator[tuple[str, str]]:
        with _reported(f"The data set {self.name} is damaged", ". Prepare it again."):
            for example in self._examples():
                source, target = (example[language].decode("utf-8") for language in self.languages)
                yield source, target

    def fingerprint(self) -> str:
        """Return the name, version, split and languages, with the sizes recorded by TFDS."""
        languages = " ".join(self.languages)
        info = self._builder.info
        sizes = f"{self._num_pairs} examples, {int(info.dataset_size)} bytes"
        return f"tfds {info.full_name} {self.split} {languages}: {sizes}"

    @property
    def num_pairs(self) -> int:
        """Number of pairs in the split."""
        return self._num_pairs

    def _examples(self) -> Iterable[Mapping[str, bytes]]:
        """Return the UTF-8 sentences of each pair by language, in file order."""
        if _has_records(self._builder):
            return _read_records(self._builder, self.split)
        return self._builder.as_data_source(self.split)


def _open(name: str, data_dir: PathLike | None) -> Any:
    """Return the TFDS builder of a data set, without network access if the data set is prepared."""
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise UserInputError(
            f"The data set {name} needs TensorFlow Datasets, which is not installed "
            f"({pip_install('tensorflow')})"
        ) from error
    with _reported(f"TFDS cannot open the data set {name}"):
        builder = tensorflow_datasets.builder(name, data_dir=data_dir and str(data_dir))
        builder.info.features  # noqa: B018 - reads files, which may be damaged
    return builder


def _prepare(builder: Any, name: str, download: bool) -> None:
    """Download and prepare the data set if it is not prepared yet."""
    if builder.is_prepared():
        return
    if not download:
        raise UserInputError(
            f"The data set {name} is not prepared in {builder.data_dir}, and downloading is off"
        )
    with _reported(f"TFDS cannot prepare the data set {name}"):
        if _has_tensorflow():
            from keras_transformer.data.tensorflow_files import leave_gpus_to_keras

            leave_gpus_to_keras()
        builder.download_and_prepare()


def _check_file_format(builder: Any, name: str) -> None:
    """Require TensorFlow if the data set is stored as TFRecord files."""
    if _has_records(builder) and not _has_tensorflow():
        raise UserInputError(
            f"The data set {name} is prepared as TFRecord files, which need TensorFlow "
            f"({pip_install('tensorflow')}). To read it without TensorFlow, prepare it with "
            'download_and_prepare(file_format="array_record").'
        )


def _has_records(builder: Any) -> bool:
    import tensorflow_datasets

    return builder.info.file_format is tensorflow_datasets.core.FileFormat.TFRECORD


def _has_tensorflow() -> bool:
    return importlib.util.find_spec("tensorflow") is not None


def _read_records(builder: Any, split: str) -> Iterator[dict[str, bytes]]:
    """Yield the examples of a data set stored as TFRecord files, using TensorFlow."""
    import tensorflow_datasets as tfds

    from keras_transformer.data.tensorflow_files import leave_gpus_to_keras

    leave_gpus_to_keras()
    in_order = tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False)
    batches = builder.as_dataset(split=split, batch_size=_PAIRS_AT_ONCE, read_config=in_order)
    for batch in batches.as_numpy_iterator():
        for pair in zip(*(side.tolist() for side in batch.values()), strict=True):
            yield dict(zip(batch, pair, strict=True))


@contextlib.contextmanager
def _reported(fault: str, advice: str = "") -> Iterator[None]:
    """Convert any error from TFDS, a download or damaged files to a `UserInputError`.

    Only the first line of the message is kept, because TFDS appends a list of all known names.
    """
    try:
        yield
    except Exception as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserInputError(f"{fault}: {line}{advice}") from error
