import json

import pytest

from keras_transformer.whole_files import write_json, write_text


def test_writes_are_whole_or_not_at_all(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 41.0, "satz": "größer"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"bleu": 41.0, "satz": "größer"}
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert json.loads(path.read_text(encoding="utf-8"))["bleu"] == 41.0
