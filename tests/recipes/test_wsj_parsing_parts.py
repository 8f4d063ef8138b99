"""What the parsing recipe's training is made of: settings, treebank, report; nothing is trained."""

import math
import pathlib
import types

import numpy as np
import pytest

import recipes.wsj_parsing
from keras_transformer import models
from keras_transformer.inference.parser import Parse, Parser
from keras_transformer.parsing import Tree, read_trees, source_text
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.settings import read_settings_file
from keras_transformer.text import SentencePieceTokenizer
from recipes.wsj_parsing.report import parse_dev, score_parses
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.treebank import TreePairs, make_tokenizers
from tests.recipes.toy_treebank import NOUNS, toy_trees, with_tags, write_treebank

pytestmark = pytest.mark.tensorflow

PAPER = pathlib.Path(recipes.wsj_parsing.__file__).with_name("paper.toml")
SIZES = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 32}
WORDS = SentencePieceTokenizer.train(NOUNS, vocabulary_size=290, byte_fallback=True)
TREES = TreeTokenizer.of(["(S", ")S", "XX"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_treebank(tmp_path_factory.mktemp("wsj") / "data")


@pytest.fixture
def untrained(data, tmp_path):
    """A run with random weights."""
    search = {"beam_size": 3, "extra_length": 10}
    settings = ParsingSettings(**SIZES, vocabulary_size=300, **search)
    words, trees = make_tokenizers([TreePairs(data / "dev.mrg")], settings)
    model = models.build_transformer(**settings.model_options(words, trees))
    run = RunDirectory.create(tmp_path / "untrained")
    run.start(model=model, tokenizer=trees, source_tokenizer=words, settings=settings.to_dict())
    model.save_weights(run.weights_path)
    return run, settings


def test_a_free_search_is_repaired_and_one_among_trees_is_not(untrained, data):
    gold = list(read_trees(data / "dev.mrg"))[:8]
    run, settings = untrained
    free = parse_dev(run, gold, settings, constrained=False)
    constrained = parse_dev(run, gold, settings, constrained=True)
    assert (constrained.repaired, constrained.repairs, constrained.well_formed) == (0, 0, 1)
    assert free.repairs >= free.repaired > 0
    assert free.well_formed == 1 - free.repaired / 8
    assert free.evalb.all.valid == constrained.evalb.all.valid == 8


def test_the_settings_of_the_search_reach_the_parser(tmp_path, monkeypatch):
    gold = [Tree.fromstring("(S (XX ah))")]
    received = []

    def load(path, **options):
        received.append((path, options))
        found = Parse(gold[0], -1.0, 0)
        return types.SimpleNamespace(parse_with_scores=lambda sentences, _: [found])

    monkeypatch.setattr(Parser, "load", load)
    settings = ParsingSettings(beam_size=7, alpha=0.9, extra_length=55)
    for constrained in (True, False):
        parse_dev(RunDirectory(tmp_path), gold, settings, constrained=constrained)
    search = {"beam_size": 7, "alpha": 0.9, "extra_length": 55, "max_repeats": 0}
    assert received == [
        (tmp_path, search | {"constrained": constrained}) for constrained in (True, False)
    ]


def test_each_word_is_one_to_the_model(data):
    words, _ = make_tokenizers([TreePairs(data / "dev.mrg")], ParsingSettings(vocabulary_size=300))
    sentence = ["the", "1\u00a0000", "\u200b", "cat\u2028", "\u2581", "("]
    (ids,) = words.encode([source_text(sentence)])
    assert sum(number in words.word_starts for number in ids) == len(sentence)


def test_training_pairs_know_no_tags(tmp_path):
    tree = Tree.fromstring("(S (NP (DT the) (NN [)) (VP (VBZ barks)))")
    texts = []
    for name, tags in (("a", ["DT", "NN", "VBZ"]), ("b", ["X", "Y", "Z"])):
        path = tmp_path / f"{name}.mrg"
        path.write_text(str(with_tags(tree, tags)))
        texts.append(TreePairs(path))
    assert list(texts[0]) == [("the -LSB- barks", "(S (NP XX XX )NP (VP XX )VP )S")]
    assert texts[0].fingerprint() == texts[1].fingerprint()


def test_a_sentence_without_a_tree_counts_as_a_flat_one():
    gold = [Tree.fromstring(text) for text in toy_trees(3, NOUNS, seed=3)]
    tagless = [with_tags(tree, ["XX"] * len(tree.words())) for tree in gold]
    parses = [
        Parse(tagless[0], score=-1.0, repairs=0),
        Parse(Tree("S", tagless[1].leaves()), score=-math.inf, repairs=0),  # as the parser says
        Parse(tagless[2], score=-2.0, repairs=3),
    ]
    scores = score_parses(parses, gold)
    flat = Tree("S", gold[1].leaves())
    assert scores.trees == [gold[0], flat, gold[2]]
    assert (scores.flat_trees, scores.repaired, scores.repairs) == (1, 1, 3)
    assert scores.well_formed == pytest.approx(1 / 3)
    assert scores.evalb.all.valid == 3
    lost = scores.evalb.scores[1]
    assert (lost.matched, lost.test_brackets) == (1, 1)  # the sentence itself
    whole = [score.gold_brackets for score in scores.evalb.scores]
    assert scores.evalb.all.recall == pytest.approx(100 * (sum(whole) - whole[1] + 1) / sum(whole))


@pytest.mark.parametrize("name", [None, "dropout", "attention_dropout", "activation_dropout"])
def test_each_rate_of_dropout_is_the_models(name):
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    rates |= {name: 0.5} if name else {}
    settings = ParsingSettings(**SIZES, **rates)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    inputs = {"source_ids": np.array([[7, 8, 9, 2]]), "target_ids": np.array([[1, 4, 6, 6]])}
    first, second = (np.asarray(model(inputs, training=True)) for _ in range(2))
    assert np.allclose(first, second) == (name is None)


def test_learned_positions_hold_whatever_a_batch_holds():
    settings = ParsingSettings(positions="learned", batch_tokens=1100, **SIZES)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    for side in ("source", "target"):
        ids = {"source_ids": np.ones((1, 3)), "target_ids": np.ones((1, 3))}
        assert model(ids | {f"{side}_ids": np.ones((1, 1100))}).shape[0] == 1
        with pytest.raises(ValueError, match="longer than the learned positions"):
            model(ids | {f"{side}_ids": np.ones((1, 1101))})


def test_the_papers_model_has_its_sizes():
    settings = ParsingSettings.from_dict(read_settings_file(PAPER))
    assert (settings.num_layers, settings.hidden_dim) == (4, 1024)
    assert (settings.beam_size, settings.alpha, settings.extra_length) == (21, 0.3, 300)
    model = models.build_transformer(**settings.model_options(WORDS, TREES))
    d, inner = 1024, 2048
    attention, norm = 4 * d * d, 2 * d
    feed_forward = 2 * d * inner + inner + d
    encoder = 4 * (attention + feed_forward + 2 * norm)
    decoder = 4 * (2 * attention + feed_forward + 3 * norm)
    embeddings = (WORDS.vocabulary_size + TREES.vocabulary_size) * d
    assert model.count_params() == encoder + decoder + embeddings
