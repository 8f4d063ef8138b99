"""Models of several target languages: the tag in the text, or as an argument."""

import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.interop import import_marian_run
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import TargetTags
from keras_transformer.toolkit import cli
from tests.interop.marian_folders import ENGLISH, write_hugging_face


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("marian")
    write_hugging_face(path)
    return path


def test_the_argument_is_the_tag_in_the_text(folder):
    options = {"extra_length": 4, "beam_size": 2}
    french = Translator.from_preset(folder, target_language="fra", **options)
    plain = french.into(None)
    tagged = [f">>fra<< {line}" for line in ENGLISH[:4]]
    assert french.translate_nbest(ENGLISH[:4], 2) == plain.translate_nbest(tagged, 2)
    assert french.score(ENGLISH[:2], ["das Haus"] * 2) == plain.score(tagged[:2], ["das Haus"] * 2)
    assert french.translate(["", " "]) == ["", ""]
    # A tag of the text's own stays.
    assert french.translate([">>deu<< the tree"]) == plain.translate([">>deu<< the tree"])


def test_every_part_of_a_long_sentence_has_the_tag(folder):
    options = {"max_source_length": 12, "extra_length": 4, "beam_size": 1}
    options |= {"long_sentences": "split"}
    text = ". ".join(["The old house is small", "The river is green", "A stone lies there"]) + "."
    plain = Translator.from_preset(folder, **options)
    french = plain.into("fra")
    with pytest.warns(match="split"):
        by_tag = plain.translate([f">>fra<< {text}"])
    with pytest.warns(match="split"):
        by_argument = french.translate([text])
    assert by_tag == by_argument
    with pytest.warns(match="split"):
        assert plain.translate([text]) != by_argument


def test_another_language_shares_the_compiled_search(folder):
    plain = Translator.from_preset(folder, extra_length=4, beam_size=2)
    french = plain.into("fra")
    assert french._generator is plain._generator
    assert (french.target_language, plain.target_language) == ("fra", None)
    assert french.translate(ENGLISH[:2]) == plain.translate([f">>fra<< {x}" for x in ENGLISH[:2]])
    assert french.into("fra") is french
    with pytest.raises(UserInputError, match="Received: target_language=ita"):
        plain.into("ita")


def test_the_argument_is_no_word_of_an_alignment(folder):
    french = Translator.from_preset(folder, target_language="fra")
    plain = french.into(None)
    sources, targets = ["the old tree", ">>fra<< the tree", ""], ["das Haus", "der Baum", "ja"]
    by_tag = plain.align([f">>fra<< {sources[0]}", *sources[1:]], targets)
    by_argument = french.align(sources, targets)
    assert by_argument[0].source_pieces == by_tag[0].source_pieces[1:]
    assert (by_argument[0].weights == by_tag[0].weights[:, 1:]).all()
    assert by_argument[1].pharaoh() == by_tag[1].pharaoh()  # a tag of the text's own is one
    assert by_argument[2].pharaoh() == ""
    assert {source for source, _ in by_argument[0].word_pairs()} <= {0, 1, 2}


def test_parts_must_have_room_for_a_token(folder):
    options = {"max_source_length": 2, "long_sentences": "split"}
    with pytest.raises(UserInputError, match="must leave room for a tag, a token and the end"):
        Translator.from_preset(folder, **options).translate(["the tree"])


def test_a_sentence_that_is_cut_keeps_room_for_the_tag(folder):
    french = Translator.from_preset(
        folder, target_language="fra", max_source_length=6, long_sentences="cut"
    )
    with pytest.warns(match="cut"):
        rows = french._encode_sources("sentences", [" ".join(ENGLISH)], "cut")
    assert [len(row) for row in rows] == [5]  # and the end of the sentence
    assert rows[0][0] == french.source_tokenizer.vocabulary.ids[">>fra<<"]


def test_an_unknown_language_is_refused(folder):
    with pytest.raises(UserInputError, match="It has deu, fra. Received: target_language=ita"):
        Translator.from_preset(folder, target_language="ita")
    tokenizer = SentencePieceTokenizer.train(ENGLISH, vocabulary_size=40)
    with pytest.raises(UserInputError, match="It has no language tags"):
        TargetTags(tokenizer, "deu")
    assert TargetTags(tokenizer, None).before([[5, 6]]) == [[5, 6]]


@pytest.mark.commands
def test_the_flag(folder, tmp_path, capsys):
    import_marian_run(folder, tmp_path / "run")
    (tmp_path / "in.txt").write_text("the tree\na house\n")
    (tmp_path / "tagged.txt").write_text(">>deu<< the tree\n>>deu<< a house\n")
    command = ["translate", str(tmp_path / "run"), "--beam-size", "1"]
    for name, flags in (("in", ["--target-language", "deu"]), ("tagged", [])):
        files = ["--input", str(tmp_path / f"{name}.txt"), "--output", str(tmp_path / name)]
        assert cli.main([*command, *files, *flags]) == 0
    assert (tmp_path / "in").read_text() == (tmp_path / "tagged").read_text()
    (tmp_path / "reference").write_text("Baum\nHaus\n")
    evaluate = [
        "evaluate",
        str(tmp_path / "run"),
        "--beam-size=1",
        f"--reference={tmp_path}/reference",
    ]
    texts = [f"--source={tmp_path}/in.txt", f"--output={tmp_path}/evaluated"]
    assert cli.main([*evaluate, *texts, "--target-language", "deu"]) == 0
    assert (tmp_path / "evaluated").read_text() == (tmp_path / "in").read_text()
    capsys.readouterr()
    files = ["--input", str(tmp_path / "in.txt"), "--output", str(tmp_path / "new")]
    assert cli.main([*command, *files, "--target-language", "xyz"]) == 2
    assert "`target_language` must be a code" in capsys.readouterr().err
