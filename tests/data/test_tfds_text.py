"""Data sets of TFDS: opened from disk as the library itself opens them, never from the network."""

import sys

import keras
import pytest

from keras_transformer.data.tfds_text import TfdsPairs
from keras_transformer.errors import UserInputError
from tests.tfds_wmt import write_wmt14

NAME = "wmt14_translate/de-en"
TRAIN = [(f"{number} Häuser", f"{number} houses") for number in range(40)]
TEST = [("Grüße\u2028 an alle", "greetings to all"), ("", "nothing"), ("a\nb", "c")]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("tensorflow_datasets")
    write_wmt14(path, "de-en", {"train": TRAIN, "validation": TEST[:1], "test": TEST})
    return path


def swapped(pairs):
    return [(english, german) for german, english in pairs]


def test_every_pair_of_a_split_is_read_again_and_again(data_dir):
    text = TfdsPairs(NAME, "train", "en", "de", data_dir=data_dir)
    first = list(text)
    assert sorted(first) == sorted(swapped(TRAIN))
    assert list(text) == first
    assert text.num_pairs == 40


def test_shards_follow_each_other(tmp_path, data_dir):
    write_wmt14(tmp_path, "de-en", {"train": TRAIN}, num_shards=3)
    assert len(list(tmp_path.rglob("*-train.tfrecord-*"))) == 3
    for split in ("train", "train[10:30]"):
        texts = [TfdsPairs(NAME, split, "en", "de", data_dir=path) for path in (tmp_path, data_dir)]
        assert list(texts[0]) == list(texts[1])


def test_languages_say_which_side_is_the_source(data_dir):
    assert list(TfdsPairs(NAME, "validation", "de", "en", data_dir=data_dir)) == TEST[:1]
    assert list(TfdsPairs(NAME, "validation", "en", "de", data_dir=data_dir)) == swapped(TEST[:1])


def test_odd_characters_arrive_as_they_were_written(data_dir):
    assert sorted(TfdsPairs(NAME, "test", "de", "en", data_dir=data_dir)) == sorted(TEST)


def test_parts_of_splits(data_dir):
    halves = [
        TfdsPairs(NAME, part, "en", "de", data_dir=data_dir)
        for part in ("train[:25%]", "train[25%:]")
    ]
    assert [half.num_pairs for half in halves] == [10, 30]
    assert sorted([*halves[0], *halves[1]]) == sorted(swapped(TRAIN))


def test_the_fingerprint_tells_splits_and_directions_apart(data_dir):
    choices = [("train", "en", "de"), ("train", "de", "en"), ("test", "en", "de")]
    prints = [TfdsPairs(NAME, *choice, data_dir=data_dir).fingerprint() for choice in choices]
    assert len(set(prints)) == 3
    assert TfdsPairs(NAME, *choices[0], data_dir=str(data_dir)).fingerprint() == prints[0]
    assert all("wmt14_translate/de-en/1.0.0" in print_ for print_ in prints)


def test_the_fingerprint_tells_other_data_of_the_same_name_apart(data_dir, tmp_path):
    write_wmt14(tmp_path, "de-en", {"train": TRAIN[:-1]})
    here, there = (
        TfdsPairs(NAME, "train", "en", "de", data_dir=path) for path in (data_dir, tmp_path)
    )
    assert here.fingerprint() != there.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wmt14_translte/de-en", "train", "en", "de"), "data set wmt14_translte/de-en: Dataset"),
        (("wmt14_translate/de-xx", "train", "en", "de"), "BuilderConfig de-xx not found"),
        ((NAME, "dev", "en", "de"), "Unknown split 'dev'. Should be one of"),
        ((NAME, "train", "en", "fr"), "has no language 'fr', only ['de', 'en']"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(data_dir, arguments, message):
    with pytest.raises(UserInputError) as error:
        TfdsPairs(*arguments, data_dir=data_dir, download=False)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_nothing_is_downloaded_unasked(data_dir):
    with pytest.raises(UserInputError, match="fr-en is not prepared in .* downloading is off"):
        TfdsPairs("wmt14_translate/fr-en", "train", "en", "fr", data_dir=data_dir, download=False)


def test_a_failed_download_is_told_in_one_line_and_a_data_set_is_prepared_once(tmp_path):
    import tensorflow_datasets as tfds

    class InventedPairs(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        prepared = 0

        def _info(self):
            features = tfds.features.Translation(languages=("en", "la"))
            return self.dataset_info_from_configs(features=features)

        def _split_generators(self, dl_manager):
            type(self).prepared += 1
            if self.prepared == 1:
                raise OSError("the host is down\nand stays so")
            return {"train": self._generate_examples()}

        def _generate_examples(self):
            yield 0, {"en": "peace", "la": "pax"}

    choice = ("invented_pairs", "train", "en", "la")
    with pytest.raises(UserInputError, match="data set invented_pairs: the host is down$"):
        TfdsPairs(*choice, data_dir=tmp_path)
    for _ in range(2):
        assert list(TfdsPairs(*choice, data_dir=tmp_path)) == [("peace", "pax")]
    assert InventedPairs.prepared == 2


@pytest.mark.parametrize(("backend", "hidden"), [("jax", [([], "GPU")]), ("tensorflow", [])])
def test_another_backend_keeps_its_gpus(data_dir, monkeypatch, backend, hidden):
    import tensorflow as tf

    calls = []
    monkeypatch.setattr(keras.backend, "backend", lambda: backend)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *choice: calls.append(choice))
    assert len(list(TfdsPairs(NAME, "test", "en", "de", data_dir=data_dir))) == 3
    assert calls == hidden


def test_without_tfds_it_is_named(data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(
        UserInputError, match=r"needs TensorFlow Datasets, .*\[tensorflow\]'"
    ) as error:
        TfdsPairs(NAME, "train", "en", "de", data_dir=data_dir)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("split", ["train", "train[5:12]"])
def test_array_records_are_read_alike_without_tensorflow(tmp_path, data_dir, monkeypatch, split):
    write_wmt14(tmp_path, "de-en", {"train": TRAIN, "validation": TEST[:1], "test": TEST},
                file_format="array_record")  # fmt: skip
    expected = TfdsPairs(NAME, split, "en", "de", data_dir=data_dir)
    pairs = list(expected)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    found = TfdsPairs(NAME, split, "en", "de", data_dir=tmp_path)
    assert list(found) == pairs
    assert found.fingerprint() == expected.fingerprint()  # so a prepared corpus is found again


def test_tfrecords_need_tensorflow(data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(UserInputError, match="TFRecord files, which need TensorFlow") as error:
        TfdsPairs(NAME, "train", "en", "de", data_dir=data_dir)
    assert "\n" not in str(error.value)
