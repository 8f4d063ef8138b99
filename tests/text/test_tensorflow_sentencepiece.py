"""The TensorFlow form gives the ids and the text of the library form."""

import pytest
import tensorflow as tf

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer
from tests.text.test_round_trip import NASTY

TRAINING_LINES = [
    "a small house stands behind the tree",
    "das große Haus steht vor dem kleinen Baum, ½ Stunde",
    "l'été déjà 東京 Москва",
] * 2
TEXTS = [*NASTY, "▁ underscore ▁▁", "long " * 400, "ß" * 300]


@pytest.fixture(
    params=[
        (model_type, byte_fallback, normalization)
        for model_type in ("bpe", "unigram")
        for byte_fallback in (False, True)
        for normalization in ("nmt_nfkc", "identity")
    ],
    ids=lambda param: "-".join(map(str, param)),
)
def forms(request):
    model_type, byte_fallback, normalization = request.param
    tokenizer = SentencePieceTokenizer.train(
        TRAINING_LINES,
        vocabulary_size=306 if byte_fallback else 50,
        model_type=model_type,
        byte_fallback=byte_fallback,
        normalization=normalization,
    )
    return tokenizer, TensorFlowSentencePieceTokenizer(tokenizer.model_bytes)


def test_ids_are_equal(forms):
    library, tensorflow = forms
    ids = tensorflow.tokenize(tf.constant(TEXTS))
    assert ids.dtype == tf.int32
    assert ids.to_list() == library.encode(TEXTS)


def test_text_is_equal_but_for_leading_spaces(forms):
    library, tensorflow = forms
    ids = library.encode(TEXTS)
    encoded = tensorflow.detokenize(tf.ragged.constant(ids, dtype=tf.int32)).numpy()
    text, expected = [line.decode("utf-8") for line in encoded], library.decode(ids)
    (of_a_space,) = library.encode([" "])
    if of_a_space:  # it is text: `identity`, which TensorFlow decodes without first spaces
        text, expected = [[line.lstrip(" ") for line in lines] for lines in (text, expected)]
    assert text == expected


def test_broken_bytes_decode_equally():
    library = SentencePieceTokenizer.train(TRAINING_LINES, vocabulary_size=306, byte_fallback=True)
    tensorflow = TensorFlowSentencePieceTokenizer(library.model_bytes)
    ids = library.encode(["木"])[0]
    broken = [ids[:-1], ids[2:], [*ids[:2], *ids]]
    text = tensorflow.detokenize(tf.ragged.constant(broken, dtype=tf.int32))
    decoded = library.decode(broken)
    assert [line.decode("utf-8") for line in text.numpy()] == decoded
    assert all("\ufffd" in line for line in decoded)


def test_runs_in_a_graph_with_the_same_size():
    library = SentencePieceTokenizer.train(TRAINING_LINES, vocabulary_size=50)
    tensorflow = TensorFlowSentencePieceTokenizer(library.model_bytes)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def round_trip(sentences):
        return tensorflow.detokenize(tensorflow.tokenize(sentences))

    assert round_trip(tf.constant(["the house"])).numpy().tolist() == [b"the house"]
    assert int(tensorflow.vocabulary_size) == 50


def test_it_maps_a_data_set_and_the_library_form_says_that_it_cannot():
    library = SentencePieceTokenizer.train(TRAINING_LINES, vocabulary_size=50)
    tensorflow = TensorFlowSentencePieceTokenizer(library.model_bytes)
    lines = tf.data.Dataset.from_tensor_slices(TRAINING_LINES).batch(2)
    found = [row for batch in lines.map(tensorflow.tokenize) for row in batch.to_list()]
    assert found == library.encode(TRAINING_LINES)
    fault = "`sentences` must be a list of strings. Received: sentences="
    with pytest.raises(Exception, match=fault):  # TensorFlow wraps what a mapped function raises
        lines.map(library.encode)


def test_two_vocabularies_of_one_saved_model_stay_apart(tmp_path):
    libraries = [
        SentencePieceTokenizer.train(TRAINING_LINES, vocabulary_size=50, model_type=model_type)
        for model_type in ("bpe", "unigram")
    ]
    module = tf.Module()
    module.tokenizers = [TensorFlowSentencePieceTokenizer(each.model_bytes) for each in libraries]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(sentences):
        return [tokenizer.tokenize(sentences).to_tensor() for tokenizer in module.tokenizers]

    module.tokenize = tokenize
    tf.saved_model.save(module, str(tmp_path))
    found = tf.saved_model.load(str(tmp_path)).tokenize(tf.constant(["the small house"]))
    expected = [library.encode(["the small house"]) for library in libraries]
    assert expected[0] != expected[1]
    assert [ids.numpy().tolist() for ids in found] == expected
