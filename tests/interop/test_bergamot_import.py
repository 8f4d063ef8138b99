"""Models of Bergamot: Marian's binary files, decoders with an SSRU, SentencePiece's ids."""

import gzip
import io
import json

import numpy as np
import pytest
import sentencepiece

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian.binary_file import open_marian_binary, unpacked_bergamot
from keras_transformer.interop import import_bergamot, import_marian
from keras_transformer.toolkit import cli
from tests.interop import numpy_marian
from tests.interop.marian_folders import (
    BIAS,
    ENGLISH,
    GERMAN,
    SHARED,
    count_refused,
    make_config,
    make_tensors,
    native_arrays,
    native_config,
    native_names,
    write_bin,
    write_npz,
)
from tests.text.shortlist_binary import binary

SIZE = 56
CHANGES = {
    "vocab_size": SIZE + 1,
    "decoder_vocab_size": SIZE + 1,
    "pad_token_id": SIZE,
    "decoder_start_token_id": SIZE,
    "decoder_unit": "ssru",
    "activation_function": "relu",
    "is_native": True,
}
SSRU = {"transformer-decoder-autoreg": "rnn", "dec-cell": "ssru"}
CONFIG = "models:\n  - model.ende.bin\nvocabs:\n  - vocab.ende.spm\n  - vocab.ende.spm\n"


def spm(lines):
    """A SentencePiece model as Marian trains it: the end of sentence is 0, no padding."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=SIZE, minloglevel=2,
        eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


BOTH = spm(ENGLISH + GERMAN)


def model_parts(seed=0, **changes):
    """Hugging Face's config and tensors, and Marian's configuration and arrays."""
    config = make_config(**CHANGES | changes)
    tensors = make_tensors(config, seed)
    own = native_config(tensors) | {"transformer-ffn-activation": config["activation_function"]}
    if config["decoder_unit"] == "ssru":
        own |= SSRU
    return config, tensors, own, native_arrays(tensors)


def write_folder(path, in_8_bits=False, spms=None, **changes):
    """A folder as Bergamot publishes it; returns NumPy's config and tensors."""
    path.mkdir(parents=True, exist_ok=True)
    config, tensors, own, arrays = model_parts(**changes)
    matrices = [name for name in arrays if name == "Wemb" or "_W" in name] if in_8_bits else []
    matrices = [name for name in matrices if "_ln_" not in name]
    rounded = write_bin(path / "model.ende.intgemm.bin", arrays, own, matrices)
    for name, theirs in native_names(tensors).items():
        if theirs in rounded:
            value = rounded[theirs]
            tensors[name][: len(value) if name == SHARED else None] = (
                value if name == SHARED else value.T
            )
    for name, content in (spms or {"vocab.ende.spm": BOTH}).items():
        (path / name).write_bytes(content)
    return config, tensors


def assert_logits(imported, config, tensors):
    """Equal to NumPy's, for some pairs."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=BOTH)
    for text, other in zip(ENGLISH[:4], GERMAN[:4], strict=True):
        source, target = [*processor.encode(text), 0], [SIZE, *processor.encode(other)]
        assert imported.source_tokenizer.encode([text])[0] == source[:-1]
        numpy_marian.check_logits(imported, tensors, config, source, target)


@pytest.mark.parametrize("in_8_bits", [False, True])
def test_logits_are_those_of_the_formula(tmp_path, in_8_bits):
    config, tensors = write_folder(tmp_path, in_8_bits)
    imported = import_bergamot(tmp_path)
    options = imported.model.options
    assert options.decoder_unit == "ssru"
    assert options.dropout == 0
    # The first head of the last layer is guided.
    assert (options.alignment_layer, options.alignment_head) == (options.num_decoder_layers, 1)
    assert_logits(imported, config, tensors)
    assert imported.source_tokenizer is imported.tokenizer


def test_decoders_with_attention_and_other_endings_are_read(tmp_path):
    """Marian's own folder: model.npz or model.bin, a vocabulary of SentencePiece."""
    config, tensors, own, arrays = model_parts(decoder_unit="attention")
    for name, write in (("model.bin", write_bin), ("model.npz", write_npz)):
        folder = tmp_path / name[6:]
        folder.mkdir()
        write(folder / name, arrays, own)
        (folder / "vocab.spm").write_bytes(BOTH)
        (folder / "decoder.yml").write_text(
            f"models: [{name}]\nvocabs: [/x/vocab.spm, /x/vocab.spm]\nbeam-size: 3\n"
        )
        imported = import_marian(folder)
        assert imported.search["beam_size"] == 3
        assert imported.model.options.dropout == 0.1
        assert_logits(imported, config, tensors)


def test_the_search_is_greedy_unless_the_configuration_says_otherwise(tmp_path):
    write_folder(tmp_path)
    search = import_bergamot(tmp_path).search
    assert (search["beam_size"], search["alpha"]) == (1, 1.0)
    (tmp_path / "model.ende.intgemm.bin").rename(tmp_path / "model.ende.bin")
    (tmp_path / "config.intgemm8bitalpha.yml").write_text(CONFIG + "beam-size: 4\n")
    assert import_bergamot(tmp_path).search["beam_size"] == 4


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_files_may_be_compressed(tmp_path, ending):
    config, tensors = write_folder(tmp_path)
    compress = gzip.compress
    if ending == "zst":
        compress = pytest.importorskip("zstandard").ZstdCompressor().compress
    for path in tmp_path.iterdir():
        path.with_name(f"{path.name}.{ending}").write_bytes(compress(path.read_bytes()))
        path.unlink()
    assert_logits(import_bergamot(tmp_path), config, tensors)
    packed = tmp_path / f"vocab.ende.spm.{ending}"
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(UserInputError, match=f"vocab.ende.spm.{ending} cannot be unpacked|damaged"):
        import_bergamot(tmp_path)


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_file_beside_its_compressed_form_is_read_itself(tmp_path, ending):
    config, tensors = write_folder(tmp_path)
    for path in [*tmp_path.iterdir()]:
        path.with_name(f"{path.name}.{ending}").write_bytes(b"another file")
    assert_logits(import_bergamot(tmp_path), config, tensors)


def test_files_that_are_read_unpack_to_a_multiple_of_their_size(tmp_path):
    for name in ("model.ende.bin", "vocab.ende.spm"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"content"))
    for name in ("readme.txt", "model.log", "optimizer.npz"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(bytes(30 << 20)))
    with unpacked_bergamot(tmp_path) as folder:
        found = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert found == {"model.ende.bin": 7, "vocab.ende.spm": 7}
    (tmp_path / "vocab.ende.spm.gz").write_bytes(gzip.compress(bytes(30 << 20)))
    with pytest.raises(UserInputError, match=r"spm.gz cannot be unpacked: it unpacks to more than"):
        import_bergamot(tmp_path)
    (tmp_path / "model.other.bin.gz").write_bytes(b"")
    message = r"at most 1 compressed model\*.bin. Received: model.ende.*.gz, model.other.bin.gz$"
    with pytest.raises(UserInputError, match=message):
        import_bergamot(tmp_path)


def test_two_vocabularies_are_told_by_their_names(tmp_path):
    config, tensors, own, arrays = model_parts()
    arrays["encoder_Wemb"] = arrays["decoder_Wemb"] = arrays.pop("Wemb")
    own |= {"tied-embeddings-all": False, "tied-embeddings-src": False, "tied-embeddings": True}
    write_bin(tmp_path / "model.ende.bin", arrays, own)
    (tmp_path / "srcvocab.ende.spm").write_bytes(BOTH)
    (tmp_path / "trgvocab.ende.spm").write_bytes(BOTH)
    imported = import_bergamot(tmp_path)
    assert imported.model.options.source_vocabulary_size == SIZE + 1
    assert_logits(imported, config, tensors)


@pytest.mark.tensorflow
def test_a_run_translates_and_is_trained_further(tmp_path, capsys):
    write_folder(tmp_path / "bergamot")
    run = tmp_path / "run"
    assert cli.main(["import", "bergamot", str(tmp_path / "bergamot"), str(run)]) == 0
    assert capsys.readouterr().out == f"{run}\n"
    translator = Translator.load(run, extra_length=3)
    assert len(translator.translate(ENGLISH[:2])) == 2
    for side, lines in (("en", ENGLISH), ("de", GERMAN)):
        (tmp_path / f"train.{side}").write_text("\n".join(lines * 3) + "\n", "utf-8")
    command = ["train", "--from", str(run), "--run", str(tmp_path / "tuned"), "--steps", "2"]
    command += ["--source", str(tmp_path / "train.en"), "--target", str(tmp_path / "train.de")]
    command += ["--save-every", "1", "--no-tensorboard", "--bleu-every", "0", "--warmup-steps", "1"]
    assert cli.main(command) == 0
    tuned = Translator.load(tmp_path / "tuned").models[0]
    options = tuned.options
    assert (options.decoder_unit, options.zero_id, options.dropout) == ("ssru", SIZE, 0.0)


@pytest.mark.tensorflow
def test_the_shortlist_comes_with_the_run(tmp_path, capsys, monkeypatch):
    folder, run = tmp_path / "bergamot", tmp_path / "run"
    write_folder(folder)
    rows = [[7, 8] for _ in range(SIZE)]
    (folder / "lex.50.50.ende.s2t.bin.gz").write_bytes(gzip.compress(binary(rows, first=4)))
    imported = import_bergamot(folder)
    assert imported.shortlist.copies
    assert imported.shortlist.always.tolist() == [0, 1, 2, 3]
    assert cli.main(["import", "bergamot", str(folder), str(run)]) == 0
    tokenizer = imported.tokenizer
    allowed = {0, 1, 2, 3, 7, 8, *tokenizer.encode(ENGLISH[:1])[0]}
    (line,) = Translator.load(run, shortlist=True, extra_length=3).translate_ids(ENGLISH[:1])[1]
    assert set(line) <= allowed

    capsys.readouterr()
    lines = {}
    for flags in ((), ("--shortlist",)):
        stdin = io.TextIOWrapper(io.BytesIO(f"{ENGLISH[0]}\n".encode()))
        monkeypatch.setattr("sys.stdin", stdin)
        assert cli.main(["translate", str(run), "--extra-length", "3", *flags]) == 0
        lines[flags] = capsys.readouterr().out
    assert lines["--shortlist",] == tokenizer.decode([line])[0] + "\n" != lines[()]
    for flags, message in (
        (("--sample",), "`--shortlist` has no effect with `--sample`"),
        (("--engine", "ctranslate2"), "`--shortlist` is not supported by `--engine ctranslate2`"),
    ):
        assert cli.main(["translate", str(run), "--shortlist", *flags]) == 2
        assert message in capsys.readouterr().err


def test_shortlists_that_are_damaged_or_two(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "lex.ende.bin").write_bytes(binary([[SIZE + 1]]))
    with pytest.raises(UserInputError, match=r"lex.ende.bin: .* target ids from 0 to \d+"):
        import_bergamot(tmp_path)
    (tmp_path / "lex.other.bin").write_bytes(b"")
    with pytest.raises(UserInputError, match=r"one shortlist .*: lex.ende.bin, lex.other.bin"):
        import_bergamot(tmp_path)


def test_what_is_no_folder_of_bergamot(tmp_path, capfd):
    with pytest.raises(UserInputError, match=r"There is no folder .*none with a Bergamot model"):
        import_bergamot(tmp_path / "none")
    with pytest.raises(UserInputError, match="contains no Marian model"):
        import_bergamot(tmp_path)
    write_folder(tmp_path)
    for content in (b"text", b""):
        (tmp_path / "vocab.ende.spm").write_bytes(content)
        with pytest.raises(UserInputError, match=r"vocab.ende.spm is not a SentencePiece model"):
            import_bergamot(tmp_path)
    assert capfd.readouterr() == ("", "")  # the library has logged nothing


def open_and_read(path):
    with open_marian_binary(path) as tensors:
        for name in tensors.names:
            tensors.read(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:100], "not a Marian binary file, or it is damaged"),
        (lambda b: b"\x02" + b[1:], "version 2"),
        (lambda b: b[:8] + b"\xff" * 8 + b[16:], "tensors, more than"),
        (lambda b: b[:16] + b"\xff" * 8 + b[24:], "name of"),
        (lambda b: b[:32] + b"\xff" * 8 + b[40:], "axes"),
        (lambda b: b[:40] + b"\xff" * 7 + b[47:], "does not fit into the file"),
        (lambda b: b[:24] + b"\x08\x04" + b[26:], "has Marian's type 0x408"),
        (lambda b: b[:-9000], "does not fit into the file"),
    ],
)
def test_hostile_binary_files_are_one_line(tmp_path, change, message):
    _, _, own, arrays = model_parts()
    path = tmp_path / "model.bin"
    write_bin(path, arrays, own, ["Wemb"])
    open_and_read(path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserInputError, match=message) as caught:
        open_and_read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_is_none(tmp_path, scale):
    path = tmp_path / "model.bin"
    table = np.full((3, 4), 2.5, "float32")
    write_bin(path, {"Wemb": table}, {}, ["Wemb"])
    content = path.read_bytes()
    number = np.float32(127 / 2.5).tobytes()
    assert content.count(number) == 1
    path.write_bytes(content.replace(number, np.float32(scale).tobytes()))
    with pytest.raises(UserInputError, match="Wemb.* is damaged: its scale is"):
        open_and_read(path)


@pytest.mark.slow
def test_mutated_binary_files_raise_nothing_else(tmp_path, random_seed):
    path = tmp_path / "model.bin"
    write_bin(path, {"Wemb": np.eye(4, dtype="float32"), BIAS: np.ones((1, 4))}, {}, ["Wemb"])
    whole = path.read_bytes()
    header = whole.index(json.dumps({}).encode())
    assert count_refused(path, whole, open_and_read, random_seed, end=header) > 10_000
