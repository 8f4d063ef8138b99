"""Runs at work: which run a run gets, and the searches that requests may ask for."""

import dataclasses
import shutil

import pytest

from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text.glossary import Glossary
from keras_transformer.toolkit.app import AppLimits
from keras_transformer.toolkit.app.computed_items import refusal
from keras_transformer.toolkit.app.loaded_runs import (
    Job,
    LoadedTranslator,
    QueueClosed,
    Work,
    _load,
    loaded_runs,
    run_names,
)
from tests.app.fake_run import FakeRun
from tests.random_translation import write_run


@pytest.fixture
def parser_run(parser, tmp_path):
    """A run of the parser."""
    tokenizers = parser.tokenizer, parser.source_tokenizer
    return write_run(tmp_path / "trees", parser.model, *tokenizers).path


@pytest.mark.slow
def test_each_run_does_what_it_was_trained_for(trained_run, parser_run):
    with loaded_runs([trained_run, parser_run, trained_run], AppLimits(tokens=50)) as runs:
        found = [(run.name, run.kind) for run in runs]
        assert found == [("run", "translation"), ("trees", "parsing"), ("run (2)", "translation")]
        for run in runs:
            assert run.search_options.max_source_length == 50
        (parse,) = runs[1].compute(Work("parse", runs[1].search_options), ["a b"])
        assert parse.tree.words() == ["a", "b"]
    with pytest.raises(QueueClosed):
        runs[0].queue.submit(Job("work", ["one"], print))


def test_the_search_that_a_run_was_tuned_to_is_the_apps(trained_run, tmp_path):
    directory = RunDirectory.open(shutil.copytree(trained_run, tmp_path / "run"))
    directory.write_search_defaults({"beam_size": 3, "alpha": 1.25})
    run = _load(directory, "digits", AppLimits(tokens=50))
    try:
        assert (run.search({}).beam_size, run.search({}).alpha) == (3, 1.25)
        assert run.search({"beam_size": 2}).alpha == 1.25
        assert run._translator.batch_size == 8
    finally:
        run.queue.close()


def test_names_are_those_of_the_command_line(tmp_path):
    (tmp_path / "2026-11-22").mkdir()
    (tmp_path / "latest").symlink_to(tmp_path / "2026-11-22")
    paths = [tmp_path / "latest", tmp_path / "a" / ".." / "latest", tmp_path / "\udcff"]
    assert run_names(paths) == ["latest", "latest (2)", "?"]


def test_the_limit_of_a_search_is_the_apps_or_the_runs_own():
    run = FakeRun(limits=AppLimits(beam_size=3, extra_length=20))
    try:
        assert run.search({}) == run.search_options
        assert run.search({"beam_size": 4, "alpha": 0}).alpha == 0
        with pytest.raises(UserInputError, match="`beam_size` must be at most 4. Received: "):
            run.search({"beam_size": 5})
        with pytest.raises(UserInputError, match="`extra_length` must be at most 50"):
            run.search({"extra_length": 51})
    finally:
        run.queue.close()


def test_a_search_with_terms_may_need_a_compilation():
    run = FakeRun()
    try:
        options = run.search_options
        for known in ({}, {"n_best": 2}, {"keep": "none"}):
            assert run.is_compiled(Work("translate", options, **known))
        for unknown in ({"glossary": Glossary({"a": "b"})}, {"keep": "auto"}, {"markup": "html"}):
            assert not run.is_compiled(Work("translate", options, **unknown))
        assert not run.is_compiled(Work("translate", dataclasses.replace(options, beam_size=2)))
    finally:
        run.queue.close()


def test_the_best_translation_alone_may_come_from_litert(translator, monkeypatch):
    run = LoadedTranslator("digits", translator, AppLimits())
    asked = []
    found = translator.translate_nbest
    monkeypatch.setattr(
        translator, "translate_nbest", lambda items, n, **how: asked.append(n) or found(items, n)
    )
    monkeypatch.setattr(translator, "has_graph", lambda number: number == 1, raising=False)
    try:
        for number, n_best in ((1, 1), (2, 1), (1, 2)):
            run.compute(Work("translate", run.search_options, n_best), ["one"] * number)
    finally:
        run.queue.close()
    assert asked == [1, 3, 3]


def test_a_translation_of_its_own_is_never_too_long(translator):
    """Sources of at most 7 tokens, and outputs of at least 12."""
    short = translator.with_search(max_source_length=8, min_length=12)
    run = LoadedTranslator("digits", short, AppLimits(tokens=8))
    try:
        (target,) = short.translate(["one two"])
        assert len(short.tokenizer.encode([target])[0]) > 8
        run.check_lengths(["one two"], [target])
        options = run.search_options
        (alignment,) = run.compute(Work("align", options), [("one two", target)])
        assert len(alignment.target_pieces) > 8
        pairs = [("one two", None), ("one two", target)]
        for maps in run.compute(Work("attention", options), pairs):
            assert len(maps["output_tokens"]) > 8
        with pytest.raises(SentenceTooLong, match=r"`sources\[0\]` has more than 8 tokens"):
            run.check_lengths(["one " * 10], [target])
        with pytest.raises(SentenceTooLong, match=r"`targets\[0\]` has more than 408 tokens"):
            run.check_lengths(["one"], ["eins " * 500])
    finally:
        run.queue.close()


def test_a_refusal_names_the_side_that_is_too_long():
    for name, said in (("targets", "Target 2 is long"), ("sentences", "Sentence 2 is long")):
        refused = refusal(SentenceTooLong(name, 0, "is long"), index=1)
        assert (refused.code, refused.message) == ("sentence_too_long", said)


def test_a_language_that_the_model_lacks_is_refused(translator):
    run = LoadedTranslator("digits", translator, AppLimits())
    try:
        with pytest.raises(UserInputError, match="`target_language` must be a code"):
            run.compute(Work("translate", translator.search_options, 1, "deu"), ["one"])
    finally:
        run.queue.close()
