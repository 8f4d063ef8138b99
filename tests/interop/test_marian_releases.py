"""Folders of Marian as OPUS-MT releases them: two vocabularies, lists, what is not supported."""

import json
import os
import zipfile

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.marian import vocabulary as marian_vocabulary
from keras_transformer.formats.marian.reader import import_marian
from keras_transformer.interop import import_marian_run
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.interop import numpy_marian
from tests.interop.marian_folders import (
    BIAS,
    ENGLISH,
    GERMAN,
    HEAD,
    SMALL,
    SMALL_TENSORS,
    SOURCE,
    SPECIAL,
    TAGS,
    TARGET,
    make_config,
    make_tensors,
    sentencepiece,
    vocabulary,
    write_hugging_face,
    write_json,
    write_native,
)

SENTENCES = [*ENGLISH[:3], ">>deu<< the river", "q 漢"]


def pieces_of(name, more=()):
    """The pieces of one side by their ids, as a vocabulary of its own has them."""
    tokenizer = SentencePieceTokenizer(sentencepiece(name))
    own = set(tokenizer.pieces(range(tokenizer.vocabulary_size))) - set(SPECIAL)
    return ["</s>", "<unk>", *sorted(own), *more]


def as_yaml(pieces):
    lines = [f"{json.dumps(piece, ensure_ascii=False)}: {i}\n" for i, piece in enumerate(pieces)]
    return "".join(lines)


def as_list(pieces):
    return "".join(f"{piece}\n" for piece in pieces)


def write_separate(path, source, target, names=("opus.src.vocab.yml", "opus.trg.vocab.yml")):
    """A folder with these pieces in two vocabularies; returns its tensors with padding at the end.

    The ids of padding are `len(source)` and `len(target)`, as NumPy's model takes them.
    """
    changes = {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False, **SMALL}
    tensors = make_tensors(make_config(**changes))
    generator = np.random.default_rng(7)
    for name, pieces in ((SOURCE, source), (TARGET, target), (HEAD, target)):
        tensors[name] = generator.normal(0, 0.5, (len(pieces) + 1, 16)).astype("float32")
        tensors[name][-1] = 0
    tensors[BIAS] = generator.normal(0, 0.5, (1, len(target) + 1)).astype("float32")
    tensors[BIAS][0, -1] = 0
    write_native(path, tensors)
    (path / "vocab.yml").unlink()
    for name, pieces in zip(names, (source, target), strict=True):
        text = as_yaml(pieces) if name.endswith("yml") else as_list(pieces)
        (path / name).write_text(text, "utf-8")
    listed = "".join(f"  - /train/{name}\n" for name in names)
    (path / "decoder.yml").write_text(f"models:\n  - /train/model.npz\nvocabs:\n{listed}")
    return tensors


SOURCE_PIECES = pieces_of("source.spm", TAGS)
MORE = [f"▁more{number}" for number in range(20)]
SIZES = {
    "a larger source": (pieces_of("source.spm", [*TAGS, *MORE]), pieces_of("target.spm")),
    "a larger target": (SOURCE_PIECES, pieces_of("target.spm", MORE)),
    "equal sizes": (SOURCE_PIECES, pieces_of("target.spm", MORE)[: len(SOURCE_PIECES)]),
    "other ends": (["<unk>", "<s>", *SOURCE_PIECES[2:], "</s>"], pieces_of("target.spm")),
}


def ids_in(pieces, name, text):
    """The ids of a text in a list of pieces, segmented by the SentencePiece model of this name."""
    words = text.removeprefix(">>deu<< ")
    tag = [] if words == text else [">>deu<<"]
    plain = SentencePieceTokenizer(sentencepiece(name))
    segmented = [*tag, *plain._processor.encode(words, out_type=str)]
    return [pieces.index(piece if piece in pieces else "<unk>") for piece in segmented]


def assert_logits(imported, tensors, source, target):
    """Compare the logits of a few pairs with NumPy's, whose ids are those of the files."""
    config = make_config(**SMALL, pad_token_id=len(source), is_native=True)
    source_eos = imported.source_tokenizer.special_tokens.eos
    for text, other in zip(SENTENCES, GERMAN, strict=False):
        source_ids = [*ids_in(source, "source.spm", text), source.index("</s>")]
        target_ids = [len(target), *ids_in(target, "target.spm", other)]
        expected = numpy_marian.logits(tensors, config, [source_ids], [target_ids])
        own_ids = [*imported.source_tokenizer.encode([text])[0], source_eos]
        assert [len(target), *imported.tokenizer.encode([other])[0]] == target_ids
        inputs = {"source_ids": np.array([own_ids]), "target_ids": np.array([target_ids])}
        np.testing.assert_allclose(np.asarray(imported.model(inputs)), expected, atol=1e-4)


@pytest.mark.parametrize("sizes", SIZES)
def test_two_vocabularies(sizes, tmp_path):
    source, target = SIZES[sizes]
    tensors = write_separate(tmp_path, source, target)
    imported = import_marian(tmp_path)
    assert_logits(imported, tensors, source, target)
    assert imported.tokenizer.pieces(range(len(target))) == target
    pad = imported.tokenizer.special_tokens.pad
    assert imported.source_tokenizer.special_tokens.pad == pad == len(target)
    assert imported.source_tokenizer.target_languages == ("deu", "fra")


@pytest.mark.parametrize(
    ("names", "has_decoder"),
    [
        (("opus.src.vocab.yml", "opus.trg.vocab.yml"), False),
        (("z.src.vocab", "a.trg.vocab"), False),
        (("opus.spm32k.src.vocab", "opus.spm32k.trg.vocab"), True),
    ],
)
def test_two_vocabularies_by_name_and_as_lists(names, has_decoder, tmp_path):
    source, target = SIZES["a larger source"]
    tensors = write_separate(tmp_path, source, target, names)
    if not has_decoder:
        (tmp_path / "decoder.yml").unlink()
    assert_logits(import_marian(tmp_path), tensors, source, target)


@pytest.mark.slow
def test_a_run_of_two_vocabularies_translates(tmp_path):
    source, target = SIZES["a larger source"]
    write_separate(tmp_path / "opus", source, target)
    expected = Translator.from_preset(tmp_path / "opus", beam_size=2, extra_length=4)
    import_marian_run(tmp_path / "opus", tmp_path / "run")
    found = Translator.load(tmp_path / "run", beam_size=2, extra_length=4)
    assert found.translate_nbest(SENTENCES, 2) == expected.translate_nbest(SENTENCES, 2)
    assert not any("<unused" in text for text in found.translate(SENTENCES))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_one_list_of_pieces_is_the_vocabulary_of_both_sides(ending, tmp_path):
    write_native(tmp_path / "opus", SMALL_TENSORS)
    expected = import_marian(tmp_path / "opus")
    (tmp_path / "opus" / "vocab.yml").unlink()
    pieces = [piece for piece in vocabulary() if piece != "<pad>"]
    content = "".join(f"{piece}{ending}" for piece in pieces)
    (tmp_path / "opus" / "opus.vocab").write_bytes(content.encode())
    (tmp_path / "opus" / "decoder.yml").unlink()
    found = import_marian(tmp_path / "opus")
    assert found.tokenizer.fingerprint == expected.tokenizer.fingerprint
    assert found.source_tokenizer.fingerprint == expected.source_tokenizer.fingerprint


def test_a_vocabulary_of_many_pieces_is_read(tmp_path):
    pieces = ["</s>", "<unk>", *(f"▁word{number}" for number in range(60_000))]
    (tmp_path / "vocab.yml").write_text(as_yaml(pieces), "utf-8")
    found = marian_vocabulary.read_vocabulary(tmp_path / "vocab.yml")
    assert list(found) == pieces
    assert list(found.values()) == list(range(len(pieces)))


def test_the_size_of_a_targets_vocabulary_is_ignored_where_both_share_one(tmp_path):
    write_hugging_face(tmp_path, **SMALL)
    expected = import_marian(tmp_path)
    config = make_config(**SMALL, decoder_vocab_size=58_101)
    write_json(tmp_path / "config.json", config)
    found = import_marian(tmp_path)
    assert found.model.count_params() == expected.model.count_params()


@pytest.mark.commands
def test_a_zip_of_a_release_is_to_be_unpacked(tmp_path, capsys):
    write_native(tmp_path / "opus", SMALL_TENSORS)
    with zipfile.ZipFile(tmp_path / "opus.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (tmp_path / "opus").iterdir():
            archive.write(path, path.name)
    command = ["import", "marian", str(tmp_path / "opus.zip"), str(tmp_path / "run")]
    assert cli.main(command) == 2
    assert "opus.zip is not a preset, but contains '" in (error := capsys.readouterr().err)
    assert "': unpack it, and pass the folder" in error
    with pytest.raises(UserInputError, match="opus.zip is a file: unpack it"):
        import_marian(tmp_path / "opus.zip")


def test_a_run_that_is_there_is_refused_before_the_model_is_read(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    (tmp_path / "run.zip").touch()
    for name, message in (
        ("run", "already contains files"),
        ("run.zip", "A run is a folder, not an"),
    ):
        with pytest.raises(UserInputError, match=message):
            import_marian_run(tmp_path / "nowhere", tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["run", "run.zip"]
