"""Rows of several pairs give what the pairs give in rows of their own."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.positions import POSITIONS, Positions, register_positions
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.types import SpecialTokens

pytestmark = pytest.mark.core

PAD, BOS, EOS = 0, 1, 2
SIZES = {
    "dropout": 0.0,
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
}
LANGUAGE_MODEL = {name: size for name, size in SIZES.items() if name != "num_encoder_layers"}
KINDS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True},
    "learned": {"positions": "learned", "max_length": 9},
    "rotary": {"positions": "rotary", "qk_norm": True},
    "window": {"attention_window": 3},
    "words": {
        "positions": "words",
        "source_vocabulary_size": 23,
        "source_word_starts": [4, 5, 6, 7, 8, 9, 10],
        "target_word_starts": [4, 6, 8, 10, 12],
    },
    "ssru": {"decoder_unit": "ssru"},
    "b2t": {"residual_connection": "b2t"},
}


def pairs():
    """Sentences of 1 to 8 tokens, EOS not counted."""
    rng = np.random.default_rng(5)
    return [
        (rng.integers(4, 20, source).tolist(), rng.integers(4, 20, target).tolist())
        for source, target in [(3, 5), (7, 2), (1, 1), (8, 8), (2, 6), (5, 4)]
    ]


def rows(packs, bos=BOS, eos=EOS):
    """Source ids, target ids and labels of rows that hold pairs."""
    arrays = []
    for side, before, after in ((0, [], [eos]), (1, [bos], []), (1, [], [eos])):
        ids = [[token for pair in pack for token in before + pair[side] + after] for pack in packs]
        length = max(map(len, ids))
        arrays.append(np.array([row + [PAD] * (length - len(row)) for row in ids], "int32"))
    return arrays


def tokens_of(values, labels):
    """What belongs to real tokens, (tokens, ...)."""
    return np.asarray(ops.convert_to_numpy(values))[labels != PAD]


@pytest.fixture(params=KINDS)
def model(request):
    return build_transformer(**{"vocabulary_size": 21, **SIZES, **KINDS[request.param]})


PACKS = [[0, 1], [2, 3, 4], [5]]


def both_ways():
    all_pairs = pairs()
    together = rows([[all_pairs[i] for i in pack] for pack in PACKS])
    apart = rows([[pair] for pair in all_pairs])
    return together, apart


def logits_of(model, batch):
    return model({"source_ids": batch[0], "target_ids": batch[1]}, training=False)


def test_logits_are_those_of_rows_of_their_own(model):
    together, apart = both_ways()
    found = tokens_of(logits_of(model.packed(), together), together[2])
    expected = tokens_of(logits_of(model, apart), apart[2])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    # Without the segments it is something else.
    if together[0].shape[1] <= (model.max_length or 99):
        others = tokens_of(logits_of(model, together), together[2])
        assert np.abs(others - expected).max() > 0.01


def test_a_language_model_packs_its_texts():
    model = build_language_model(vocabulary_size=21, **LANGUAGE_MODEL)
    together, apart = both_ways()
    found = tokens_of(model.packed()({"token_ids": together[1]}), together[2])
    expected = tokens_of(model({"token_ids": apart[1]}), apart[2])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_targets_may_begin_with_padding():
    # As in models of Marian.
    model = build_transformer(vocabulary_size=21, **SIZES)
    all_pairs = pairs()
    together = rows([[all_pairs[i] for i in pack] for pack in PACKS], bos=PAD, eos=3)
    apart = rows([[pair] for pair in all_pairs], bos=PAD, eos=3)
    packed = model.packed(SpecialTokens(pad=PAD, bos=PAD, eos=3, unk=1))
    found = tokens_of(logits_of(packed, together), together[2])
    expected = tokens_of(logits_of(model, apart), apart[2])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_positions_of_ones_own_say_what_packed_rows_need():
    @register_positions("vectors_alone")
    class VectorsAlone(Positions):
        def vectors(self, ids, table):
            return ops.zeros((ops.shape(ids)[1], self.hidden_dim))

    try:
        model = build_transformer(vocabulary_size=21, **SIZES, positions="vectors_alone")
        with pytest.raises(NotImplementedError, match="packed_vectors"):
            logits_of(model.packed(), both_ways()[0])
    finally:
        del POSITIONS["vectors_alone"]
