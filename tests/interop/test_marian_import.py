"""Marian's models as ours: the numbers of NumPy, three forms of files, damaged ones refused."""

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.interop import marian_folders, numpy_marian
from tests.interop.marian_folders import (
    ATTENTIONS,
    BIAS,
    HEAD,
    SHARED,
    SOURCE,
    TARGET,
    make_config,
    make_tensors,
    native_arrays,
    native_config,
    sentencepiece,
    vocabulary,
    write_hugging_face,
    write_json,
    write_native,
    write_npz,
    write_texts,
    write_weights,
)
from tests.interop.random_models import assert_same_weights, translator_from

PAD = len(vocabulary()) - 1
SENTENCES = [
    "a small house stands behind the tree",
    "the river",
    "zwölf 漢 and q",
    ">>deu<< old bread",
    ">>xyz<< a lamp",
    "",
]


def random_rows(number=20, pad=PAD):
    """Padded rows of a source and of a target, which starts with padding; the targets' lengths."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(1, 13, (2, number))
    lengths[:, 0] = 12
    tokens = generator.integers(2, pad, (2, number, 12), "int32")
    source = np.full((number, 13), pad, "int32")
    target = source.copy()
    for row in range(number):
        source[row, : lengths[0, row] + 1] = [*tokens[0, row, : lengths[0, row]], 0]
        target[row, 1 : lengths[1, row] + 1] = tokens[1, row, : lengths[1, row]]
    return source, target, lengths[1] + 1


def largest_difference(imported, tensors, config):
    """Of our logits and NumPy's."""
    source, target, lengths = random_rows()
    expected = numpy_marian.logits(tensors, config, source, target)
    return difference(imported, expected, source, target, lengths)


def difference(imported, expected, source, target, lengths):
    """The largest of our logits and these, at all positions but padding."""
    ours = np.asarray(imported.model({"source_ids": source, "target_ids": target}))
    assert ours.shape == expected.shape
    is_token = np.arange(target.shape[1]) < lengths[:, None]
    assert expected[is_token].std() > 0.5
    return np.abs(ours - expected)[is_token].max()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One model in its three forms, by name, and its tensors; read only."""
    path = tmp_path_factory.mktemp("marian")
    tensors = write_hugging_face(path / "safetensors")
    write_hugging_face(path / "bin", weights="bin")
    write_native(path / "native", tensors)
    return path, tensors


@pytest.fixture(scope="module")
def imported(folders):
    return import_marian(folders[0] / "safetensors")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"activation_function": "gelu"},
        {"activation_function": "relu", "encoder_layers": 1, "decoder_layers": 3},
        {"tie_word_embeddings": False},
        {"vocab_size": PAD + 6, "decoder_vocab_size": PAD + 6},
        {"decoder_vocab_size": None, "bad_words_ids": None, "num_beams": None},
        {"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    ],
    ids=lambda changes: ", ".join(changes) or "swish",
)
def test_logits_are_those_of_numpy(changes, tmp_path):
    tensors = write_hugging_face(tmp_path, **changes)
    found = import_marian(tmp_path)
    assert largest_difference(found, tensors, make_config(**changes)) < 1e-4


def write_separate(path, *, more=5, **changes):
    """A folder whose target has a vocabulary of its own, with more pieces."""
    size = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": PAD + 1 + more}
    tensors = write_hugging_face(path, **size | changes)
    pieces = vocabulary() | {f"▁more{number}": PAD + 1 + number for number in range(more)}
    write_json(path / "target_vocab.json", pieces)
    return tensors, make_config(**size | changes)


@pytest.mark.parametrize("tied", [True, False])
def test_both_sides_may_have_vocabularies_of_their_own(tied, tmp_path):
    tensors, config = write_separate(tmp_path, tie_word_embeddings=tied)
    found = import_marian(tmp_path)
    assert largest_difference(found, tensors, config) < 1e-4
    assert found.source_tokenizer.vocabulary_size == PAD + 1
    assert found.tokenizer.vocabulary_size == PAD + 6
    assert found.tokenizer.pieces([PAD + 3]) == ["▁more2"]


def test_tensors_that_old_files_repeat_are_accepted(folders, imported, tmp_path):
    _, tensors = folders
    write_texts(tmp_path)
    write_json(tmp_path / "config.json", make_config())
    shared = tensors[SHARED]
    positions = numpy_marian.sinusoids(512, 16).astype("float32")
    repeated = dict.fromkeys((SOURCE, TARGET, HEAD), shared)
    repeated |= {f"model.{side}.embed_positions.weight": positions for side in ATTENTIONS}
    write_weights(tmp_path, tensors | repeated, "bin")
    assert_same_weights(import_marian(tmp_path).model, imported.model)


@pytest.mark.parametrize("form", ["bin", "native"])
def test_all_forms_are_the_same_model(form, folders, imported):
    found = import_marian(folders[0] / form)
    assert_same_weights(found.model, imported.model)
    own = {"positions": "sinusoidal_t2t", "layer_norm_epsilon": 1e-6}
    own |= {"zero_id": PAD, "decoder_unit": "attention", "final_norm": False}
    assert found.settings == imported.settings | (own if form == "native" else {})
    assert largest_difference(found, folders[1], make_config(is_native=form == "native")) < 1e-4
    for side in ("tokenizer", "source_tokenizer"):
        one, other = getattr(found, side), getattr(imported, side)
        assert one.fingerprint == other.fingerprint
        assert one.special_tokens == other.special_tokens
        assert one.encode(SENTENCES) == other.encode(SENTENCES)
    search = {"beam_size": 4, "alpha": 1.0, "length_penalty": "power", "max_source_length": 512}
    search |= {"ending": "transformers", "renormalize": True}
    assert SearchOptions(**imported.search) == SearchOptions(**search)
    own = {"beam_size": 6, "allow_unknown": False, "ending": "marian"}
    search |= own if form == "native" else {}
    assert SearchOptions(**found.search) == SearchOptions(**search)


@pytest.mark.parametrize("is_old", [False, True])
def test_untied_and_separate_matrices_of_marian(is_old, tmp_path):
    changes = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}
    config = make_config(**changes, is_native=True)
    tensors = make_tensors(config)
    write_native(tmp_path, tensors)
    if is_old:
        arrays = native_arrays(tensors)
        arrays["decoder_ff_logit_out_W"] = arrays.pop("decoder_ff_logit_out_Wt").T
        write_npz(tmp_path / "model.npz", arrays, native_config(tensors))
    found = import_marian(tmp_path)
    assert largest_difference(found, tensors, config) < 1e-4


def test_files_of_marian_without_a_decoder_yml(folders, imported, tmp_path):
    write_native(tmp_path, folders[1])
    (tmp_path / "decoder.yml").unlink()
    (tmp_path / "model.npz").rename(tmp_path / "opus.npz")
    (tmp_path / "vocab.yml").rename(tmp_path / "opus.vocab.yml")
    found = import_marian(tmp_path)
    assert_same_weights(found.model, imported.model)
    assert found.search["beam_size"] == 6


def test_the_tokenizers_have_the_vocabularys_ids(imported):
    ids = vocabulary()
    for name, tokenizer in (
        ("source.spm", imported.source_tokenizer),
        ("target.spm", imported.tokenizer),
    ):
        assert tokenizer.special_tokens == SpecialTokens(pad=PAD, bos=PAD, eos=0, unk=1)
        assert tokenizer.vocabulary_size == len(ids)
        assert tokenizer.target_languages == ("deu", "fra")
        plain = type(tokenizer)(sentencepiece(name))
        for sentence in SENTENCES[:3]:
            pieces = plain._processor.encode(sentence, out_type=str)
            assert tokenizer.encode([sentence]) == [[ids.get(piece, 1) for piece in pieces]]
    german, *rest = imported.source_tokenizer.encode([">>deu<< old bread"])[0]
    assert german == ids[">>deu<<"]
    assert [rest] == imported.source_tokenizer.encode(["old bread"])
    assert imported.source_tokenizer.fingerprint != imported.tokenizer.fingerprint


def test_sides_with_the_same_pieces_have_one_tokenizer(tmp_path):
    write_hugging_face(tmp_path)
    (tmp_path / "target.spm").write_bytes(sentencepiece("source.spm"))
    found = import_marian(tmp_path)
    assert found.source_tokenizer is found.tokenizer


def test_the_translator_takes_it_all(folders, imported):
    translator = translator_from(imported)
    assert translator.length_penalty == "power"
    sentences = marian_folders.ENGLISH[:4]
    texts = translator.translate(sentences)
    assert len(set(texts)) > 1
    sources = imported.source_tokenizer.encode(sentences)
    targets = imported.tokenizer.encode(marian_folders.GERMAN[:4])
    found = translator.score(sentences, marian_folders.GERMAN[:4])
    expected = [
        numpy_marian.score(folders[1], make_config(), source, target)
        for source, target in zip(sources, targets, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_padding_has_no_share_of_the_probability(tmp_path):
    """A number added to the bias of every token of Marian's changes nothing."""
    scores, texts = [], []
    for shift in (0, -12):
        folder = tmp_path / str(shift)
        tensors = write_hugging_face(folder)
        tensors[BIAS] += shift
        tensors[BIAS][0, PAD] = 0
        write_weights(folder, tensors)
        translator = Translator.from_preset(folder, extra_length=8)
        texts.append(translator.translate_nbest(marian_folders.ENGLISH[:4], 2))
        scores.append(translator.score(marian_folders.ENGLISH[:4], marian_folders.GERMAN[:4]))
    np.testing.assert_allclose(*scores, rtol=1e-5)
    for one, other in zip(*texts, strict=True):
        assert [text for text, _ in one] == [text for text, _ in other]
        np.testing.assert_allclose([s for _, s in one], [s for _, s in other], rtol=1e-5)
    write_json(folder / "generation_config.json", {"renormalize_logits": False})
    kept = Translator.from_preset(folder, extra_length=8)
    assert kept.score(marian_folders.ENGLISH[:4], marian_folders.GERMAN[:4])[0] < scores[0][0] - 10


def test_the_search_is_that_of_generate(tmp_path, capsys):
    """Its defaults where generation_config.json says nothing; what we lack is told."""
    write_hugging_face(tmp_path, num_beams=4, do_sample=True)
    search = {"early_stopping": True, "num_beam_groups": 2}
    search |= {"min_length": 3, "no_repeat_ngram_size": 2, "length_penalty": 0.5}
    write_json(tmp_path / "generation_config.json", search)
    assert SearchOptions(**import_marian(tmp_path).search) == SearchOptions(
        beam_size=1,
        alpha=0.5,
        renormalize=False,
        min_length=2,
        no_repeat_ngram=2,
        max_source_length=512,
        length_penalty="power",
        ending="first",
    )
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("counterpart of ")[1] for line in lines] == [
        "num_beam_groups=2: the run ignores it.",
    ]


@pytest.mark.parametrize(
    ("text", "beam_size", "alpha"),
    [(None, 6, 1), ("beam-size: 3\n", 3, 0), ("normalize: 1\n", 12, 1)],
)
def test_marians_own_defaults_hold_where_decoder_yml_says_nothing(text, beam_size, alpha, tmp_path):
    write_native(tmp_path, make_tensors(make_config()))
    (tmp_path / "decoder.yml").unlink()
    if text is not None:
        (tmp_path / "decoder.yml").write_text(text)
    found = import_marian(tmp_path).search
    assert (found["beam_size"], found["alpha"]) == (beam_size, alpha)


def test_padding_is_never_produced(tmp_path):
    tensors = write_hugging_face(tmp_path)
    tensors[BIAS][0, PAD] = 50
    write_weights(tmp_path, tensors)
    found = import_marian(tmp_path)
    generator = SequenceGenerator(found.model, found.tokenizer.special_tokens)
    source, *_ = random_rows(6)
    for beam_size in (1, 4):
        options = SearchOptions(beam_size=beam_size, extra_length=5, length_penalty="power")
        for row in np.asarray(generator.search(source, options=options)[0])[:, 0]:
            (end,) = np.flatnonzero(row == 0)
            assert PAD not in row[:end]
            assert (row[end + 1 :] == PAD).all()


def test_the_decoder_may_start_with_another_token(tmp_path):
    changes = {"decoder_start_token_id": 5, "bad_words_ids": [[PAD], [5]]}
    tensors = write_hugging_face(tmp_path, **changes)
    found = import_marian(tmp_path)
    assert found.tokenizer.special_tokens == SpecialTokens(pad=PAD, bos=5, eos=0, unk=1)
    translator = translator_from(found)
    source, target = "the river", "der Fluss"
    (sources,), (targets,) = (
        found.source_tokenizer.encode([source]),
        found.tokenizer.encode([target]),
    )
    expected = numpy_marian.score(tensors, make_config(**changes), sources, targets)
    assert translator.score([source], [target]) == pytest.approx([expected], abs=1e-4)
