"""Models of CTranslate2: exports of ours come back, a trained one gives CTranslate2's outputs."""

import json
import random
import struct
import tempfile
import zipfile

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.export import export_ctranslate2
from keras_transformer.formats.ctranslate2.importer import _folder_of, opennmt_sinusoids
from keras_transformer.formats.ctranslate2.model_file import open_ctranslate2
from keras_transformer.interop import import_ctranslate2
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.external_data import FOLDER, needs
from tests.interop.marian_folders import ENGLISH, GERMAN, count_refused
from tests.interop.random_models import random_model, translator_from

ctranslate2 = pytest.importorskip("ctranslate2")

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 16, "num_heads": 2}
FORMS = {
    "plain": {},
    "pre-norm": {"normalize_first": True, "use_bias": True},
    "learned": {"positions": "learned", "max_length": 40},
    "rotary": {"positions": "rotary"},
    "untied": {"tie_weights": False, "use_logits_bias": True, "activation": "gelu"},
    "wide heads": {"key_dim": 12, "activation": "swish"},
    "two vocabularies": {"source_vocabulary_size": 90},
    "padded": {"vocabulary_size": 104},
}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)


def translator_of(tokenizer, **options):
    model, source = random_model(tokenizer, **{"vocabulary_size": 100, **SIZES, **options})
    return Translator(model, tokenizer, source_tokenizer=source)


def read_again(path):
    return translator_from(import_ctranslate2(path))


def same_weights(one, other):
    ours, theirs = (each.options.to_config() for each in (one, other))
    for of_training in ("name", "dropout", "bias_initializer", "max_length"):
        del ours[of_training], theirs[of_training]
    assert ours == theirs
    for own, weight in zip(one.weights, other.weights, strict=True):
        if "seed" not in own.path:
            assert own.path == weight.path
            np.testing.assert_array_equal(np.asarray(own.value), np.asarray(weight.value), own.path)


@pytest.mark.parametrize("form", FORMS)
def test_an_export_comes_back_with_identical_weights(tokenizer, tmp_path, form):
    translator = translator_of(tokenizer, **FORMS[form])
    own = read_again(export_ctranslate2(translator, tmp_path / "model"))
    same_weights(own.models[0], translator.models[0])
    for side in ("tokenizer", "source_tokenizer"):
        assert getattr(own, side).fingerprint == getattr(translator, side).fingerprint
    assert (own.tokenizer is own.source_tokenizer) == (form != "two vocabularies")


@pytest.mark.parametrize(
    ("precision", "most"), [("int8", 0.02), ("int16", 1e-3), ("float16", 1e-3)]
)
def test_rounded_weights_are_near(tokenizer, tmp_path, precision, most):
    translator = translator_of(tokenizer)
    path = export_ctranslate2(translator, tmp_path / "model", precision=precision)
    own = read_again(path)
    for weight, other in zip(own.models[0].weights, translator.models[0].weights, strict=True):
        if "seed" not in weight.path:
            np.testing.assert_allclose(weight.value, other.value, atol=most, err_msg=weight.path)


def test_a_run_translates_is_trained_further_and_exported_again(tokenizer, tmp_path, capsys):
    path = export_ctranslate2(translator_of(tokenizer), tmp_path / "model")
    run = tmp_path / "run"
    assert cli.main(["import", "ctranslate2", str(path), str(run)]) == 0
    assert capsys.readouterr().out == f"{run}\n"
    again = export_ctranslate2(Translator.load(run), tmp_path / "again")
    assert (again / "model.bin").read_bytes() == (path / "model.bin").read_bytes()


# A trained model that nobody here made: Arabic names, letter by letter.


@pytest.fixture(scope="module")
def trained():
    return FOLDER / "ctranslate2_aren"


def names(folder, number, seed=0):
    letters = (folder / "v2" / "source_vocabulary.txt").read_text("utf-8").split("\n")[3:-1]
    generator = random.Random(seed)
    return [" ".join(generator.choices(letters, k=generator.randint(1, 12))) for _ in range(number)]


@needs(FOLDER / "ctranslate2_aren")
@pytest.mark.parametrize("version", ["v1", "v2", "v2-i16", "v2-i8"])
def test_scores_and_outputs_are_those_of_ctranslate2(trained, version):
    own = read_again(trained / version)
    assert own.translate(["آ ت ز م و ن"]) == ["a t z m o n"]
    # Ours computes in float32 with the weights of any file.
    engine = ctranslate2.Translator(str(trained / version), compute_type="float32")
    sources = names(trained, 100)
    for beam_size in (1, 2, 4):
        found = own.with_search(beam_size=beam_size, extra_length=99).translate(sources)
        results = engine.translate_batch(
            [source.split() for source in sources], beam_size=beam_size, max_decoding_length=111
        )
        expected = [" ".join(result.hypotheses[0]) for result in results]
        same = [a == b or len(b.split()) > 90 for a, b in zip(found, expected, strict=True)]
        assert all(same)
    pairs = [(s, t) for s, t in zip(sources, found, strict=True) if t]
    scores = engine.score_batch([s.split() for s, _ in pairs], [t.split() for _, t in pairs])
    np.testing.assert_allclose(
        own.score(*zip(*pairs, strict=True)), [sum(each.log_probs) for each in scores], atol=1e-4
    )


@needs(FOLDER / "ctranslate2_aren")
def test_it_is_exported_again_with_sources_that_have_no_end(trained, tmp_path):
    own = read_again(trained / "v2")
    path = export_ctranslate2(own, tmp_path / "again")
    assert json.loads((path / "config.json").read_text())["add_source_eos"] is False
    same_weights(read_again(path).models[0], own.models[0])
    # Ours have the marks of SentencePiece, which the first file lacks.
    result = ctranslate2.Translator(str(path), compute_type="float32").translate_batch(
        [[f"\u2581{letter}" for letter in "آتزمون"]], beam_size=1
    )
    assert result[0].hypotheses[0] == [f"\u2581{letter}" for letter in "atzmon"]


@pytest.mark.parametrize("form", [{"zero_id": 1}, {"hidden_source_id": 2}])
def test_zero_vectors_and_hidden_ends_are_exported(tokenizer, tmp_path, form):
    translator = translator_of(tokenizer, **form)
    path = export_ctranslate2(translator, tmp_path / "model")
    same_weights(read_again(path).models[0], translator.models[0])
    engine = ctranslate2.Translator(str(path), compute_type="float32")
    sources, targets = (
        [tokenizer.pieces(row) for row in tokenizer.encode(texts[:3])]
        for texts in (ENGLISH, GERMAN)
    )
    scores = [sum(each.log_probs) for each in engine.score_batch(sources, targets)]
    np.testing.assert_allclose(translator.score(ENGLISH[:3], GERMAN[:3]), scores, atol=1e-3)


def test_tables_of_positions_that_files_lack_are_opennmts():
    table = opennmt_sinusoids(3, 4)
    # Positions count from 1; frequencies 1 and 1/10000.
    np.testing.assert_allclose(table[1], [np.sin(2), np.sin(2e-4), np.cos(2), np.cos(2e-4)], 1e-6)


# Files that are odd or hostile


def string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def model_file(variables, version=6, aliases=()):
    """The bytes of a model.bin; variables are float32 arrays or pairs of a type and bytes."""
    content = struct.pack("<I", version) + string("TransformerSpec") + struct.pack("<I", 7)
    content += struct.pack("<I", len(variables))
    for name, array in variables.items():
        array = np.asarray(array)
        number = {"float32": 0, "int8": 1, "int16": 2, "int32": 3}[array.dtype.name]
        content += string(name) + struct.pack("<B", array.ndim)
        content += struct.pack(f"<{array.ndim}I", *array.shape)
        content += struct.pack("<BI", number, array.nbytes) + array.tobytes()
    content += struct.pack("<I", len(aliases))
    return content + b"".join(string(a) + string(b) for a, b in aliases)


def read_all(path):
    with open_ctranslate2(path) as file:
        return {name: file.read(name) for name in file.names}


def test_variables_scales_and_aliases_are_read(tmp_path):
    path = tmp_path / "model.bin"
    variables = {
        "a/weight": np.array([[2, -4], [127, 0]], "int8"),
        "a/weight_scale": np.array([2, 127], "float32"),
        "b": np.array(3, "int16"),
    }
    path.write_bytes(model_file(variables, aliases=[("c/weight", "a/weight")]))
    found = read_all(path)
    assert set(found) == {"a/weight", "b", "c/weight"}
    np.testing.assert_allclose(found["a/weight"], [[1, -2], [1, 0]])


@pytest.mark.parametrize(
    ("shape", "numbers", "is_right"),
    [((2, 2), 1, True), ((2, 2), 2, True), ((), 1, True), ((2, 3), 3, False), ((1, 128), 9, False),
     ((), 2, False), ((2, 2), 0, False)],
)  # fmt: skip
def test_a_scale_is_one_number_or_one_for_each_row(tmp_path, shape, numbers, is_right):
    path = tmp_path / "model.bin"
    scale = np.arange(2, 2 + numbers).astype("float32")
    path.write_bytes(model_file({"a": np.full(shape, 12, "int8"), "a_scale": scale}))
    if is_right:
        expected = 12 / (scale.reshape(-1, 1) if shape else scale[0])
        np.testing.assert_allclose(read_all(path)["a"], np.broadcast_to(expected, shape))
        return
    message = (
        f"tensor `a` of .* is damaged: its scale has {numbers} numbers, neither 1 nor one for each"
    )
    with pytest.raises(UserInputError, match=message):
        read_all(path)


def test_a_scale_that_makes_infinite_numbers(tmp_path, recwarn):
    path = tmp_path / "model.bin"
    scale = np.array([1e-38], "float32")
    path.write_bytes(model_file({"a": np.full((1, 2), 127, "int8"), "a_scale": scale}))
    with (
        open_ctranslate2(path) as file,
        pytest.raises(UserInputError, match="values that are not fin"),
    ):
        file.weights("a", (1, 2))
    assert not recwarn.list


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends early"),
        (b"\x07\0\0\0", "it has version 7; versions from 1 to 6"),
        (model_file({"a": np.ones((2, 3), "float32")})[:-10], "does not fit|ends early"),
        (model_file({})[:-4] + b"\xff" * 4, "variables, more than"),
        (model_file({}, aliases=[("a", "b")]), "the alias 'a' does not refer to a variable"),
        (struct.pack("<I", 6) + string("T") + struct.pack("<2I", 7, 2**31), "variables, more than"),
        (
            struct.pack("<I", 6) + string("T") + struct.pack("<2I", 7, 1) + string("a") + b"\xff",
            "a variable has 255 axes",
        ),
        (
            struct.pack("<I", 6) + string("T") + struct.pack("<2I", 7, 1) + string("a")
            + struct.pack("<BIIBI", 2, 2**31, 2**31, 0, 16),
            "has 4 numbers",
        ),
    ],
)  # fmt: skip
def test_damaged_files_are_one_line(tmp_path, content, message):
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(UserInputError, match=message) as caught:
        read_all(tmp_path / "model.bin")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_mutated_files_raise_nothing_else(tmp_path, random_seed):
    weight = np.array([[2, -4], [127, 0]], "int8")
    variables = {"a/weight": weight, "a/weight_scale": np.array([2, 127], "float32")}
    whole = model_file(variables, aliases=[("c/weight", "a/weight")])
    assert count_refused(tmp_path / "model.bin", whole, read_all, random_seed) > 5_000


def changed(path, **variables):
    """An export whose file has further variables, as if another program had written it."""
    (path / "SHA256SUMS").unlink()
    file = path / "model.bin"
    found = read_all(file) | {name.replace("__", "/"): v for name, v in variables.items()}
    file.write_bytes(model_file({n: v for n, v in found.items() if v is not None}))
    return path


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"encoder__layer_0__ffn__linear_0_noact__weight": np.ones((2, 2), "float32")},
            "it has the variable 'encoder/layer_0/ffn/linear_0_noact/weight', which this package",
        ),
        ({"decoder__alibi": np.array(1, "int8")}, "its option 'decoder/alibi' is not supported"),
        ({"decoder__activation": np.array(1, "int8")}, "`activation` must be the same for"),
        (
            {"decoder__layer_norm__gamma": np.ones(3, "float32")},
            "has the shape|must have the shape",
        ),
        (
            {"decoder__position_encodings__encodings": np.ones((40_000, 16), "float32")},
            "it has more than 32,768 positions",
        ),
        ({"encoder__num_heads": np.array(7, "int16")}, "`num_heads` must be the same for"),
        ({"encoder__num_heads": np.array([2, 2], "int16")}, "must be one number"),
        (
            {
                "encoder__num_heads": np.array(2, "int8"),
                "encoder__num_heads_scale": np.ones(3, "float32"),
            },
            "num_heads` of .* is damaged: its scale has 3 numbers",
        ),
        (
            {"encoder__layer_0__ffn__linear_0__weight": None},
            "lacks the tensor encoder/layer_0",
        ),
        ({"encoder__embeddings_0__weight": None}, "lacks the tensor encoder/embeddings"),
        ({"decoder__embeddings__weight": np.ones(9, "float32")}, "must be a matrix"),
        ({"decoder__layer_1__ffn__linear_0__bias": np.full(256, np.nan, "float32")}, "not finite"),
    ],
)
def test_what_this_package_lacks_is_refused_by_name(tokenizer, tmp_path, variables, message):
    path = export_ctranslate2(translator_of(tokenizer, normalize_first=True), tmp_path / "model")
    with pytest.raises(UserInputError, match=message):
        import_ctranslate2(changed(path, **variables))


@pytest.mark.parametrize("token", ["", "\0", " ", "a\x00b"], ids=repr)
def test_tokens_that_are_no_words_need_a_sentencepiece_model(tokenizer, tmp_path, token):
    path = export_ctranslate2(translator_of(tokenizer), tmp_path / "model")
    for name in ("SHA256SUMS", *(each.name for each in path.glob("*.model"))):
        (path / name).unlink()
    vocabulary = path / "shared_vocabulary.json"
    tokens = json.loads(vocabulary.read_text("utf-8"))
    vocabulary.write_text(json.dumps([*tokens[:9], token, *tokens[10:]]), "utf-8")
    with pytest.raises(UserInputError, match=f"{path} .*no SentencePiece model next to it"):
        import_ctranslate2(path)


def test_vocabularies_must_fit(tokenizer, tmp_path):
    path = export_ctranslate2(translator_of(tokenizer), tmp_path / "model")
    (path / "SHA256SUMS").unlink()
    vocabulary = path / "shared_vocabulary.json"
    tokens = json.loads(vocabulary.read_text("utf-8"))
    for content, message in (
        (tokens[:-1], "must have the 100 tokens of the model. Received: 99"),
        ([*tokens[:-1], tokens[5]], "must not contain a token twice"),
    ):
        vocabulary.write_text(json.dumps(content), "utf-8")
        with pytest.raises(UserInputError, match=message):
            import_ctranslate2(path)
    vocabulary.unlink()
    with pytest.raises(UserInputError, match=r"lacks source_vocabulary.json or shared_vocabulary"):
        import_ctranslate2(path)
    with pytest.raises(UserInputError, match="There is no folder or package"):
        import_ctranslate2(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserInputError, match="it lacks model.bin"):
        import_ctranslate2(tmp_path / "empty")


@pytest.mark.parametrize(
    ("kept", "added"),
    [(0, b""), (0, b"text"), (-1, b""), (None, b"\x0b"), (None, b"\x0a\xff\x01")],
)
def test_a_damaged_tokenizer_is_one_line(tokenizer, tmp_path, kept, added):
    """Whether it is no model at all, or ends as none does."""
    path = export_ctranslate2(translator_of(tokenizer), tmp_path / "model")
    (path / "SHA256SUMS").unlink()
    for found in path.rglob("*.model"):
        found.write_bytes(found.read_bytes()[:kept] + added)
    with pytest.raises(
        UserInputError, match=f"^The SentencePiece model of {path}: .*SentencePiece"
    ):
        import_ctranslate2(path)


def write_argos(package, tokenizer=None):
    """A zip with a model in a folder of its own, and SentencePiece beside it; its translator."""
    if tokenizer is None:
        tokenizer = SentencePieceTokenizer.train(ENGLISH + GERMAN, vocabulary_size=100)
    translator = translator_of(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        path = export_ctranslate2(translator, folder)
        tokenizer.save(path / "spm.model")
        with zipfile.ZipFile(package, "w") as archive:
            archive.writestr("en_de/metadata.json", "{}")
            archive.write(path / "spm.model", "en_de/sentencepiece.model")
            for name in ("model.bin", "shared_vocabulary.json", "config.json"):
                archive.write(path / name, f"en_de/model/{name}")
    return translator


def test_a_package_of_argos_is_read(tokenizer, tmp_path):
    package = tmp_path / "translate-en_de.argosmodel"
    translator = write_argos(package, tokenizer)
    own = read_again(package)
    same_weights(own.models[0], translator.models[0])
    assert own.source_tokenizer.encode(ENGLISH) == tokenizer.encode(ENGLISH)
    package.write_bytes(package.read_bytes()[:-300])
    with pytest.raises(UserInputError, match="cannot be unpacked"):
        import_ctranslate2(package)
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("en_de/model/model.bin", b"a model")
        for name in ("stanza/tokens.pt", "model/other.bin", "a/model.bin", "README.md"):
            archive.writestr(f"en_de/{name}", bytes(30 << 20))
    with _folder_of(package) as folder:  # only files that are read
        assert [(each.name, each.stat().st_size) for each in folder.iterdir()] == [("model.bin", 7)]
    with zipfile.ZipFile(package, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("en_de/model/config.json", bytes(3 << 20))
    size = package.stat().st_size
    with pytest.raises(UserInputError, match=f"it unpacks to more than {20 * size:,} bytes"):
        import_ctranslate2(package)
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):  # a block of theirs grows without a bound
        with zipfile.ZipFile(package, "w", method) as archive:
            archive.writestr("en_de/model/model.bin", bytes(1 << 20))
        with pytest.raises(UserInputError, match=r"'en_de/model/model.bin' is not compressed by d"):
            import_ctranslate2(package)
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("en_de/model/../../../evil", "x")
        archive.writestr("en_de/model/other.argosmodel", "a zip in a zip")
    with pytest.raises(UserInputError, match="lacks model/model.bin"):
        import_ctranslate2(package)
