"""An imported model through every export, and a model of ours as a folder of Marian."""

import json
import re

import numpy as np
import pytest

from keras_transformer import RunDirectory, Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_ctranslate2, export_litert, export_marian
from keras_transformer.models import build_transformer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.interop import numpy_marian
from tests.interop.marian_folders import ENGLISH, GERMAN, write_hugging_face
from tests.interop.random_models import assert_same_weights

SENTENCES = [*ENGLISH[:4], "", ">>deu<< the tree", "  two  spaces ", "漢 and q"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    path = tmp_path_factory.mktemp("marian")
    write_hugging_face(path)
    return Translator.from_preset(path, extra_length=4)


@pytest.mark.tensorflow
def test_a_saved_model_has_the_translators_strings(translator, tmp_path):
    import tensorflow as tf

    from keras_transformer.export import export_saved_model

    path = export_saved_model(translator, tmp_path / "saved")
    signatures = tf.saved_model.load(str(path)).signatures
    found = signatures["serving_default"](inputs=tf.constant(SENTENCES))
    expected = translator.translate_nbest(SENTENCES, 1)
    assert [text.decode() for text in found["outputs"].numpy()] == [best[0] for (best,) in expected]
    np.testing.assert_allclose(found["scores"], [best[1] for (best,) in expected], atol=1e-4)
    tokens = signatures["tokenize"](inputs=tf.constant(SENTENCES))
    pairs = zip(tokens["ids"].numpy(), tokens["lengths"].numpy(), strict=True)
    rows = [row[:length].tolist() for row, length in pairs]
    assert rows == translator.source_tokenizer.encode(SENTENCES)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_litert_has_the_translators_strings(translator, tmp_path):
    pytest.importorskip("ai_edge_litert")
    from keras_transformer.serving import LiteRTTranslator

    export_litert(translator, tmp_path / "litert")
    found = LiteRTTranslator(tmp_path / "litert").translate(SENTENCES)
    assert found == translator.translate(SENTENCES)
    tagged = LiteRTTranslator(tmp_path / "litert", target_language="deu").translate(ENGLISH[:4])
    assert tagged == translator.translate([f">>deu<< {sentence}" for sentence in ENGLISH[:4]])
    assert tagged != found[:4]


@pytest.mark.parametrize("beam_size", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_ctranslate2_has_the_translators_strings(translator, tmp_path, beam_size):
    """Its length penalty is Marian's too; its beam search may stop before the best is found."""
    pytest.importorskip("ctranslate2")
    from keras_transformer.serving import CTranslate2Translator

    export_ctranslate2(translator, tmp_path / "ct2")
    options = {"beam_size": beam_size, "alpha": 1.0, "extra_length": 4}
    found = CTranslate2Translator(tmp_path / "ct2", **options)
    ours = Translator(
        translator.models,
        translator.tokenizer,
        source_tokenizer=translator.source_tokenizer,
        length_penalty="power",
        ending="transformers",
        renormalize=True,
        **options,
    )
    expected = ours.translate(SENTENCES)
    pairs = list(zip(found.translate(SENTENCES), expected, strict=True))
    assert sum(one != other for one, other in pairs) <= (beam_size > 1)
    np.testing.assert_allclose(
        found.score(SENTENCES[:4], expected[:4]), ours.score(SENTENCES[:4], expected[:4]), atol=1e-3
    )


def test_out_and_in_again_is_the_same_model(translator, tmp_path):
    export_marian(translator, tmp_path / "out")
    found = Translator.from_preset(tmp_path / "out", extra_length=4)
    assert_same_weights(found.models[0], translator.models[0])
    assert found.search_options == translator.search_options
    assert found.translate(SENTENCES) == translator.translate(SENTENCES)
    assert found.tokenizer.fingerprint == translator.tokenizer.fingerprint


def test_the_search_goes_out_and_comes_in_again(tmp_path):
    options = {"min_length": 3, "no_repeat_ngram": 2, "ending": "any", "max_source_length": 700}
    write_hugging_face(tmp_path)
    translator, folder = Translator.from_preset(tmp_path, **options), tmp_path / "out"
    export_marian(translator, folder)
    found = json.loads((folder / "generation_config.json").read_text())
    # `generate` counts the decoder's first input.
    assert (found["min_length"], found["no_repeat_ngram_size"], found["max_length"]) == (4, 2, 700)
    assert Translator.from_preset(folder).search_options == translator.search_options


@pytest.mark.commands
def test_the_search_that_a_run_was_tuned_to_goes_out(tmp_path):
    run = RunDirectory.open(ours().save_to_preset(tmp_path / "run"))
    run.write_search_defaults({"beam_size": 3, "alpha": 1.25})
    assert cli.main(["export", "marian", str(run.path), str(tmp_path / "out")]) == 0
    found = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert (found["num_beams"], found["length_penalty"]) == (3, 1.25)


def ours(*, separate=False, extra_length=50, vocabulary_size=60, **options):
    """A translator of a new model of ours, with random biases; of 60 tokens and padding."""
    tokenizers = [
        SentencePieceTokenizer.train(lines, vocabulary_size=60)
        for lines in ([ENGLISH, GERMAN] if separate else [ENGLISH + GERMAN])
    ]
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2}
    sizes |= {"intermediate_dim": 24, "vocabulary_size": vocabulary_size}
    if separate:
        sizes["source_vocabulary_size"] = 64  # padded
    model = build_transformer("tiny", **sizes, **options)
    random = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.2 * random.normal(size=weight.shape))
    search = {"length_penalty": "power", "alpha": 1.0, "ending": "transformers"}
    search["extra_length"] = extra_length
    return Translator(model, tokenizers[-1], source_tokenizer=tokenizers[0], **search)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="the paper's"),
        pytest.param(
            {"use_bias": True, "activation": "swish", "use_logits_bias": True},
            id="with biases",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"separate": True, "tie_weights": False, "activation": "gelu"},
            id="separate vocabularies",
        ),
        pytest.param({"residual_connection": "encoder_deepnorm"}, id="deepnorm"),
    ],
)
def test_a_model_of_ours_has_its_logits_in_marian(options, tmp_path):
    """Marian's layer normalizations have another epsilon."""
    from safetensors.numpy import load_file

    translator = ours(**options)
    folder = export_marian(translator, tmp_path / "out")
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    random = np.random.default_rng(1)
    source_ids = random.integers(4, 60, (5, 7))
    source_ids[:, -1] = translator.source_tokenizer.special_tokens.eos
    target_ids = random.integers(4, 60, (5, 6))
    target_ids[:, 0] = config["decoder_start_token_id"]
    expected = numpy_marian.logits(tensors, config, source_ids, target_ids)
    again = Translator.from_preset(folder)
    for each in (translator, again):
        found = each.models[0]({"source_ids": source_ids, "target_ids": target_ids})
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-4)
    assert again.tokenizer.special_tokens == translator.tokenizer.special_tokens


def test_the_padding_of_the_targets_vocabulary_is_never_produced(tmp_path):
    translator = ours(vocabulary_size=64)
    tokens = translator.tokenizer.special_tokens
    folder = export_marian(translator, tmp_path / "out")
    found = json.loads((folder / "generation_config.json").read_text())
    never = [tokens.pad, tokens.bos, 60, 61, 62, 63]
    assert found["bad_words_ids"] == [[number] for number in never]
    again = Translator.from_preset(folder)
    assert again.translate(SENTENCES) == translator.translate(SENTENCES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize_first": True}, "`normalize_first=True`: it must be False"),
        ({"final_norm": True}, "`final_norm=True`"),
        ({"positions": "learned", "max_length": 30}, "`positions='learned'`"),
        ({"positions": "rotary"}, "`positions='rotary'`: it must be 'sinusoidal'"),
        ({"activation": "tanh"}, "`activation='tanh'`"),
        ({"attention_window": 5}, "`attention_window=5`: it must be None"),
        ({"residual_connection": "b2t"}, "residual_connection='b2t'"),
        ({"qk_norm": True}, "`qk_norm=True`: it must be False"),
        ({"key_dim": 3, "value_dim": 3}, "`num_heads x key_dim=6`: it must be 16"),
        ({"value_dim": 5, "key_dim": 8}, "`value_dim=5`: it must be 8"),
    ],
)
def test_what_has_no_counterpart_is_told(options, message, tmp_path):
    with pytest.raises(UserInputError, match=message):
        export_marian(ours(**options), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.commands
def test_the_commands(translator, tmp_path, capsys):
    write_hugging_face(tmp_path / "opus")
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    assert cli.main(["import", "marian", str(tmp_path / "opus"), run]) == 0
    assert capsys.readouterr().out == f"{run}\n"
    assert cli.main(["check", run]) == 0
    assert cli.main(["export", "marian", run, out]) == 0
    capsys.readouterr()
    assert cli.main(["check", out]) == 0
    assert re.fullmatch(rf"{re.escape(out)}: \d+ files are intact\n", capsys.readouterr().out)
    assert cli.main(["import", "marian", str(tmp_path / "none"), str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith("error: There is no preset")
