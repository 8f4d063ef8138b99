"""Strings to the input of `fit`: the batches of the package's own pipeline, epoch by epoch."""

import itertools
import pickle

import keras
import numpy as np
import pytest

from keras_transformer.data import SentencePairs, fit_texts, plan_batches, prepare_corpus
from keras_transformer.data.fit_input import CHUNK_PAIRS
from keras_transformer.errors import UserInputError
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.types import SpecialTokens
from tests.translation_training.number_text import pairs

SOURCES, TARGETS = (
    [text for length in (1, 2, 3) for text in pairs(length)[side]] for side in (0, 1)
)


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([*SOURCES, *TARGETS], vocabulary_size=40)


class WordTokenizer:
    """A tokenizer of one's own: "5 6" are the ids 5 and 6."""

    special_tokens = SpecialTokens(pad=9, bos=7, eos=8, unk=3)

    def encode(self, texts):
        return [list(map(int, text.split())) for text in texts]


def batch_of(sources, targets, **options):
    dataset = fit_texts(sources, targets, WordTokenizer(), batch_tokens=64, **options)
    assert len(dataset) == 1
    return dataset[0]


def comparable(batch):
    """A batch as a string of bytes, with its weights as a mask."""
    inputs, labels, weights = batch
    arrays = [*(inputs[name] for name in sorted(inputs)), labels, (weights > 0).astype("float32")]
    return b" ".join(repr(array.shape).encode() + array.tobytes() for array in arrays)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}, {"row_multiple": 4, "shapes": 2}])
def test_every_epoch_has_the_batches_of_the_pipeline(tokenizer, tmp_path, options):
    settings = {"batch_tokens": 128, "seed": 3, "shapes": 16, **options}
    row_multiple = settings.pop("row_multiple", 1)
    corpus = prepare_corpus(SentencePairs(SOURCES, TARGETS), tokenizer, tmp_path)
    reader = plan_batches(corpus, tokenizer.special_tokens, **settings)
    dataset = fit_texts(SOURCES, TARGETS, tokenizer, **{**settings, **options})
    steps = itertools.count()
    for _ in range(3):
        expected = [reader.batch(next(steps), row_multiple) for _ in range(len(dataset))]
        assert sorted(map(comparable, dataset)) == sorted(map(comparable, expected))
        dataset.on_epoch_end()


def test_batches_to_the_letter():
    inputs, labels, mask = batch_of(["1 2", ""], ["3", "4 5"], shuffle=False)
    order = np.argsort(inputs["source_ids"][:, 0])  # "1 2" before the empty text, an 8 alone
    assert inputs["source_ids"][order].tolist() == [[1, 2, 8], [8, 9, 9]]
    assert inputs["target_ids"][order].tolist() == [[7, 3, 9], [7, 4, 5]]
    assert labels[order].tolist() == [[3, 8, 9], [4, 5, 8]]
    assert mask[order].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert {array.dtype for array in (*inputs.values(), labels)} == {np.dtype("int32")}
    assert mask.dtype == "float32"


def test_without_sources_a_language_model_reads_the_targets():
    inputs, labels, mask = batch_of(None, ["1 2 3"])
    assert set(inputs) == {"token_ids"}
    assert inputs["token_ids"].tolist() == [[7, 1, 2, 3]]
    assert labels.tolist() == [[1, 2, 3, 8]]
    assert mask.tolist() == [[1, 1, 1, 1]]


def test_longer_texts_are_cut():
    inputs, labels, _ = batch_of(["1 2 3 4"], ["4 5 6"], max_tokens=2)
    assert inputs["source_ids"].tolist() == [[1, 2, 8]]
    assert labels.tolist() == [[4, 5, 8]]


def test_a_source_tokenizer():
    class Backwards(WordTokenizer):
        def encode(self, texts):
            return [row[::-1] for row in super().encode(texts)]

    inputs, labels, _ = batch_of(["1 2"], ["1 2"], source_tokenizer=Backwards())
    assert inputs["source_ids"].tolist() == [[2, 1, 8]]
    assert labels.tolist() == [[1, 2, 8]]


def test_more_texts_than_are_tokenized_at_once():
    texts = [str(number % 7) for number in range(2 * CHUNK_PAIRS + 1)]
    dataset = fit_texts(texts, texts, WordTokenizer(), batch_tokens=20_000, shuffle=False)
    counts = sum(np.bincount(labels[:, 0], minlength=10)[:7] for _, labels, _ in dataset)
    assert counts.tolist() == [2858, 2858, 2857, 2857, 2857, 2857, 2857]


@pytest.mark.parametrize("sources", [SOURCES, None])
def test_subword_sampling_draws_other_pieces_of_the_same_text(tokenizer, sources):
    dataset = fit_texts(
        sources, TARGETS, tokenizer, batch_tokens=256, subword_sampling=0.5, shuffle=False
    )
    epochs = []
    for _ in range(2):
        labels = [row.tolist() for _, labels, _ in dataset for row in labels]
        assert sorted(tokenizer.decode(labels)) == sorted(["", *TARGETS][-len(labels) :])
        epochs.append(labels)
        dataset.on_epoch_end()
    ordinary = {tuple(row) for row in tokenizer.encode(TARGETS)}
    drawn = {tuple(token for token in row if token > 2) for row in epochs[0]}
    assert len(drawn - ordinary) > len(ordinary) / 2
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("lengths", [[(1, 1), (1, 4), (6, 4)], [(2, 1), (2, 4)], [(3, 3)]])
def test_the_first_two_batches_differ_in_every_length_that_differs(lengths):
    # Keras's adapter for TensorFlow takes it from them which axes have a fixed length.
    sources, targets = ([" ".join("1" * pair[side]) for pair in lengths * 30] for side in (0, 1))
    dataset = fit_texts(sources, targets, WordTokenizer(), batch_tokens=14)
    for _ in range(5):
        shapes = [(inputs["source_ids"].shape[1], labels.shape[1]) for inputs, labels, _ in dataset]
        assert {(source - 1, target - 1) for source, target in shapes} == set(lengths)
        for side in (0, 1):
            differ = len({pair[side] for pair in lengths}) > 1
            assert (shapes[0][side] != shapes[1][side]) == differ
        assert sum(mask[:, 0].sum() for *_, mask in dataset) == len(sources)
        dataset.on_epoch_end()


class Noted(keras.Model):
    """Reads batches and notes the labels of each step."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def train_on(self, dataset, epochs, **options):
        self.compile(optimizer="sgd", loss="mse", run_eagerly=True)
        self.fit(dataset, epochs=epochs, verbose=0, **options)
        return self.noted

    def train_step(self, data):
        _, labels, _ = data
        self.noted.append(np.asarray(labels).tobytes())
        return {"loss": 0.0}


@pytest.mark.parametrize(
    "options", [{}, {"workers": 2}, {"workers": 1, "use_multiprocessing": True}], ids=str
)
def test_fit_reads_every_epoch_anew(options):
    texts = [" ".join(map(str, row)) for row in itertools.product(range(7), repeat=2)]
    texts += list("0123456")
    datasets = [
        fit_texts(texts, texts, WordTokenizer(), batch_tokens=32, max_queue_size=3, **given)
        for given in (options, {})
    ]
    assert datasets[0].workers == options.get("workers", 1)
    assert datasets[0].use_multiprocessing == options.get("use_multiprocessing", False)
    assert datasets[0].max_queue_size == 3
    noted = Noted().train_on(datasets[0], epochs=3)
    steps = len(datasets[1])
    assert len(noted) == 3 * steps
    for epoch in range(3):
        datasets[1].on_epoch_end()  # `fit` ends an epoch before its first, in which it builds
        expected = [labels.tobytes() for _, labels, _ in datasets[1]]
        assert sorted(noted[epoch * steps : (epoch + 1) * steps]) == sorted(expected)


def test_it_goes_to_another_process(tokenizer):
    dataset = fit_texts(SOURCES, TARGETS, tokenizer, batch_tokens=128)
    copy = pickle.loads(pickle.dumps(dataset))
    assert list(map(comparable, copy)) == list(map(comparable, dataset))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sources": "1"}, "`sources` must be a list of strings. Received: sources='1'"),
        ({"targets": ["1", b"2"]}, r"`targets` must be a list .*Received: targets\[1\]=b'2'"),
        (
            {"sources": ["1"]},
            "`targets` must have the same length as `sources`. Received: 1 sources, 2",
        ),
        ({"sources": [], "targets": []}, "`targets` must contain at least one text. Received: "),
        (
            {"targets": ["1", "2 " * 64]},
            "fit the longest pair: index 1 has 2 source and 65 target",
        ),
        ({"max_tokens": 0}, "`max_tokens` must be a positive integer. Received: max_tokens=0"),
        ({"shapes": None}, "`shapes` must be a positive integer. Received: shapes=None"),
        ({"row_multiple": 0}, "`row_multiple` must be a positive integer"),
        ({"subword_sampling": 1}, r"`subword_sampling` must be a number in \[0, 1\)"),
        ({"batch_tokens": 0}, "`batch_tokens` must be a positive integer"),
    ],
)
def test_wrong_arguments(arguments, message):
    arguments = {"sources": ["1", "2"], "targets": ["1", "2"], "batch_tokens": 64, **arguments}
    with pytest.raises(ValueError, match=message) as caught:
        fit_texts(tokenizer=WordTokenizer(), **arguments)
    assert "\n" not in str(caught.value)


def test_tokenizers_agree_on_special_tokens(tokenizer):
    with pytest.raises(UserInputError, match="must agree on the ids of the special tokens"):
        fit_texts(["1"], ["1"], tokenizer, source_tokenizer=WordTokenizer(), batch_tokens=8)
