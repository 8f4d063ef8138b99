"""Rows searched in groups of similar lengths and padded to few shapes: each in its own place."""

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def fake_search(calls):
    """A search whose output is the row itself, as two results; it notes the shapes that it gets."""
    import tensorflow as tf

    def search(ids, lengths):
        calls.append((tuple(ids.shape), lengths.numpy().tolist()))
        positions = tf.range(tf.shape(ids)[1] + 1)[tf.newaxis]
        padded = tf.pad(ids, [[0, 0], [0, 1]])
        output = tf.where(positions < lengths[:, tf.newaxis], padded, 5)
        return (
            tf.stack([output, output], axis=1),
            tf.stack([lengths, lengths + 1], axis=1),
            tf.cast(tf.stack([-lengths, -lengths - 1], axis=1), tf.float32),
        )

    return search


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 1), (1, 8)),
        ((2, 8), (2, 8)),
        ((3, 9), (4, 16)),
        ((33, 41), (64, 45)),  # 45 is the most
        ((1024, 45), (1024, 45)),
    ],
)
def test_few_shapes_are_compiled(shape, expected):
    import tensorflow as tf

    from keras_transformer.formats.saved_model.tensorflow_signatures import pad_to_few_shapes

    padded = pad_to_few_shapes(tf.ones(shape, tf.int32), max_length=45, padding_id=7).numpy()
    assert padded.shape == expected
    assert (padded[: shape[0], : shape[1]] == 1).all()
    assert (padded[shape[0] :] == 7).all()
    assert (padded[:, shape[1] :] == 7).all()


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        ([3, 200, 64, 0, 65, 128, 129, 1], [[3, 64, 0, 1], [65, 128], [200, 129]]),
        ([3, 4], [[3, 4], [], []]),
        ([100], [[], [100], []]),
        ([], [[], [], []]),
        ([-7, 999], [[0], [], [210]]),  # of a row of 210
    ],
)
def test_every_row_is_searched_among_its_like(lengths, groups):
    import tensorflow as tf

    from keras_transformer.formats.saved_model.tensorflow_signatures import (
        NUM_GROUPS,
        group_by_length,
        search_groups,
    )

    ids = np.random.default_rng(0).integers(10, 99, (len(lengths), 210), dtype="int32")
    calls = []
    inputs = tf.constant(ids), tf.constant(lengths, tf.int32)
    found, counts, scores = search_groups(
        [fake_search(calls)] * NUM_GROUPS, group_by_length(inputs[1]), inputs, padding=5
    )
    lengths = np.clip(lengths, 0, 210).astype(int)
    assert [given for _, given in calls] == groups
    assert [shape for shape, _ in calls] == [(len(g), max(g, default=0)) for g in groups]
    assert found.shape == (len(lengths), 2, max(lengths, default=0) + 1)
    for row, output, length in zip(ids, found.numpy(), lengths, strict=True):
        assert output[:, :length].tolist() == [row[:length].tolist()] * 2
        assert (output[:, length:] == 5).all()
    assert counts.numpy().tolist() == [[length, length + 1] for length in lengths]
    assert scores.numpy().tolist() == [[-length, -length - 1] for length in lengths]
