"""What a search says of its outputs is what a call of the model says."""

import numpy as np
from keras import ops


def check_search_scores(generator, source_ids, options):
    """With `alpha` 0, the score of each hypothesis is its log-probability."""
    ids, scores = map(ops.convert_to_numpy, generator.search(source_ids, options=options))
    for number in range(ids.shape[1]):
        labels = ids[:, number]
        target_ids = np.concatenate(
            [np.ones((len(source_ids), 1), "int32"), labels[:, :-1]], axis=1
        )
        expected = ops.convert_to_numpy(generator.score(source_ids, target_ids, labels))
        np.testing.assert_allclose(scores[:, number], expected, atol=1e-5)
