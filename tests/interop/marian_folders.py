"""Writes small Marian models with random weights, in Hugging Face's form and in Marian's own."""

import functools
import json
import random
import struct

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.interop import import_marian
from keras_transformer.text import SentencePieceTokenizer
from tests.files.torch_archives import torch_file

ENGLISH = [
    "a small house stands behind the tree",
    "the trees behind a house stand small and tall",
    "old bread and a green lamp lie beside the river",
    "the river is old and the stone is green",
] * 2
GERMAN = [
    "das große Haus steht vor dem Baum",
    "ein Baum steht in dem kleinen Garten vor den großen Häusern",
    "altes Brot und eine grüne Lampe liegen neben dem Fluss",
    "der Fluss ist alt und der Stein ist grün",
] * 2
TAGS = (">>deu<<", ">>fra<<")
OTHER = ("▁Katze", "zwölf", "漢")  # of neither side
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
SIDES = {"source.spm": ENGLISH, "target.spm": GERMAN}
ATTENTIONS = {"encoder": ("self_attn",), "decoder": ("self_attn", "encoder_attn")}
SHARED, SOURCE, TARGET = (
    f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
HEAD, BIAS = "lm_head.weight", "final_logits_bias"

# Of what a released config.json of OPUS-MT says beside the sizes.
RELEASED = {
    "activation_function": "swish",
    "add_bias_logits": False,
    "add_final_layer_norm": False,
    "architectures": ["MarianMTModel"],
    "bos_token_id": 0,
    "dropout": 0.1,
    "eos_token_id": 0,
    "extra_pos_embeddings": None,
    "forced_eos_token_id": 0,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"},
    "is_encoder_decoder": True,
    "max_length": 512,
    "max_position_embeddings": 512,
    "model_type": "marian",
    "normalize_before": False,
    "normalize_embedding": False,
    "num_beams": 4,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "static_position_embeddings": True,
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
    "transformers_version": "4.22.0.dev0",
    "use_cache": True,
}


@functools.cache
def sentencepiece(name):
    """The bytes of the SentencePiece model of one side, by the name of its file."""
    return SentencePieceTokenizer.train(
        SIDES[name], vocabulary_size=37, model_type="unigram"
    ).model_bytes


def vocabulary(size=None):
    """The ids of both sides' pieces, `<pad>` last; filled up to a size with words of its own."""
    pieces = set()
    for name in SIDES:
        tokenizer = SentencePieceTokenizer(sentencepiece(name))
        pieces |= set(tokenizer.pieces(range(tokenizer.vocabulary_size)))
    found = ["</s>", "<unk>", *sorted(pieces - set(SPECIAL)), *OTHER, *TAGS]
    if size is not None:
        found += [f"▁word{number}" for number in range(size - 1 - len(found))]
    return {piece: number for number, piece in enumerate([*found, "<pad>"])}


def make_config(**changes):
    """A config.json of a model for `vocabulary()`; a change to None leaves the key's value null."""
    pad = len(vocabulary()) - 1
    sizes = {"d_model": 16, "vocab_size": pad + 1, "decoder_vocab_size": pad + 1}
    for side in ("encoder", "decoder"):
        sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 24}
    ids = {"pad_token_id": pad, "decoder_start_token_id": pad, "bad_words_ids": [[pad]]}
    return RELEASED | sizes | {"num_hidden_layers": 2} | ids | changes


def shapes(config):
    """The shape of each tensor of a model by its name in PyTorch's state dict."""
    hidden, size = config["d_model"], config["vocab_size"]
    found = {SHARED: (size, hidden)}
    if not config["share_encoder_decoder_embeddings"]:
        found, size = {SOURCE: (size, hidden)}, config["decoder_vocab_size"]
        found[TARGET] = (size, hidden)
    if not config["tie_word_embeddings"]:
        found[HEAD] = (size, hidden)
    found[BIAS] = (1, size)
    for side, attentions in ATTENTIONS.items():
        inner = config[f"{side}_ffn_dim"]
        for number in range(config[f"{side}_layers"]):
            layer = f"model.{side}.layers.{number}"
            matrices = {f"{layer}.fc1": (inner, hidden), f"{layer}.fc2": (hidden, inner)}
            norms, own = [f"{layer}.final_layer_norm"], attentions
            if side == "decoder" and config.get("decoder_unit") == "ssru":
                own = attentions[1:]
                norms.append(f"{layer}.rnn_layer_norm")
                matrices[f"{layer}.rnn.f_proj"] = (hidden, hidden)
                found[f"{layer}.rnn._proj.weight"] = (hidden, hidden)
            for attention in own:
                norms.append(f"{layer}.{attention}_layer_norm")
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    matrices[f"{layer}.{attention}.{projection}"] = (hidden, hidden)
            for name, shape in (matrices | dict.fromkeys(norms, (hidden,))).items():
                found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        if config["add_final_layer_norm"]:
            top = f"model.{side}.layer_norm"
            found |= {f"{top}.weight": (hidden,), f"{top}.bias": (hidden,)}
    return found


def make_tensors(config, seed=0):
    """Random tensors of a model by the names of PyTorch's state dict; those of `<pad>` are 0."""
    generator = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes(config).items():
        scale = 0.5 if name in (SHARED, SOURCE, TARGET, HEAD, BIAS) else 0.3
        mean = 1.0 if name.endswith("layer_norm.weight") else 0.0
        tensors[name] = generator.normal(mean, scale, shape).astype("float32")
        if name in (SHARED, SOURCE, TARGET, HEAD):
            tensors[name][config["pad_token_id"]] = 0
    tensors[BIAS][0, config["pad_token_id"]] = 0
    tensors[BIAS][0, config["eos_token_id"]] += 2  # outputs end
    return tensors


def write_weights(path, tensors, weights="safetensors"):
    """The tensors as a file of a Hugging Face folder: "safetensors" or "bin"."""
    if weights == "bin":
        return torch_file(path / "pytorch_model.bin", tensors)
    from safetensors.numpy import save_file

    save_file(tensors, path / "model.safetensors")
    return path / "model.safetensors"


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2))


def write_texts(path, size=None):
    """The two SentencePiece models and vocab.json."""
    path.mkdir(exist_ok=True)
    for name in SIDES:
        (path / name).write_bytes(sentencepiece(name))
    write_json(path / "vocab.json", vocabulary(size))


def write_hugging_face(path, *, weights="safetensors", **changes):
    """A Hugging Face folder, with changes to its config.json; returns its tensors."""
    config = make_config(**changes)
    tensors = make_tensors(config)
    write_texts(path)
    write_json(path / "config.json", config)
    write_weights(path, tensors, weights)
    return tensors


def native_names(tensors, pre_norm=False):
    """Hugging Face's name of each tensor -> Marian's."""
    suffix = "_pre" if pre_norm else ""
    names = {SHARED: "Wemb", SOURCE: "encoder_Wemb", TARGET: "decoder_Wemb"}
    names |= {HEAD: "decoder_ff_logit_out_Wt", BIAS: "decoder_ff_logit_out_b"}
    blocks = {"self_attn": "self", "encoder_attn": "context", "rnn": "rnn"}
    kinds, letters = {"weight": "scale", "bias": "bias"}, {"weight": "W", "bias": "b"}
    for side in ("encoder", "decoder"):
        names |= {f"model.{side}.layer_norm.{k}": f"{side}_top_ln_{kinds[k]}" for k in kinds}
    for name in tensors:
        if name in names:
            continue
        _, side, _, number, block, *_, kind = name.split(".")
        layer = f"{side}_l{int(number) + 1}"
        if block == "final_layer_norm":
            names[name] = f"{layer}_ffn_ffn_ln_{kinds[kind]}{suffix}"
        elif block == "rnn_layer_norm":
            rnn = "rnn" if pre_norm else "rnn_ffn"
            names[name] = f"{layer}_{rnn}_ln_{kinds[kind]}{suffix}"
        elif block.endswith("_layer_norm"):
            names[name] = f"{layer}_{blocks[block[:-11]]}_Wo_ln_{kinds[kind]}{suffix}"
        elif block.startswith("fc"):
            names[name] = f"{layer}_ffn_{letters[kind]}{block[2:]}"
        else:
            names[name] = f"{layer}_{blocks[block]}_{letters[kind]}{name.split('.')[-2][:-5][:1]}"
    return {name: names[name] for name in tensors}


def native_arrays(tensors, pre_norm=False):
    """The tensors by Marian's names and in its shapes, without the row of `<pad>`."""
    arrays = {}
    for name, own in native_names(tensors, pre_norm).items():
        array = tensors[name]
        if name in (SHARED, SOURCE, TARGET, HEAD):
            arrays[own] = array[:-1]
        elif name == BIAS:
            arrays[own] = array[:, :-1]
        else:
            arrays[own] = array.T if array.ndim == 2 else array[None]
    return arrays


def native_config(tensors, heads=2):
    """The content of special:model.yml, all of whose keys have a value."""

    def depth(side):
        layers = f"model.{side}.layers."
        return len({name.split(".")[3] for name in tensors if name.startswith(layers)})

    hidden_dim = len(tensors["model.encoder.layers.0.final_layer_norm.bias"])
    return {
        "bert-train-type-embeddings": True,
        "dec-depth": depth("decoder"),
        "dim-emb": hidden_dim,
        "dim-vocabs": [len(vocabulary()) - 1] * 2,
        "enc-depth": depth("encoder"),
        "lemma-dim-emb": 0,
        "layer-normalization": False,
        "right-left": False,
        "skip": False,
        "tied-embeddings": HEAD not in tensors,
        "tied-embeddings-all": SHARED in tensors and HEAD not in tensors,
        "tied-embeddings-src": SHARED in tensors,
        "transformer-aan-depth": 2,
        "transformer-decoder-autoreg": "self-attention",
        "transformer-dim-ffn": len(tensors["model.encoder.layers.0.fc1.bias"]),
        "transformer-ffn-activation": "swish",
        "transformer-ffn-depth": 2,
        "transformer-heads": heads,
        "transformer-no-projection": False,
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-preprocess": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "type": "transformer",
        "ulr-dim-emb": 0,
        "version": "v1.8.2 2111c28 2019-10-16 08:36:48 -0700",
    }


def write_npz(path, arrays, config):
    """A model.npz with the configuration in it; None as a configuration leaves it out."""
    if config is not None:
        content = json.dumps(config).encode() + b"\n\0"  # JSON is YAML too
        arrays = arrays | {"special:model.yml": np.frombuffer(content, "int8")}
    np.savez(path, **arrays)


INTGEMM8 = 0x4101


def write_bin(path, arrays, config, in_8_bits=()):
    """A model.bin: the arrays in float32, matrices of some names as intgemm's int8.

    Returns what the matrices in 8 bits stand for.
    """
    items = {"special:model.yml": (0x0101, json.dumps(config).encode() + b"\n\0")}
    shapes, rounded = {"special:model.yml": (len(items["special:model.yml"][1]),)}, {}
    for name, array in arrays.items():
        shapes[name] = array.shape
        items[name] = (0x0404, np.ascontiguousarray(array, "<f4").tobytes())
        if name in in_8_bits:
            scale = np.float32(127 / np.abs(array).max())
            numbers = np.round(array * scale).astype("int8")
            rounded[name] = numbers / scale
            stored = numbers if name == "Wemb" else numbers.T
            items[name] = (INTGEMM8, np.ascontiguousarray(stored).tobytes() + scale.tobytes())
            items[f"{name}_QuantMultA"] = (0x0404, np.float32(30).tobytes())
            shapes[f"{name}_QuantMultA"] = (1, 1)
    names = sorted(items)
    heads, contents = [], []
    for name in names:
        kind, content = items[name]
        content += b"\0" * (-len(content) % 256)
        heads.append(struct.pack("<4Q", len(name) + 1, kind, len(shapes[name]), len(content)))
        contents.append(content)
    head = struct.pack("<2Q", 1, len(names)) + b"".join(heads)
    head += b"".join(name.encode() + b"\0" for name in names)
    head += b"".join(struct.pack(f"<{len(shapes[n])}i", *shapes[n]) for n in names)
    gap = -(len(head) + 8) % 256
    path.write_bytes(head + struct.pack("<Q", gap) + b"\0" * gap + b"".join(contents))
    return rounded


def write_native(path, tensors, **changes):
    """The same model as Marian's own folder, with changes to the configuration in model.npz."""
    path.mkdir(exist_ok=True)
    config = native_config(tensors) | {name.replace("_", "-"): changes[name] for name in changes}
    write_npz(path / "model.npz", native_arrays(tensors), config)
    (path / "decoder.yml").write_text(
        "models:\n  - /train/model.npz\nvocabs:\n  - /train/vocab.yml\n  - /train/vocab.yml\n"
        "beam-size: 6\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\nmaxi-batch: 1\n"
        "relative-paths: false\n"
    )
    lines = [
        f"{json.dumps(piece, ensure_ascii=False)}: {number}\n"
        for piece, number in vocabulary().items()
        if piece != "<pad>"
    ]
    (path / "vocab.yml").write_text("".join(lines), encoding="utf-8")
    for name in SIDES:
        (path / name).write_bytes(sentencepiece(name))


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


def count_refused(path, whole, read, seed, *, number=20_000, end=None, values=range(256), cut=True):
    """How many of the files with changes of a few bytes `read` refuses; it raises nothing else."""
    generator, refused = random.Random(seed), 0
    for _ in range(number):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(end or len(content))] = generator.choice(values)
        if cut and generator.random() < 0.5:
            del content[generator.randrange(1, min(len(content), 2000)) :]
        path.write_bytes(content)
        try:
            read(path)
        except UserInputError:
            refused += 1
    return refused
