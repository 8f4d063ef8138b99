"""Warm-up requests that the model server runs before serving a model.

They are needed because the first request for each signature and length is slow.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer

WARMUP_FILE = "assets.extra/tf_serving_warmup_requests"  # where the model server expects it
LENGTHS = (1, 8, 32)  # tokens in the sentences
BATCH_SIZES = (1, 4)


def write_warmup_requests(
    version: Path, translator: TranslationModel, options: SearchOptions, terms: bool
) -> None:
    """Write warm-up requests to the SavedModel of an exported translator.

    Reference: https://www.tensorflow.org/tfx/serving/saved_model_warmup
    """
    path = version / WARMUP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in _requests(translator, options, terms):
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = signature
            for name, value in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
            predict_log = prediction_log_pb2.PredictLog(request=request)
            log = prediction_log_pb2.PredictionLog(predict_log=predict_log)
            writer.write(log.SerializeToString())


def _requests(
    translator: TranslationModel, options: SearchOptions, terms: bool
) -> Iterator[tuple[str, dict[str, tf.Tensor]]]:
    """Yield pairs of signature name and inputs, with a few shapes for each signature."""
    for length in LENGTHS:
        length = min(length, options.max_source_length - 1)
        source_ids = _pieces(translator.source_tokenizer, length)
        (source,) = translator.source_tokenizer.decode([source_ids])
        (target,) = translator.tokenizer.decode([_pieces(translator.tokenizer, length)])
        for batch_size in BATCH_SIZES:
            sentences = tf.constant([source] * batch_size)
            for signature in ("translate", "translate_nbest", "tokenize"):
                yield signature, {"inputs": sentences}
            targets = tf.constant([target] * batch_size)
            yield "score", {"inputs": sentences, "targets": targets}
            ids = tf.constant([source_ids] * batch_size, tf.int32)
            lengths = tf.constant([length] * batch_size, tf.int32)
            yield "translate_ids", {"input_ids": ids, "input_lengths": lengths}
            if terms:
                (term,) = translator.tokenizer.decode([_pieces(translator.tokenizer, 1)])
                required = tf.constant([term] * batch_size)
                yield "translate_with_terms", {"inputs": sentences, "terms": required}


def _pieces(tokenizer: SentencePieceTokenizer, length: int) -> list[int]:
    """Return ids from the end of a vocabulary, avoiding special tokens and byte tokens."""
    special = dataclasses.astuple(tokenizer.special_tokens)
    last = [i for i in range(tokenizer.vocabulary_size) if i not in special][-16:]
    return [last[place % len(last)] for place in range(length)]
