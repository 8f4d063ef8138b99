"""BLEU on the dev text while a model learns."""

import types
import warnings

from keras_transformer.data import SentencePairs
from keras_transformer.errors import LongSentenceWarning
from keras_transformer.training.translation import training_start
from keras_transformer.translation_training import TranslationData, TranslationSettings


class WarningTranslator:
    """It cuts each sentence of more than five words, and says so."""

    def __init__(self, model, tokenizer, **options):
        pass

    def batches(self, sentences):
        self.translate(sentences)
        return [[2], [0], [1]]

    def translate(self, sentences):
        for index, text in enumerate(sentences):
            if len(text.split()) > 5:
                fault = "has more than 5 tokens"
                warnings.warn(LongSentenceWarning("sentences", index, fault), stacklevel=1)
        return [text.upper() for text in sentences]


def test_a_long_dev_sentence_is_told_once_and_by_its_number(tmp_path, monkeypatch):
    monkeypatch.setattr(training_start, "Translator", WarningTranslator)
    dev = SentencePairs(["one", "two", "one two three four five six"], ["1", "2", "3"])
    batches = types.SimpleNamespace(
        texts=TranslationData([dev], dev=dev), tokenizer=None, source_tokenizer=None
    )
    run = types.SimpleNamespace(is_chief=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        (validator,) = training_start.bleu_validators(TranslationSettings(), batches, None, run)
        found = validator._translations()
    assert found == ["ONE", "TWO", "ONE TWO THREE FOUR FIVE SIX"]
    assert [str(one.message) for one in told] == ["`sentences[2]` has more than 5 tokens"]
