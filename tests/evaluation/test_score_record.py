import json
import platform

import keras
import numpy

from keras_transformer.evaluation import score_record


def test_a_score_record_has_the_promised_keys_and_is_json():
    record = score_record(
        bleu=41.5,
        signature="nrefs:1",
        seconds=60.0,
        target_tokens_per_second=1000.0,
        command="python -m recipes.number_words.train --seed 2",
        exact_match=0.995,
    )
    read = json.loads(json.dumps(record))
    assert read["bleu"] == 41.5
    assert read["exact_match"] == 0.995
    assert read["command"].endswith("--seed 2")
    assert read["versions"]["numpy"] == numpy.__version__
    assert read["versions"]["python"] == platform.python_version()
    assert read["versions"]["backend"] == keras.backend.backend()
    assert read["machine"]["cores"] >= 1
    assert read["machine"]["devices"]
