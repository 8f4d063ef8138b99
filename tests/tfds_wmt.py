"""Invented sentences on disk under the name and in the form of TFDS's WMT 2014 data sets."""


def write_wmt14(data_dir, config, splits, *, num_shards=1, file_format=None):
    """Write a small `wmt14_translate` data set with the builder that writes the real one.

    `tensorflow_datasets.builder("wmt14_translate/de-en", data_dir=data_dir)` then opens it like
    the real one: same name, version, features and file format. TFDS shuffles the examples of a
    split as it writes them, always in the same way.

    Args:
        data_dir: folder that TFDS is told to look in.
        config: `"de-en"` or `"fr-en"`.
        splits: split name -> list of (source, target) pairs, in the languages of `config`: its
            first language first. The real splits are train, validation and test.
        num_shards: files of each split.
        file_format: `"tfrecord"`, `"array_record"`, or None for TFDS's default.
    """
    import tensorflow_datasets as tfds
    from tensorflow_datasets.translate import wmt14

    class InventedWmt14(wmt14.Wmt14Translate, skip_registration=True):
        name = "wmt14_translate"

        def _split_generators(self, dl_manager):
            return {name: self._generate_examples(pairs) for name, pairs in splits.items()}

        def _generate_examples(self, pairs):
            languages = self.builder_config.language_pair
            for number, pair in enumerate(pairs):
                yield number, dict(zip(languages, pair, strict=True))

    builder = InventedWmt14(data_dir=str(data_dir), config=config)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(num_shards=num_shards),
        file_format=file_format,
    )
