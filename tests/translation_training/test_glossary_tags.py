"""Trainings with sources that carry the targets of their terms."""

import itertools
import random

import pytest

from keras_transformer import Translator
from keras_transformer.data import ParallelCorpus
from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.types import TERM_TAGS
from tests.small_trained_run import SETTINGS
from tests.translation_training.number_text import ENGLISH, GERMAN, SMALL, flags, train_pairs

pytestmark = pytest.mark.tensorflow

OTHER = ("uno", "zwo", "tre", "qua", "cin")  # rarer words, which end in "n" at the end


@pytest.fixture
def terms(tmp_path):
    """A glossary file with both words for each digit."""
    path = tmp_path / "terms.tsv"
    rows = zip(ENGLISH, GERMAN, OTHER, strict=True)
    path.write_text("".join(f"{word}\t{first}|{second}\n" for word, first, second in rows), "utf-8")
    return path


def german(digits, others=()):
    """The translation, with the other words of some digits."""
    words = [OTHER[digit] if digit in others else GERMAN[digit] for digit in digits]
    return " ".join([*words[:-1], words[-1] + "n" * (digits[-1] in others)])


def english(digits):
    return " ".join(ENGLISH[digit] for digit in digits)


@pytest.mark.slow
def test_a_model_inflects_the_terms_of_its_source(tmp_path, terms):
    chance = random.Random(1)
    rows = [*itertools.product(range(len(ENGLISH)), repeat=2)]
    files = [tmp_path / "train.en", tmp_path / "train.de"]
    with files[0].open("w", encoding="utf-8") as source, files[1].open("w", encoding="utf-8") as to:
        for row in 400 * rows:  # too many to learn by heart
            others = [digit for digit in range(len(ENGLISH)) if chance.random() < 0.25]
            source.write(f"{english(row)}\n")
            to.write(f"{german(row, others)}\n")
    command = ["train", "--source", files[0], "--target", files[1], "--run", tmp_path / "run"]
    more = {"glossary_tags": terms, "glossary_tags_share": 0.6, "vocabulary_size": 320}
    more |= {"drop_duplicates": False, "max_ratio": "none", "positions": "rotary"}
    assert cli.main([*map(str, command), *flags(**SETTINGS | more | {"bleu_every": 0})]) == 0

    translator = Translator.load(tmp_path / "run")
    plain = translator.translate(map(english, rows))
    right = [text == german(row) for row, text in zip(rows, plain, strict=True)]
    assert sum(right) >= 0.9 * len(right)
    followed = []
    for digit in range(len(ENGLISH)):
        having = [row for row in rows if digit in row]
        soft = {"glossary": {ENGLISH[digit]: OTHER[digit]}, "glossary_tags": True}
        found = translator.translate(map(english, having), **soft)
        followed += [text == german(row, [digit]) for row, text in zip(having, found, strict=True)]
    assert sum(followed) >= 0.9 * len(followed)


def test_the_vocabulary_and_the_training_sources_have_the_tags(tmp_path, terms):
    code, run = train_pairs(
        tmp_path,
        tmp_path / "runs" / "run",
        **{**SMALL, "choose_average": False, "steps": 2, "bleu_every": 0},
        glossary_tags=terms,
        glossary_tags_share=0.5,
    )
    assert code == 0
    tokenizer, _ = run.load_tokenizers()
    tags = {tokenizer.piece_ids[tag] for tag in TERM_TAGS}
    corpora = map(ParallelCorpus.open, (run.path.parent / "prepared").iterdir())
    found = {
        len(corpus): (tags & {*corpus.source_ids.tolist()}, tags & {*corpus.target_ids.tolist()})
        for corpus in corpora
    }
    assert found == {20: (set(), set()), 605: (tags, set())}


def test_what_tags_need_is_one_line(trained_run, tmp_path, terms, capsys):
    run = tmp_path / "run"
    start = ["--from", RunDirectory(trained_run).path]
    assert train_pairs(tmp_path, run, *start, glossary_tags=terms)[0] == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith("error: `glossary_tags` needs a source vocabulary with the tags <term> ")
    links = ["--guided-alignment", "--alignments", terms]
    assert train_pairs(tmp_path, run, *links, **SMALL, glossary_tags=terms)[0] == 2
    assert "`glossary_tags` needs computed alignments" in capsys.readouterr().err
    terms.write_text("no target\n")
    assert train_pairs(tmp_path, run, glossary_tags=terms)[0] == 2
    assert "line 1: a term is `source TAB target`" in capsys.readouterr().err
    assert not run.exists()
    with pytest.raises(UserInputError, match="`glossary_tags_share` belongs to tags of terms: it "):
        TranslationSettings(glossary_tags_share=0.2).check_given(["glossary_tags_share"])


def test_tags_are_symbols_once():
    assert TranslationSettings().all_symbols == ["<BT>"]
    settings = TranslationSettings(glossary_tags="terms.tsv", symbols="<X> <trans>")
    assert settings.all_symbols == ["<X>", "<trans>", "<term>", "</term>"]
