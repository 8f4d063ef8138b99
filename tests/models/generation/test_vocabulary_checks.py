"""Special tokens that a model cannot generate with."""

import dataclasses

import numpy as np
import pytest

from keras_transformer.models import build_language_model
from keras_transformer.models.sequence_generator import SequenceGenerator
from keras_transformer.special_tokens import SpecialTokens


def build(**options):
    sizes = {"vocabulary_size": 12, "num_decoder_layers": 1, "hidden_dim": 8, "num_heads": 2}
    return build_language_model("tiny", **sizes, **options)


def test_a_language_model_does_not_begin_with_what_it_masks():
    tokens = SpecialTokens(bos=0)
    message = r"`special_tokens.bos` must not be the `mask_id` .*Received: .*bos=0.*, mask_id=0"
    with pytest.raises(ValueError, match=message):
        SequenceGenerator(build(mask_id=0), tokens)
    assert SequenceGenerator(build(), tokens).special_tokens == tokens


@pytest.mark.parametrize("name", ["pad", "bos", "eos"])
def test_special_tokens_are_of_the_vocabulary(name):
    model, tokens = build(), dataclasses.replace(SpecialTokens(), **{name: 11})
    assert SequenceGenerator(model, tokens).special_tokens == tokens
    message = rf"less than the number of tokens, 11. Received: .*{name}=11"
    with pytest.raises(ValueError, match=message):
        SequenceGenerator(model, tokens, vocabulary_size=np.int64(11))
    with pytest.raises(ValueError, match=rf"less than the number of tokens, 12. .*{name}=12"):
        SequenceGenerator(model, dataclasses.replace(tokens, **{name: 12}))
