"""Marian's models as ours: the numbers of NumPy, three forms of files, damaged ones refused."""

import json
import os
import tracemalloc

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.files.torch_archives import Call, Global, pickled, write_torch
from tests.interop import marian_folders, numpy_marian
from tests.interop.marian_folders import (
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

pytestmark = pytest.mark.core

PAD = len(vocabulary()) - 1
SENTENCES = [
    "a small house stands behind the tree",
    "the river",
    "zwölf 漢 and q",
    ">>deu<< old bread",
    ">>xyz<< a lamp",
    "",
]


def random_rows(number=20, seed=0, size=PAD):
    """Padded rows of a source and of a target, and the targets' lengths."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 13, (2, number))
    lengths[:, 0] = 12
    tokens = generator.integers(2, size, (2, number, 12), "int32")
    source = np.full((number, 13), PAD, "int32")
    target = source.copy()  # starts with padding
    for row in range(number):
        source[row, : lengths[0, row] + 1] = [*tokens[0, row, : lengths[0, row]], 0]
        target[row, 1 : lengths[1, row] + 1] = tokens[1, row, : lengths[1, row]]
    return source, target, lengths[1] + 1


def largest_difference(imported, tensors, config):
    """Of our logits and NumPy's, at all positions but padding."""
    source, target, lengths = random_rows()
    ours = np.asarray(imported.model({"source_ids": source, "target_ids": target}))
    expected = numpy_marian.logits(tensors, config, source, target)
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
    repeated |= {f"model.{side}.embed_positions.weight": positions for side in ("encoder",)}
    repeated |= {"model.decoder.embed_positions.weight": positions}
    write_weights(tmp_path, tensors | repeated, "bin")
    assert_same_weights(import_marian(tmp_path), imported)


def assert_same_weights(found, expected):
    for one, other in zip(found.model.weights, expected.model.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), one.path)


@pytest.mark.parametrize("form", ["bin", "native"])
def test_all_forms_are_the_same_model(form, folders, imported):
    found = import_marian(folders[0] / form)
    assert_same_weights(found, imported)
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
    assert_same_weights(found, imported)
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
    translator = Translator(
        imported.model,
        imported.tokenizer,
        source_tokenizer=imported.source_tokenizer,
        **imported.search,
    )
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
    translator = Translator(
        found.model, found.tokenizer, source_tokenizer=found.source_tokenizer, **found.search
    )
    source, target = "the river", "der Fluss"
    (sources,), (targets,) = (
        found.source_tokenizer.encode([source]),
        found.tokenizer.encode([target]),
    )
    expected = numpy_marian.score(tensors, make_config(**changes), sources, targets)
    assert translator.score([source], [target]) == pytest.approx([expected], abs=1e-4)


def message_of(path, *expected):
    with pytest.raises(UserInputError) as refused:
        import_marian(path)
    message = str(refused.value)
    assert message.isprintable()
    assert str(path) in message
    for text in expected:
        assert text in message
    return message


SMALL = {"encoder_layers": 1, "decoder_layers": 1}
SMALL_TENSORS = make_tensors(make_config(**SMALL))
SMALL_SIZE = sum(tensor.size for tensor in SMALL_TENSORS.values())


def removed(name, *expected):
    return lambda path: (path / name).unlink(), (name, *expected)


def config(*expected, **changes):
    """A folder whose config.json alone has the changes."""
    return (
        lambda path: write_json(path / "config.json", make_config(**SMALL | changes)),
        ("config.json", *(expected or changes)),
    )


def text(name, content, *expected):
    return lambda path: (path / name).write_text(content, "utf-8"), (name, *expected)


def pieces(change, *expected):
    """A folder whose vocab.json has what `change` makes of the pieces' ids."""
    return (
        lambda path: write_json(path / "vocab.json", change(vocabulary())),
        ("vocab.json", *expected),
    )


def moved(ids, **changes):
    return ids | {f"<{name}>" if name in ("pad", "unk") else name: i for name, i in changes.items()}


def without(ids, *names):
    """The ids without some pieces, closed up."""
    kept = [name for name in ids if name not in names]
    return {name: number for number, name in enumerate(kept)}


def swapped(ids, one, other):
    return ids | {one: ids[other], other: ids[one]}


FC1 = "model.encoder.layers.0.fc1.weight"


def weights(change, *expected):
    """A folder whose tensors are those that `change` returns."""

    def damage(path):
        write_weights(path, change(SMALL_TENSORS))

    return damage, ("model.safetensors", *expected)


def hostile_bin(path):
    (path / "model.safetensors").unlink()
    call = Call(Global("os", "system"), ("touch harm",))
    write_torch(path / "pytorch_model.bin", pickled({"w": call}))


HUGE = 10**12
DAMAGES = {
    "no config": (lambda path: (path / "config.json").unlink(), ("config.json",)),
    "no tensors": (
        lambda path: (path / "model.safetensors").unlink(),
        ("model.safetensors", "pytorch_model.bin"),
    ),
    "no vocab.json": removed("vocab.json"),
    "no source.spm": removed("source.spm"),
    "no target.spm": removed("target.spm"),
    "a config that is no JSON": text("config.json", "{", "not JSON"),
    "a config of a list": text("config.json", "[]"),
    "a config that is nested deep": text("config.json", "[" * 100_000),
    "a config of another model": config("model_type", model_type="bart"),
    "a config without its model": config("model_type", model_type=None),
    "a size that is a text": config("d_model", d_model="16"),
    "a broken generation_config": text("generation_config.json", "{", "not JSON"),
    "a beam of half in it": text(
        "generation_config.json", '{"num_beams": 1.5}', "is damaged", "`$.num_beams`"
    ),
    "no beam in it": text(
        "generation_config.json", '{"num_beams": 0}', "`num_beams` must be a positive integer"
    ),
    "a negative penalty in it": text(
        "generation_config.json",
        '{"length_penalty": -1}',
        "`length_penalty` must be a number >= 0. Received: length_penalty=-1",
    ),
    "forbidden tokens in it": text(
        "generation_config.json", '{"bad_words_ids": [[7]]}', "`bad_words_ids` must be"
    ),
    "norms before": config(normalize_before=True),
    "a norm of the embeddings": config(normalize_embedding=True),
    "a final norm": config(add_final_layer_norm=True),
    "learned positions": config(static_position_embeddings=False),
    "plain embeddings": config(scale_embedding=False),
    "an unknown activation": config("activation_function", activation_function="tanh"),
    "an activation of two lines": config("activation_function", activation_function="a\nb"),
    "an odd hidden size": config(
        "even", d_model=15, encoder_attention_heads=3, decoder_attention_heads=3
    ),
    "heads that do not divide it": config(
        "3", encoder_attention_heads=3, decoder_attention_heads=3
    ),
    "heads of one side": config(decoder_attention_heads=4),
    "widths of one side": config(decoder_ffn_dim=32),
    "the end as the start": config(decoder_start_token_id=0),
    "a start beyond the vocabulary": (
        config(decoder_start_token_id=PAD + 1)[0],
        ("vocab.json", f"id {PAD + 1}"),
    ),
    "forbidden tokens": config(bad_words_ids=[[PAD], [7]]),
    "a forbidden last piece": config(bad_words_ids=[[PAD], [PAD - 1]]),
    "a forbidden phrase": config(bad_words_ids=[[7, 8]]),
    "no hidden size": config("0", d_model=0),
    "negative layers": config("-1", encoder_layers=-1),
    "a beam of no size": config("`num_beams` must be a positive integer", num_beams=-1),
    "no beam": config("`num_beams` must be a positive integer", num_beams=0),
    "a beam too large": config(
        "`num_beams` must be at most 1,000. Received: num_beams=1001", num_beams=1001
    ),
    "a huge beam": config("`num_beams` must be at most 10,000", num_beams=10**30),
    "an endless beam": config("num_beams", num_beams=float("inf")),
    "a negative penalty": config("`length_penalty` must be a number >= 0", length_penalty=-2.0),
    "no number as penalty": config("nan", length_penalty=float("nan")),
    "a huge vocabulary": (config(vocab_size=HUGE, decoder_vocab_size=HUGE)[0], ("vocab.json",)),
    "a million layers": config("layers", encoder_layers=10**6),
    "a width beyond the tensors": config(
        # Each of the units has 16 inputs, a bias and 16 outputs.
        f"it would have {SMALL_SIZE + 2 * 33 * (8_000_000 - 24):,} weights",
        f"model.safetensors has {SMALL_SIZE:,}",
        encoder_ffn_dim=8_000_000,
        decoder_ffn_dim=8_000_000,
    ),
    "a huge width": config("too large", encoder_ffn_dim=HUGE, decoder_ffn_dim=HUGE),
    "an endless width": config("large", encoder_ffn_dim=10**4000, decoder_ffn_dim=10**4000),
    "another end": (config(eos_token_id=5)[0], ("vocab.json", "</s>", "5")),
    "vocab.json of words": text("vocab.json", json.dumps({"a": "b"})),
    "a hole in the ids": pieces(lambda ids: moved(ids, pad=PAD + 1), "0, 1, 2"),
    "an id twice": pieces(lambda ids: ids | {"▁Katze": 5}, "0, 1, 2"),
    "an id below 0": pieces(lambda ids: ids | {"▁Katze": -1}, "0, 1, 2"),
    "too few pieces": pieces(
        lambda ids: without(ids, *list(ids)[9:20]), f"{PAD + 1} tokens", f"{PAD - 10} pieces"
    ),
    "too many pieces": pieces(
        lambda ids: ids | {"more": PAD + 1}, f"{PAD + 1} tokens", f"{PAD + 2} pieces"
    ),
    "no <unk>": pieces(lambda ids: without(ids, "<unk>"), "<unk>"),
    "no <pad>": pieces(lambda ids: without(ids, "<pad>"), "<pad>"),
    "no </s>": pieces(lambda ids: without(ids, "</s>"), "</s>"),
    "<pad> elsewhere": pieces(lambda ids: swapped(ids, "<pad>", "漢"), "<pad>", str(PAD)),
    "</s> elsewhere": pieces(lambda ids: swapped(ids, "</s>", "漢"), "</s>", "0"),
    "half a character": pieces(
        lambda ids: {"\ud800" if piece == "漢" else piece: i for piece, i in ids.items()}
    ),
    "a target's broken vocabulary": text("target_vocab.json", "{", "not JSON"),
    "a tensor missing": weights(
        lambda tensors: {name: tensors[name] for name in tensors if name != FC1}, FC1, "lacks"
    ),
    "a bias of the logits missing": weights(
        lambda tensors: {name: tensors[name] for name in tensors if name != BIAS}, BIAS, "lacks"
    ),
    "a tensor left over": weights(
        lambda tensors: tensors | {"model.encoder.layers.1.fc1.bias": np.ones(2, "f4")},
        "model.encoder.layers.1.fc1.bias",
    ),
    "a tensor of two lines left over": weights(
        lambda tensors: tensors | {"a\nb": np.ones(2, "f4")}
    ),
    "a tensor of another shape": weights(
        lambda tensors: tensors | {FC1: np.ascontiguousarray(tensors[FC1].T)}, FC1, "(24, 16)"
    ),
    "a table of another size": weights(
        lambda tensors: tensors | {SHARED: tensors[SHARED][:-1]}, SHARED, f"({PAD + 1}, 16)"
    ),
    "a table that does not repeat the shared one": weights(
        lambda tensors: tensors | {SOURCE: tensors[SHARED] + 1}, SOURCE, SHARED
    ),
    "a tensor of integers": weights(
        lambda tensors: tensors | {FC1: tensors[FC1].astype("int32")}, FC1, "int32"
    ),
    "a tensor with NaN": weights(
        lambda tensors: tensors | {FC1: np.full_like(tensors[FC1], np.nan)}, FC1, "finite"
    ),
    "a tensor with infinity": weights(
        lambda tensors: tensors | {SHARED: np.full_like(tensors[SHARED], np.inf)}, SHARED, "finite"
    ),
    "a cut model.safetensors": (
        lambda path: os.truncate(path / "model.safetensors", 5000),
        ("model.safetensors",),
    ),
    "a cut source.spm": (lambda path: os.truncate(path / "source.spm", 300), ("source.spm",)),
    "an empty target.spm": (lambda path: os.truncate(path / "target.spm", 0), ("target.spm",)),
    "a hostile pickle": (hostile_bin, ("pytorch_model.bin", "os.system")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_refused(damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, expected = DAMAGES[damage]
    write_hugging_face(tmp_path, **SMALL)
    change(tmp_path)
    tracemalloc.start()
    message_of(tmp_path, *expected)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000
    assert not os.path.exists("harm")


def native(*expected, **changes):
    """A folder of Marian whose configuration alone has the changes."""

    def damage(path):
        changed = {name.replace("_", "-"): value for name, value in changes.items()}
        config = native_config(SMALL_TENSORS) | changed
        write_npz(path / "model.npz", native_arrays(SMALL_TENSORS), config)

    names = [name.replace("_", "-") for name in changes]
    return damage, ("model.npz", *(expected or [f"`{name}` must be" for name in names[:1]]))


def arrays(change, *expected):
    """A folder of Marian whose model.npz has the arrays that `change` returns."""

    def damage(path):
        config = native_config(SMALL_TENSORS)
        write_npz(path / "model.npz", change(native_arrays(SMALL_TENSORS)), config)

    return damage, ("model.npz", *expected)


def model_yml(content, *expected):
    """A model.npz with this text as its configuration."""

    def damage(path):
        extra = {"special:model.yml": np.frombuffer(content.encode(), "int8")}
        write_npz(path / "model.npz", native_arrays(SMALL_TENSORS) | extra, None)

    return damage, ("model.npz", *expected)


BOMB = "b0: &b0 [x, x]\n" + "".join(
    f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
RUN = '!!python/object/apply:os.system ["touch harm"]'
NATIVE_DAMAGES = {
    "no model.npz": removed("model.npz", "No such file"),
    "no vocab.yml": removed("vocab.yml", "No such file"),
    "no source.spm": removed("source.spm", "No such file"),
    "no target.spm": removed("target.spm", "No such file"),
    "no configuration": (
        lambda path: write_npz(path / "model.npz", native_arrays(SMALL_TENSORS), None),
        ("model.npz", "lacks Marian's configuration, special:model.yml"),
    ),
    "averages as attention": native(transformer_decoder_autoreg="average-attention"),
    "another kind of model": native(type="s2s"),
    "norms before": native(transformer_preprocess="n"),
    "no norms": native("`transformer-preprocess` must be", transformer_postprocess="da"),
    "tied layers": native(transformer_tied_layers=[1, 1]),
    "factors": native(lemma_dim_emb=8),
    "a deep feed-forward": native(transformer_ffn_depth=3),
    "an unknown activation": native(transformer_ffn_activation="tanh"),
    "a size that is no number": native("`dim-emb` must be a number", dim_emb="wide"),
    "a size of halves": native("`dim-emb` must be a positive integer", dim_emb=16.5),
    "an endless size": native("`enc-depth` must be a number", enc_depth=".inf"),
    "a size of infinity": native("`enc-depth` must be a positive integer", enc_depth="inf"),
    "a size that is not there": native("`dim-emb` must be a positive integer", dim_emb="nan"),
    "a size of 300 digits": native("The model is too large", transformer_dim_ffn="1e300"),
    "a million layers": native("at most 1,000 layers", dec_depth=10**6),
    "an odd hidden size": native("`hidden_dim` must be even", dim_emb=15, transformer_heads=3),
    "heads that do not divide it": native("a multiple of `num_heads`", transformer_heads=3),
    "a list as a size": native("`dim-emb` must be a number", dim_emb=[16]),
    "a tensor missing": arrays(
        lambda found: {name: found[name] for name in found if name != "encoder_l1_ffn_W1"},
        "lacks the tensor encoder_l1_ffn_W1",
    ),
    "a tensor left over": arrays(
        lambda found: found | {"encoder_l2_ffn_W1": np.ones(2, "f4")},
        "a tensor that this model lacks: 'encoder_l2_ffn_W1'",
    ),
    "a tensor of another shape": arrays(
        lambda found: found | {"encoder_l1_ffn_W1": found["encoder_l1_ffn_W1"].T},
        "The tensor encoder_l1_ffn_W1",
        "must have the shape (16, 24). Received: shape=(24, 16)",
    ),
    "a table with a row for padding": arrays(
        lambda found: found | {"Wemb": np.pad(found["Wemb"], [(0, 1), (0, 0)])},
        "The tensor Wemb",
        f"must have the shape ({PAD}, 16)",
    ),
    "a tensor of integers": arrays(
        lambda found: found | {"Wemb": found["Wemb"].astype("int8")},
        "The tensor Wemb",
        "must hold floating-point numbers. Received: dtype=int8",
    ),
    "a tensor with NaN": arrays(
        lambda found: found | {"Wemb": np.full_like(found["Wemb"], np.nan)},
        "The tensor Wemb",
        "has values that are not finite",
    ),
    "a cut model.npz": (
        lambda path: os.truncate(path / "model.npz", 5000),
        ("model.npz", "is not readable as .npz"),
    ),
    "a configuration that is no YAML": model_yml("a: [\n\0", "its YAML cannot be read"),
    "a configuration that runs": model_yml(f"type: {RUN}\n\0", "`type` must be 'transformer'"),
    "a configuration that grows": model_yml(f"{BOMB}type: *b11\n\0", "it has aliases"),
    "a size that grows": model_yml(f"{BOMB}dim-emb: *b11\n\0", "it has aliases"),
    "a decoder.yml that names another model": text(
        "decoder.yml", "models: [/train/other.npz]\nvocabs: [vocab.yml]\n"
    ),
    "a decoder.yml that names another vocabulary": text(
        "decoder.yml", "models: [model.npz]\nvocabs: [other.yml]\n"
    ),
    "a decoder.yml that names the folder": text(
        "decoder.yml", "models: ['..']\n", "`models` must be a .npz or .bin file"
    ),
    "a decoder.yml that names no file": text(
        "decoder.yml", 'models: ["a\\0.npz"]\n', "`models` must name files"
    ),
    "a decoder.yml that names no vocabulary": text(
        "decoder.yml", 'vocabs: ["a\\0.yml"]\n', "`vocabs` must name files"
    ),
    "a decoder.yml that is a list": text("decoder.yml", "- 1\n", "must hold names and values"),
    # PyYAML 6.0.4 and later refuse it themselves: "maximum nesting depth".
    "a decoder.yml that is nested deep": text("decoder.yml", "[" * 100_000, "nest"),
    "a decoder.yml that runs": text(
        "decoder.yml", f"beam-size: {RUN}\n", "`beam-size` must be a number"
    ),
    "a decoder.yml that grows": text("decoder.yml", f"{BOMB}normalize: *b11\n", "it has aliases"),
    "a huge beam": text("decoder.yml", "beam-size: 200000\n", "`beam-size` must be at most 10,000"),
    "a beam of no size": text(
        "decoder.yml", "beam-size: 0\n", "`beam-size` must be a positive integer"
    ),
    "a negative penalty": text(
        "decoder.yml", "normalize: -1\n", "`normalize` must be a number >= 0"
    ),
    "a vocab.yml that is a list": text(
        "vocab.yml", "- </s>\n- <unk>\n", "must hold names and values"
    ),
    "a vocab.yml that is a word": text("vocab.yml", "word", "must hold names and values"),
    "a vocab.yml with words as ids": text(
        "vocab.yml", "</s>: 0\n<unk>: one\n", "an id is no number"
    ),
    "a vocab.yml with lists as ids": text(
        "vocab.yml", "</s>: 0\n<unk>: [1]\n", "an id is no number"
    ),
    "a vocab.yml that runs": text("vocab.yml", f"</s>: {RUN}\n", "an id is no number"),
    "a vocab.yml with padding": text(
        "vocab.yml", "</s>: 0\n<unk>: 1\n<pad>: 2\n", "the piece <pad>"
    ),
    "a vocab.yml with a hole": text(
        "vocab.yml", "</s>: 0\n<unk>: 1\na: 3\n", "must be 0, 1, 2 and so on"
    ),
    "a vocab.yml without <unk>": text("vocab.yml", "</s>: 0\na: 1\n", "lacks the piece <unk>"),
}
# Faults that another file shows.
ELSEWHERE = {
    "a decoder.yml that names another model": ("other.npz", "No such file"),
    "a decoder.yml that names another vocabulary": ("other.yml", "No such file"),
}


@pytest.mark.parametrize("damage", NATIVE_DAMAGES)
def test_a_damaged_folder_of_marian_is_refused(damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change, expected = NATIVE_DAMAGES[damage]
    write_native(tmp_path, SMALL_TENSORS)
    change(tmp_path)
    tracemalloc.start()
    message_of(tmp_path, *ELSEWHERE.get(damage, expected))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000
    assert not os.path.exists("harm")


def test_what_is_no_folder_of_a_model_is_refused(tmp_path):
    message_of(tmp_path / "nowhere")
    message_of(tmp_path, "config.json", "model.npz")
    (tmp_path / "file").touch()
    message_of(tmp_path / "file")
