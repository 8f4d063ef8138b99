import numpy as np
from keras import ops

from keras_transformer.layers import attention_masks


def test_padding_mask_is_true_at_real_tokens():
    mask = attention_masks.padding_mask(np.array([[7, 0, 3, 0]]), padding_id=0)
    assert ops.convert_to_numpy(mask).tolist() == [[[True, False, True, False]]]


def test_causal_mask_is_a_lower_triangle():
    mask = ops.convert_to_numpy(attention_masks.causal_mask(4))
    np.testing.assert_array_equal(mask[0], np.tril(np.ones((4, 4), bool)))
