"""A student beside its teacher in CTranslate2."""

import re

import pytest

from keras_transformer import Translator
from keras_transformer.export import export_ctranslate2
from keras_transformer.text import SentencePieceTokenizer
from tests.python_programs import run_python
from tests.random_translation import build, sentences

pytestmark = pytest.mark.tensorflow


def test_both_translate_single_sentences_and_the_whole_text(tmp_path):
    pytest.importorskip("ctranslate2")
    tokenizer = SentencePieceTokenizer.train(sentences(40), vocabulary_size=60)
    translator = Translator(build(tokenizer), tokenizer, extra_length=2)
    translator.save_to_preset(tmp_path / "student")
    export_ctranslate2(translator, tmp_path / "teacher")
    text = tmp_path / "text"
    text.write_text("\n".join(sentences(8)), encoding="utf-8")
    arguments = [str(tmp_path / "student"), str(tmp_path / "teacher"), "--text", str(text)]
    done = run_python("-m", "benchmarks.translator_speed", *arguments, "--rounds", "1")
    found = re.findall(
        r"^(.*), 1 cores: (\d+) and (\d+) sentences/s, ratio [\d.]+ \(by round: [\d.]+\)$",
        done.stdout,
        re.MULTILINE,
    )
    assert [name for name, *_ in found] == ["one at a time", "the whole text"]
    assert all(int(speed) > 0 for _, *speeds in found for speed in speeds)
