"""Damaged and hostile folders of Marian, and what is not supported: one line each."""

import functools
import json
import os
import tracemalloc

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian import configurations
from keras_transformer.formats.marian import vocabulary as marian_vocabulary
from keras_transformer.text import SentencePieceTokenizer
from tests.files.torch_archives import Call, Global, pickled, write_torch
from tests.interop.marian_folders import (
    SHARED,
    SMALL,
    SMALL_TENSORS,
    SOURCE,
    make_config,
    message_of,
    native_arrays,
    native_config,
    vocabulary,
    write_hugging_face,
    write_json,
    write_native,
    write_npz,
    write_weights,
)
from tests.interop.test_marian_releases import SIZES, as_list, write_separate

PAD = len(vocabulary()) - 1

SMALL_SIZE = sum(tensor.size for tensor in SMALL_TENSORS.values())


def removed(name, *expected):
    return lambda path: (path / name).unlink(), (name, *expected)


def cut(name, size, *expected):
    return lambda path: os.truncate(path / name, size), (name, *expected)


def config(*expected, **changes):
    """A folder whose config.json alone has the changes."""
    return (
        lambda path: write_json(path / "config.json", make_config(**SMALL | changes)),
        ("config.json", *(expected or changes)),
    )


def text(name, content, *expected):
    return lambda path: (path / name).write_text(content, "utf-8"), (name, *expected)


decoder = functools.partial(text, "decoder.yml")
generation = functools.partial(text, "generation_config.json")
vocab = functools.partial(text, "vocab.yml")


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
    "no config": removed("config.json"),
    "no tensors": removed("model.safetensors", "pytorch_model.bin"),
    "no vocab.json": removed("vocab.json"),
    "no source.spm": removed("source.spm"),
    "no target.spm": removed("target.spm"),
    "a config that is no JSON": text("config.json", "{", "not JSON"),
    "a config of a list": text("config.json", "[]"),
    "a config that is nested deep": text("config.json", "[" * 100_000),
    "a config of another model": config("model_type", model_type="bart"),
    "a size that is a text": config("d_model", d_model="16"),
    "a broken generation_config": generation("{", "not JSON"),
    "a beam of half in it": generation('{"num_beams": 1.5}', "is damaged", "`$.num_beams`"),
    "no beam in it": generation('{"num_beams": 0}', "`num_beams` must be a positive integer"),
    "a negative penalty in it": generation(
        '{"length_penalty": -1}',
        "`length_penalty` must be a number >= 0. Received: length_penalty=-1",
    ),
    "forbidden tokens in it": generation('{"bad_words_ids": [[7]]}', "`bad_words_ids` must be"),
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
    "no beam": config("`num_beams` must be a positive integer", num_beams=0),
    "a beam too large": config(
        "`num_beams` must be at most 1,000. Received: num_beams=1001", num_beams=1001
    ),
    "a huge beam": config("`num_beams` must be at most 10,000", num_beams=10**30),
    "an endless beam": config("num_beams", num_beams=float("inf")),
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
    "a table that does not repeat the shared one": weights(
        lambda tensors: tensors | {SOURCE: tensors[SHARED] + 1}, SOURCE, SHARED
    ),
    "a cut model.safetensors": cut("model.safetensors", 5000),
    "a cut source.spm": cut("source.spm", 300),
    "an empty target.spm": cut("target.spm", 0),
    "a hostile pickle": (hostile_bin, ("pytorch_model.bin", "os.system")),
}


NATIVE_CONFIG = native_config(SMALL_TENSORS)


def arrays(change, *expected, config=NATIVE_CONFIG):
    """A folder of Marian whose model.npz has the arrays that `change` returns."""
    return (
        lambda path: write_npz(path / "model.npz", change(native_arrays(SMALL_TENSORS)), config),
        ("model.npz", *expected),
    )


def native(*expected, **changes):
    """A folder of Marian whose configuration alone has the changes."""
    changed = {name.replace("_", "-"): value for name, value in changes.items()}
    expected = expected or [f"`{next(iter(changed))}` must be"]
    return arrays(lambda found: found, *expected, config=NATIVE_CONFIG | changed)


def model_yml(content, *expected):
    """A model.npz with this text or array as its configuration."""
    if isinstance(content, str):
        content = np.frombuffer(content.encode(), "int8")
    return arrays(lambda found: found | {"special:model.yml": content}, *expected, config=None)


def naming(content, *expected):
    """A decoder.yml that names files or options of which something else is wrong."""
    return lambda path: (path / "decoder.yml").write_text(content), expected


def listed(content, *expected):
    """A folder whose vocabulary is a list with this content."""

    def damage(path):
        (path / "vocab.yml").unlink()
        (path / "decoder.yml").unlink()
        (path / "opus.vocab").write_bytes(content)

    return damage, ("opus.vocab", *expected)


def without_decoder(change, *expected):
    """A folder without decoder.yml that `change` has changed."""

    def damage(path):
        (path / "decoder.yml").unlink()
        change(path)

    return damage, expected


def separate(path):
    """Two vocabularies, and a configuration that ties the embeddings."""
    write_separate(path, *SIZES["a larger source"])
    write_npz(path / "model.npz", native_arrays(SMALL_TENSORS), native_config(SMALL_TENSORS))


def codes(path):
    for side in ("source", "target"):
        (path / f"{side}.spm").rename(path / f"{side}.bpe")


def foreign(name):
    """A folder with a SentencePiece model of another language."""

    def change(path):
        lines = ["маленький дом стоит за деревом", "старый хлеб и зелёная лампа лежат у реки"] * 4
        SentencePieceTokenizer.train(lines, path / name, vocabulary_size=40)

    return change


BOMB = "b0: &b0 [x, x]\n" + "".join(
    f"b{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
RUN = '!!python/object/apply:os.system ["touch harm"]'
NATIVE_DAMAGES = {
    "no model.npz": removed("model.npz", "No such file"),
    "no vocab.yml": removed("vocab.yml", "No such file"),
    "no source.spm": removed("source.spm", "No such file"),
    "no target.spm": removed("target.spm", "No such file"),
    "no configuration": arrays(
        lambda found: found, "lacks Marian's configuration, special:model.yml", config=None
    ),
    "averages as attention": native(transformer_decoder_autoreg="average-attention"),
    "another kind of model": native(type="s2s"),
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
        "must contain floating-point numbers. Received: dtype=int8",
    ),
    "a tensor with NaN": arrays(
        lambda found: found | {"Wemb": np.full_like(found["Wemb"], np.nan)},
        "The tensor Wemb",
        "has values that are not finite",
    ),
    "a cut model.npz": cut("model.npz", 5000, "is not readable as .npz"),
    "a configuration that is no YAML": model_yml("a: [\n\0", "its YAML cannot be read"),
    "a configuration that runs": model_yml(f"type: {RUN}\n\0", "`type` must be 'transformer'"),
    "a configuration that grows": model_yml(f"{BOMB}type: *b11\n\0", "it has aliases"),
    "a decoder.yml that names the folder": decoder(
        "models: ['..']\n", "`models` must be a .npz or .bin file"
    ),
    "a decoder.yml that names no file": decoder(
        'models: ["a\\0.npz"]\n', "`models` must name files"
    ),
    "a decoder.yml that names no vocabulary": decoder(
        'vocabs: ["a\\0.yml"]\n', "`vocabs` must name files"
    ),
    "a decoder.yml that is a list": decoder("- 1\n", "must contain names and values"),
    # PyYAML 6.0.4 and later refuse it themselves: "maximum nesting depth".
    "a decoder.yml that is nested deep": decoder("[" * 100_000, "nest"),
    "a decoder.yml that runs": decoder(f"beam-size: {RUN}\n", "`beam-size` must be a number"),
    "a decoder.yml that grows": decoder(f"{BOMB}normalize: *b11\n", "it has aliases"),
    "a huge beam": decoder("beam-size: 200000\n", "`beam-size` must be at most 10,000"),
    "a beam of no size": decoder("beam-size: 0\n", "`beam-size` must be a positive integer"),
    "a negative penalty": decoder("normalize: -1\n", "`normalize` must be a number >= 0"),
    "a vocab.yml that is a list": vocab("- </s>\n- <unk>\n", "must contain names and values"),
    "a vocab.yml with words as ids": vocab("</s>: 0\n<unk>: one\n", "an id is not a number"),
    "a vocab.yml with lists as ids": vocab("</s>: 0\n<unk>: [1]\n", "an id is not a number"),
    "a vocab.yml that runs": vocab(f"</s>: {RUN}\n", "an id is not a number"),
    "a vocab.yml with padding": vocab("</s>: 0\n<unk>: 1\n<pad>: 2\n", "the piece <pad>"),
    "a vocab.yml with a hole": vocab("</s>: 0\n<unk>: 1\na: 3\n", "must be 0, 1, 2 and so on"),
    "a vocab.yml without <unk>": vocab("</s>: 0\na: 1\n", "lacks the piece <unk>"),
    "a decoder.yml that names another model": naming(
        "models: [/train/other.npz]\nvocabs: [vocab.yml]\n", "other.npz", "No such file"
    ),
    "a decoder.yml that names another vocabulary": naming(
        "models: [model.npz]\nvocabs: [other.yml]\n", "other.yml", "No such file"
    ),
    "an ensemble of one file": naming(
        "models: [a/model.npz, b/model.npz]\n", "decoder.yml", "at most 20 files of different name"
    ),
    "an ensemble with weights": naming(
        "models: [a.npz, b.npz]\nweights: [1, 2]\n", "`weights` must be the same for all models"
    ),
    "an ensemble that is not there": naming("models: [model.npz, b.npz]\n", "b.npz"),
    "a word penalty of words": naming("word-penalty: a\n", "`word-penalty` must be a number"),
    "three vocabularies": naming(
        "vocabs: [vocab.yml, vocab.yml, vocab.yml]\n", "decoder.yml", "`vocabs` must be", "3 files"
    ),
    "a model with padding as vocabulary": naming(
        "vocabs: [source.spm]\n", "The tensor Wemb in ", "must have the shape (37, 16)"
    ),
    "a vocabulary of factors": naming("vocabs: [a.fsv]\n", "a.fsv is not supported", "factors"),
    "a mapping of vocabularies": naming("vocabs: {a: b}\n", "`vocabs` must name files"),
    "a damaged binary model": without_decoder(
        lambda path: (path / "model.npz").rename(path / "model.bin"),
        "model.bin is not a Marian binary file, or it is damaged",
    ),
    "weights of PyTorch alone": without_decoder(
        lambda path: (path / "model.npz").rename(path / "pytorch_model.bin"),
        "contains no Marian model: neither config.json",
    ),
    "tied embeddings and two vocabularies": (
        separate,
        ("model.npz", "`tied-embeddings-all` must be false with two vocabularies"),
    ),
    "codes that are none": (codes, ("source.bpe is damaged: it is not UTF-8",)),
    "two models": without_decoder(
        lambda path: (path / "other.npz").touch(),
        "one file model.npz. Received: model.npz, other.npz",
    ),
    "a joint vocabulary and two": without_decoder(
        lambda path: [(path / f"{side}.vocab.yml").touch() for side in ("src", "trg")],
        "Received: src.vocab.yml, trg.vocab.yml, vocab.yml",
    ),
    "an empty line": listed(b"</s>\n<unk>\n\na\n", "an empty line"),
    "a line twice": listed(b"</s>\n<unk>\na\na\n", "a line twice"),
    "an empty list": listed(b"", "an empty line"),
    "a list that is no text": listed(b"</s>\n<unk>\n\xff\n", "is damaged: it is not UTF-8"),
    "a list without an end": listed(b"<unk>\na\n", "lacks the piece </s>"),
    "a list with scores": listed(b"<unk>\t0\n</s>\t0\na\t-1\n", "lacks the piece <unk>"),
    "a list that is too short": listed(b"</s>\n<unk>\n", "source.spm and", "contains 0 of the"),
    "a configuration of numbers": model_yml(
        np.zeros(9, "float32"), "special:model.yml, must be a text", "dtype=float32"
    ),
    "a huge configuration": model_yml(
        np.zeros(1 << 22 | 1, "int8"), "must be a text of at most 4,194,304 bytes"
    ),
    "another language's source.spm": (
        foreign("source.spm"),
        (
            "source.spm and",
            "vocab.yml are from different models: the vocabulary contains 1 of the 36 pieces",
        ),
    ),
    "another language's target.spm": (
        foreign("target.spm"),
        ("target.spm and", "from different models"),
    ),
}
FORMS = {
    "Hugging Face's": (lambda path: write_hugging_face(path, **SMALL), DAMAGES),
    "Marian's": (lambda path: write_native(path, SMALL_TENSORS), NATIVE_DAMAGES),
}


@pytest.mark.parametrize(
    ("form", "damage"), [(form, damage) for form in FORMS for damage in FORMS[form][1]]
)
def test_a_damaged_folder_is_refused(form, damage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, damages = FORMS[form]
    change, expected = damages[damage]
    write(tmp_path)
    change(tmp_path)
    tracemalloc.start()
    message_of(tmp_path, *expected)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150_000_000
    assert not os.path.exists("harm")


def test_what_is_no_folder_of_a_model_is_refused(tmp_path):
    message_of(tmp_path / "nowhere")
    message_of(tmp_path, "config.json", "model.npz")
    (tmp_path / "file").touch()
    message_of(tmp_path / "file")


def test_yaml_and_lists_of_too_many_values_are_refused(tmp_path, monkeypatch):
    write_native(tmp_path, SMALL_TENSORS)
    monkeypatch.setattr(configurations, "_MOST_EVENTS", 100)
    message_of(tmp_path, "vocab.yml is damaged: its YAML cannot be read: it has more than 100 valu")
    monkeypatch.setattr(configurations, "MOST_BYTES", 50)
    message_of(tmp_path, "decoder.yml must have at most 50 bytes")
    listed(as_list(vocabulary()).encode())[0](tmp_path)
    monkeypatch.setattr(marian_vocabulary, "MOST_PIECES", 20)
    message_of(tmp_path, "opus.vocab must have at most 20 pieces")


BREAKS = {"none": "", "LF": "\n", "CR": "\r", "CRLF": "\r\n"}
BREAKS |= {"NEL": "\x85", "LS": "\u2028", "PS": "\u2029"}
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("line_break", BREAKS)
def test_directives_of_tags_are_refused(line_break, encoding, tmp_path):
    """PyYAML copies all of them for each; it takes UTF-16 with a mark before it, too."""
    before = "# a comment" if line_break != "none" else ""
    text = f"{before}{BREAKS[line_break]}%TAG !a! tag:a,2026:\n--- {{a: b}}\n"
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
    path = tmp_path / "decoder.yml"
    path.write_bytes(mark + text.encode(encoding))
    message = "it has %TAG directives" if encoding.startswith("utf-8") else "can't decode byte"
    with pytest.raises(UserInputError, match=message) as refused:
        configurations.read_yaml(path)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: [b, [], {}]\nb: {c: d, e: [1]}\n", {"a": ["b", [], {}], "b": {"c": "d", "e": ["1"]}}),
        ("!!x a: !!int 1\na: &n 2\n? b\n: \n", {"a": "2", "b": ""}),
        ("\ufeff'%TAG': null\n", {"%TAG": "null"}),
    ],
)
def test_values_of_yaml_are_text_lists_and_mappings(text, found, tmp_path):
    (tmp_path / "a.yml").write_text(text, "utf-8")
    assert configurations.read_yaml(tmp_path / "a.yml") == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must contain names and values"),
        ("a: b\n---\na: b\n", "must contain names and values"),
        ("a: b\n--- [\n", "its YAML cannot be read"),
        ("[a, b]: c\n", "a name is not text"),
    ],
)
def test_what_is_no_mapping_is_refused(text, message, tmp_path):
    (tmp_path / "a.yml").write_text(text, "utf-8")
    with pytest.raises(UserInputError, match=f"a.yml is damaged: .*{message}"):
        configurations.read_yaml(tmp_path / "a.yml")


def test_yaml_of_a_few_megabytes_does_not_grow(tmp_path):
    write_native(tmp_path, SMALL_TENSORS)
    (tmp_path / "decoder.yml").write_text(f"a: [{'a,' * 2_000_000}]\n")
    message_of(tmp_path, "decoder.yml is damaged", "more than 600,000 values")
