"""Sentences to trees by models with random weights, whose trees are wild."""

import functools
import io
import re
import types

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.inference import parser as parsers
from keras_transformer.inference.parser import Parse, Parser
from keras_transformer.parsing import Tree, linearize, rebuild
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit import cli
from tests.random_translation import build, build_parser, sentences

# Unicode's other spaces may be part of a label, too.
TOKENS = ["(NP\u00a0X", "(S", "(VP", ")NP\u00a0X", ")S", ")VP", "XX"]
SENTENCES = [*sentences(6, seed=1), "", "  ", "a ( b", "größe 🎉 \u2028", "one"]


@pytest.fixture(scope="module")
def tokenizers():
    source = SentencePieceTokenizer.train(sentences(50), vocabulary_size=320, byte_fallback=True)
    return TreeTokenizer.of(TOKENS), source


@pytest.fixture(scope="module")
def model(tokenizers):
    target, source = tokenizers
    return build_parser(target, source)


@pytest.fixture(scope="module")
def parser(model, tokenizers):
    return Parser(model, *tokenizers, beam_size=4, extra_length=40, batch_size=4)


@pytest.fixture(scope="module")
def run(model, tokenizers, tmp_path_factory):
    target, source = tokenizers
    run = RunDirectory.create(tmp_path_factory.mktemp("parser") / "run")
    run.start(model=model, tokenizer=target, source_tokenizer=source, settings={})
    model.save_weights(run.weights_path)
    return run


def test_each_sentence_has_a_tree_over_its_words(parser):
    parses = parser.parse_with_scores(SENTENCES)
    assert len(parses) == len(SENTENCES)
    for sentence, (tree, score, repairs) in zip(SENTENCES, parses, strict=True):
        words = [word for word in sentence.split(" ") if word]
        assert repairs == 0
        if not words:
            assert (tree, score) == (None, 0.0)
            continue
        assert tree.words() == words
        assert set(tree.tags()) == {"XX"}
        assert rebuild(linearize(tree), words) == tree
        assert np.isfinite(score)


def test_batch_mates_and_order_do_not_matter(parser):
    found = parser.parse(SENTENCES)
    assert parser.parse(SENTENCES[::-1]) == found[::-1]
    assert [parser.parse([sentence])[0] for sentence in SENTENCES] == found


@pytest.mark.tensorflow
@pytest.mark.slow
def test_with_xla_it_finds_the_same_trees(parser, model, tokenizers, monkeypatch):
    expected = parser.parse_with_scores(SENTENCES[:3])
    for name in ("GraphCalls", "pad_ids"):
        by_xla = functools.partial(getattr(parsers, name), jit_compile=True)
        monkeypatch.setattr(parsers, name, by_xla)
    compiled = Parser(model, *tokenizers, beam_size=4, extra_length=40)
    found = compiled.parse_with_scores(SENTENCES[:3])  # and a row of padding
    assert [each.tree for each in found] == [each.tree for each in expected]
    scores = [each.score for each in expected]
    np.testing.assert_allclose([each.score for each in found], scores, atol=1e-4)


def test_words_may_be_given_one_by_one(parser):
    assert parser.parse([["the", "(", "house"], []]) == parser.parse(["the ( house", ""])


def test_other_spaces_than_a_treebanks_are_part_of_a_word(parser):
    words = ["1\u00a0000", "\u2028", "a\x85b"]
    assert Tree.fromstring("(S (XX 1\u00a0000) (XX \u2028) (XX a\x85b))").words() == words
    by_words, by_line = parser.parse([words, " \t".join(words)])
    assert by_words.words() == by_line.words() == words


NO_WORDS = "`sentences` must be strings, or lists of words"
NO_LIST = "`sentences` must be a list of sentences. Received: "


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        *(([sentence], NO_WORDS) for sentence in (["two words"], ["a", ""], ["a", 1], 7, b"a")),
        ("the dog", NO_LIST),
        (b"the dog", NO_LIST),
    ],
)
def test_what_is_no_list_of_words_is_refused(parser, sentences, message):
    with pytest.raises(ValueError, match=message):
        parser.parse(sentences)


def test_half_a_surrogate_pair_is_read_as_the_replacement_character(parser):
    (half, pair), (replaced, character) = (
        parser.parse_with_scores(texts)
        for texts in (["\ud800 x", ["\ud83c\udf89"]], ["\ufffd x", "🎉"])
    )
    assert half.tree.words() == ["\ud800", "x"]
    assert linearize(half.tree) == linearize(replaced.tree)
    assert linearize(pair.tree) == linearize(character.tree)


def test_without_the_constraint_what_is_no_tree_is_repaired(model, tokenizers):
    parser = Parser(model, *tokenizers, beam_size=2, extra_length=20, constrained=False)
    parses = parser.parse_with_scores(SENTENCES[:4])
    assert [parse.tree.words() for parse in parses] == [text.split() for text in SENTENCES[:4]]
    assert any(parse.repairs for parse in parses)


def test_a_loaded_parser_finds_the_same(run, parser):
    loaded = Parser.load(run.path, beam_size=4, extra_length=40)
    assert loaded.parse(SENTENCES) == parser.parse(SENTENCES)


@pytest.fixture
def command(run, monkeypatch, capsysbinary):
    """What `keras-transformer parse` prints for some lines: `.out` and `.err`, two `bytes`."""

    def parse(lines, *flags, code=0):
        stream = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(lines.encode())))
        monkeypatch.setattr("sys.stdin", stream)
        assert cli.main(["parse", str(run.path), "--beam-size", "2", *flags]) == code
        return capsysbinary.readouterr()

    return parse


@pytest.mark.slow
def test_the_command_prints_a_tree_a_line(command):
    def parse(*flags):
        return command("the house\n\na tree is old", *flags)

    first, empty, last = parse().out.decode().splitlines()
    assert empty == ""
    trees = [Tree.fromstring(first), Tree.fromstring(last)]
    assert [tree.words() for tree in trees] == [["the", "house"], ["a", "tree", "is", "old"]]
    pretty = parse("--pretty")
    assert [Tree.fromstring(text) for text in pretty.out.decode().split("\n\n")] == trees
    assert pretty.err == b""
    free = parse("--repair")
    assert [Tree.fromstring(line).words() for line in free.out.decode().splitlines() if line] == [
        tree.words() for tree in trees
    ]
    assert re.fullmatch(rb"\d trees were repaired.\n", free.err)


@pytest.fixture
def spoil(model, tokenizers):
    """A function that changes the model's vectors of a word; undone afterwards."""
    weights = model.get_weights()
    vocabulary_size = tokenizers[1].vocabulary_size
    (number,) = [i for i, weight in enumerate(weights) if weight.shape[0] == vocabulary_size]

    def change(word, value):
        spoilt = weights[number].copy()
        spoilt[tokenizers[1].encode([word])[0]] = value
        model.set_weights([*weights[:number], spoilt, *weights[number + 1 :]])

    yield change
    model.set_weights(weights)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("constrained", [True, False])
def test_no_finite_score_gives_a_flat_tree_and_damaged_weights_none(
    model, tokenizers, spoil, beam_size, constrained
):
    options = {"beam_size": beam_size, "extra_length": 10, "constrained": constrained}
    parser = Parser(model, *tokenizers, **options)
    spoil("lamp", 3e38)  # too large to add up
    good, flat = parser.parse_with_scores(["the house", "the lamp"])
    assert np.isfinite(good.score)
    assert (str(flat.tree), flat.score, flat.repairs) == ("(S (XX the) (XX lamp))", -np.inf, 0)
    spoil("lamp", np.nan)
    with pytest.raises(UserInputError, match="scores are not finite numbers: its weights are dam"):
        parser.parse(["the house", "", "the lamp"])


def test_the_command_tells_of_sentences_without_a_tree(command, run, model, spoil):
    path = run.path / "other.weights.h5"
    lines = "the house\nthe lamp\nlamp"
    spoil("lamp", 3e38)
    model.save_weights(path)
    some = command(lines, "--checkpoint", str(path))
    assert some.out.decode().splitlines()[1:] == ["(S (XX the) (XX lamp))", "(S (XX lamp))"]
    assert some.err == b"2 sentences have no tree and are printed as flat trees.\n"
    spoil("lamp", np.nan)
    model.save_weights(path)
    none = command(lines, "--checkpoint", str(path), code=2)
    assert none.out == b""
    assert none.err.startswith(f"error: The weights {path} are not finite numbers".encode())
    assert none.err.count(b"\n") == 1


def test_the_command_refuses_a_long_line_after_those_before_it(command):
    lines = "the house\n" + "the house " * 90
    refused = command(lines, "--max-source-length", "40", code=2)
    assert refused.out.startswith(b"(")
    assert refused.out.count(b"\n") == 1
    assert refused.err.startswith(b"error: Line 2 of standard input has more than 40 tokens, end")


def test_the_command_refuses_a_limit_that_fits_no_tree(command):
    refused = command("the house", "--extra-length", "1", code=2)
    assert refused.err.startswith(b"error: `extra_length` must be an integer >= 2. Received: ")
    assert command("the house", "--extra-length", "2").out.startswith(b"(")


def test_the_command_tells_of_repairs_in_either_search(command, monkeypatch):
    found = Parse(Tree.fromstring("(S (XX one))"), -1.0, repairs=2)
    fake = types.SimpleNamespace(parse_with_scores=lambda lines: [found] * len(lines))
    monkeypatch.setattr(Parser, "load", lambda *_, **__: fake)
    for flags in ((), ("--repair",)):
        printed = command("one\none\n", *flags)
        assert printed.out == b"(S (XX one))\n" * 2
        assert printed.err == b"2 trees were repaired.\n"


@pytest.mark.parametrize("constrained", [True, False])
def test_a_sentence_longer_than_the_learned_positions_is_refused(tokenizers, constrained):
    target, source = tokenizers
    sizes = {"source_vocabulary_size": source.vocabulary_size, "max_length": 12}
    model = build(target, positions="learned", **sizes)
    parser = Parser(model, *tokenizers, beam_size=2, constrained=constrained)
    (found,) = parser.parse_with_scores(["tree " * 9])
    assert len(found.tree.words()) == 9
    if constrained:
        assert found.repairs == 0
        message = r"`sentences\[1\]` has 10 words, but may have at most 9"
        with pytest.raises(UserInputError, match=message):
            parser.parse(["tree", "tree " * 10])
    else:
        assert parser.parse(["tree " * 11])[0].words() == ["tree"] * 11
    with pytest.raises(UserInputError, match=r"`sentences\[1\]` has more than 12 tokens"):
        parser.parse(["tree", "tree " * 12])


def test_a_translator_is_no_parser(tmp_path, capsys):
    lines = [f"{line} (XX)" for line in sentences(50)]
    tokenizer = SentencePieceTokenizer.train(lines, vocabulary_size=70)
    assert "(" in tokenizer.pieces(range(70))
    model = build(tokenizer)
    run = RunDirectory.create(tmp_path / "run")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    with pytest.raises(UserInputError, match="The outputs of the run .* are text, not trees"):
        Parser.load(run.path)
    assert cli.main(["parse", str(run.path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    record = {key: value for key, value in run.record().as_json().items() if key != "output"}
    run.checksums.write_json(run.record_path, record)  # as older versions wrote it
    with pytest.raises(UserInputError, match="The outputs of the run .* are text, not trees"):
        Parser.load(run.path)


@pytest.mark.parametrize(
    "command",
    [
        ["translate", "RUN"],
        ["score", "RUN", "--source", "a.txt", "--target", "a.txt"],
        ["evaluate", "RUN", "--source", "a.txt", "--reference", "a.txt"],
        ["tune", "RUN", "--source", "a.txt", "--reference", "a.txt"],
        ["align", "RUN", "--source", "a.txt", "--target", "a.txt"],
        ["export", "saved-model", "RUN", "exported"],
        ["train", "--source", "a.txt", "--target", "a.txt", "--from", "RUN", "--run", "new"],
    ],
    ids=lambda command: command[0],
)
def test_a_parser_is_no_translator(run, command, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("tree\n" * 3)
    arguments = [str(run.path) if word == "RUN" else word for word in command]
    assert cli.main(arguments) == 2
    message = f"The outputs of the run {run.path} are trees, not text."
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "exported").exists()
