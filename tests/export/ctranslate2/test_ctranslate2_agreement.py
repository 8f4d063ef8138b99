"""CTranslate2 computes and finds what the translator does, with every kind of model it has."""

import io
import json

import numpy as np
import pytest
import sentencepiece

from keras_transformer.data import find_text, read_text
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import bleu
from keras_transformer.formats.ctranslate2.writer import export_ctranslate2
from keras_transformer.inference.row_generator import pad_ids
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from tests.export.ctranslate2.ctranslate2_models import (
    opened,
    pieces_of,
    scores_of,
    translations_of,
)
from tests.export.nasty_sentences import NASTY
from tests.external_data import MULTI30K, MULTI30K_RUN, needs_multi30k_run
from tests.random_translation import build, sentences
from tests.translation_training.number_text import pairs

EXTRA_LENGTH = 6


@pytest.fixture(scope="module")
def translator(trained_run):
    return Translator.load(trained_run, beam_size=1, alpha=0.0)


@pytest.fixture(scope="module")
def exported(translator, tmp_path_factory):
    return opened(translator, tmp_path_factory.mktemp("ctranslate2") / "model")


def equal(outputs, expected):
    """How many outputs are as expected."""
    return sum(output == other for output, other in zip(outputs, expected, strict=True))


def custom_tokenizer(lines, **options):
    """A tokenizer with special tokens of any ids and names, by SentencePiece's own options."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        minloglevel=2,
        **options,
    )
    return SentencePieceTokenizer(model.getvalue())


def expected_scores(translator, sources, targets):
    """`Translator.score`, without compiling it."""
    eos = translator.source_tokenizer.special_tokens.eos
    tokens = translator.tokenizer.special_tokens
    source_ids = [[*row, eos] for row in translator.source_tokenizer.encode(sources)]
    target_rows = translator.tokenizer.encode(targets)
    return SequenceGenerator(translator.models[0], tokens).score(
        pad_ids(source_ids, tokens.pad),
        pad_ids([[tokens.bos, *row] for row in target_rows], tokens.pad),
        pad_ids([[*row, tokens.eos] for row in target_rows], tokens.pad),
    )


def expected_outputs(translator, sources):
    """The greedy outputs of `Translator.translate`, without compiling it."""
    tokens = translator.tokenizer.special_tokens
    eos = translator.source_tokenizer.special_tokens.eos
    generator = SequenceGenerator(
        translator.models[0], tokens, translator.tokenizer.vocabulary_size
    )
    rows = [[*row, eos] for row in translator.source_tokenizer.encode(sources)]
    options = SearchOptions(beam_size=1, extra_length=EXTRA_LENGTH)
    ids, _ = generator.search(pad_ids(rows, tokens.pad), options=options)
    return translator.tokenizer.decode(np.asarray(ids)[:, 0])


def short_sentences(seed):
    return [" ".join(line.split()[:4]) for line in sentences(8, seed=seed)]


def check_computation(translator, exported):
    """The same log-probabilities of any pair, and the same greedy outputs up to their limits."""
    sources, targets = short_sentences(seed=2), [*short_sentences(seed=3)[1:], ""]
    np.testing.assert_allclose(
        scores_of(exported, translator, sources, targets),
        expected_scores(translator, sources, targets),
        rtol=1e-6,  # without a final norm scores are some -1,000, of which float32 has 7 digits
        atol=1e-4,
    )
    tokens = translator.tokenizer.special_tokens
    size = translator.models[0].output_shape[-1] - translator.tokenizer.vocabulary_size
    never = translator.tokenizer.pieces([tokens.pad, tokens.bos])
    never += [f"<padding_{i}>" for i in range(size)]
    found = []
    for source, pieces in zip(
        sources, pieces_of(translator.source_tokenizer, sources), strict=True
    ):
        found += translations_of(
            exported,
            translator,
            [source],
            beam_size=1,
            max_decoding_length=len(pieces) + EXTRA_LENGTH,
            suppress_sequences=[[token] for token in never],
        )
    assert found == expected_outputs(translator, sources)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"normalize_first": True, "use_bias": True, "vocabulary_size": 48},  # padded
        {"positions": "learned", "max_length": 96},
        {"positions": "rotary", "key_dim": 6},
        {"residual_connection": "deepnorm", "use_bias": True},
        pytest.param({"num_encoder_layers": 2, "num_decoder_layers": 3}, marks=pytest.mark.slow),
        {"num_heads": 3, "key_dim": 5, "hidden_dim": 18},  # heads narrower than the model
        {"activation": "gelu", "layer_norm_epsilon": 1e-2, "tie_weights": False},
        {"activation": "swish", "final_norm": True, "use_bias": True, "use_logits_bias": True},
        pytest.param({"normalize_first": True, "final_norm": False}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_kind_of_model_computes_the_same(tokenizer, options, tmp_path):
    options = options | {"value_dim": options.get("key_dim")}
    translator = Translator(build(tokenizer, **options), tokenizer)
    check_computation(translator, opened(translator, tmp_path / "model"))


def test_separate_vocabularies_with_other_special_tokens(tokenizer, tmp_path):
    source_tokenizer = custom_tokenizer(
        sentences(50),
        vocab_size=46,
        unk_id=1,
        eos_id=4,
        bos_id=2,
        pad_id=0,
        eos_piece="<end>",
    )
    model = build(
        tokenizer,
        source_vocabulary_size=source_tokenizer.vocabulary_size + 2,
        positions="learned",
        max_length=96,
    )
    translator = Translator(model, tokenizer, source_tokenizer=source_tokenizer)
    check_computation(translator, opened(translator, tmp_path / "model"))
    names = json.loads((tmp_path / "model" / "source_vocabulary.json").read_text("utf-8"))
    assert names[:3] == ["<pad>", "<unk>", "<s>"]
    assert names[4] == "</s>"  # CTranslate2 has one name of it for both sides
    assert names[-2:] == ["<padding_0>", "<padding_1>"]
    for name, expected in (("source_tokenizer", source_tokenizer), ("tokenizer", tokenizer)):
        loaded = SentencePieceTokenizer.load(tmp_path / "model" / f"{name}.model")
        assert loaded.fingerprint == expected.fingerprint


def test_special_tokens_of_another_order(tmp_path):
    tokenizer = custom_tokenizer(
        sentences(50), vocab_size=42, unk_id=0, bos_id=1, eos_id=2, pad_id=3
    )
    translator = Translator(build(tokenizer, padding_id=3), tokenizer)
    check_computation(translator, opened(translator, tmp_path / "model"))


def test_a_model_in_bfloat16_keeps_its_weights(tokenizer, tmp_path):
    model, same = build(tokenizer, dtype="bfloat16"), build(tokenizer)
    same.set_weights([np.asarray(weight, "float32") for weight in model.get_weights()])
    exported = opened(Translator(model, tokenizer), tmp_path / "model")
    sources, targets = short_sentences(seed=2), short_sentences(seed=3)
    found = scores_of(exported, Translator(model, tokenizer), sources, targets)
    expected = expected_scores(Translator(same, tokenizer), sources, targets)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_source_token_named_like_a_special_token_of_the_target_is_refused(tokenizer, tmp_path):
    source_tokenizer = custom_tokenizer(
        sentences(50),
        vocab_size=46,
        pad_id=0,
        unk_id=3,
        unk_piece="<nothing>",
        user_defined_symbols="<unk>",
    )
    model = build(tokenizer, source_vocabulary_size=46)
    translator = Translator(model, tokenizer, source_tokenizer=source_tokenizer)
    with pytest.raises(UserInputError, match="not be other tokens of the source. Received: <unk>$"):
        export_ctranslate2(translator, tmp_path / "model")


def test_it_translates_as_the_translator_does(translator, exported):
    sources = [*pairs()[0][::5], ""]
    greedy = translations_of(exported, translator, sources, beam_size=1)
    expected = translator.translate(sources)
    assert equal(greedy, expected) >= 0.99 * len(sources)
    assert greedy[-1] == ""
    beam = translations_of(exported, translator, sources, beam_size=4, length_penalty=0)
    translator = Translator(translator.models, translator.tokenizer, beam_size=4, alpha=0.0)
    assert equal(beam, translator.translate(sources)) >= 0.98 * len(sources)


def test_it_scores_and_aligns_as_the_translator_does(translator, exported):
    sources, targets = (side[:60] for side in pairs())
    targets = [*targets[1:], ""]
    np.testing.assert_allclose(
        scores_of(exported, translator, sources, targets),
        translator.score(sources, targets),
        atol=1e-4,
    )
    pieces = pieces_of(translator.tokenizer, sources[:3])
    found = exported.translate_batch(
        pieces, beam_size=1, return_attention=True, return_end_token=True
    )
    texts = translations_of(exported, translator, sources[:3], beam_size=1)
    for expected, result in zip(translator.align(sources[:3], texts), found, strict=True):
        weights = np.array(result.attention[0])
        np.testing.assert_allclose(
            weights[: len(expected.target_pieces)], expected.weights[:, :-1], atol=1e-5
        )


@pytest.mark.parametrize(
    ("precision", "weight", "position"),  # bytes of a number
    [("float32", 4, 4), ("float16", 2, 2), ("int16", 2, 4), ("int8", 1, 4)],
)
def test_a_smaller_one_translates_as_well(translator, precision, weight, position, tmp_path):
    # What the model is sure of: in other sentences it wavers, on each processor in its own way.
    scored = zip(*pairs(), translator.score(*pairs()), strict=True)
    sources, targets = zip(*((x, y) for x, y, score in scored if score > -0.2), strict=True)
    assert len(sources) > 100
    smaller = opened(translator, tmp_path / "model", precision=precision)
    found = translations_of(smaller, translator, sources, beam_size=1)
    assert equal(found, targets) >= 0.95 * len(sources)
    positions = 2048 * 64 * position
    weights = translator.models[0].count_params() * weight
    assert (tmp_path / "model" / "model.bin").stat().st_size < positions + 1.15 * weights


def test_fifty_nasty_inputs_have_an_output_each(translator, exported):
    inputs = [text.decode("utf-8", errors="replace") for text in NASTY]
    options = {"beam_size": 4, "length_penalty": 0, "max_decoding_length": 60}
    together = translations_of(exported, translator, inputs, max_batch_size=8, **options)
    for text, output in zip(inputs, together, strict=True):
        assert (output == "") == (translator.tokenizer.encode([text]) == [[]])
    for i in range(0, len(NASTY), 5):
        assert translations_of(exported, translator, [inputs[i]], **options) == [together[i]]
    assert exported.translate_batch([]) == []


@pytest.mark.slow
@needs_multi30k_run
def test_a_trained_translator_of_image_captions_is_the_same(tmp_path):
    files = (find_text(MULTI30K, f"test_2016_flickr.{language}") for language in ("en", "de"))
    sources, references = (read_text(file) for file in files)
    greedy = Translator.load(MULTI30K_RUN, beam_size=1, alpha=0.0)
    beam = Translator(greedy.models, greedy.tokenizer, beam_size=4, alpha=0.0)
    models = {
        precision: opened(greedy, tmp_path / precision, precision=precision)
        for precision in ("float32", "int8")
    }
    found, scores = {}, {}
    for precision, exported in models.items():
        options = {"beam_size": 4, "length_penalty": 0}
        found[precision] = translations_of(exported, greedy, sources, **options)
        scores[precision], _ = bleu(found[precision], references, tokenize="none")
    assert equal(found["float32"], beam.translate(sources)) >= 0.98 * len(sources)
    assert scores["int8"] >= scores["float32"] - 0.5
    found = translations_of(models["float32"], greedy, sources, beam_size=1)
    assert equal(found, greedy.translate(sources)) >= 0.99 * len(sources)
    np.testing.assert_allclose(
        scores_of(models["float32"], greedy, sources, references),
        greedy.score(sources, references),
        atol=1e-4,
    )
