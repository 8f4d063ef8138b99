import gzip
import hashlib
import json
import os
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import file_lock
from keras_transformer.toolkit.cli import named_models, text_streams
from keras_transformer.toolkit.cli.run_exports import RunExport
from keras_transformer.toolkit.cli.text_streams import ResumableOutput
from tests.cli.fake_translator import FakeTranslator
from tests.cli.refusals import refusal
from tests.cli.test_text_streams import Terminal


def test_lines_come_back_in_order_with_empty_lines(command):
    text = "größe\n\nzwei\r\na\u2028b\x0bc\nlast".encode()
    expected = "GRÖSSE\n\nZWEI\nA\u2028B\x0bC\nLAST\n".encode()
    assert command("translate", "run", stdin=text) == (0, expected, b"")


def test_its_help_names_the_engines_that_start_without_keras(call):
    _, text, _ = call("translate", "--help")
    assert "`--engine ctranslate2` and `--engine litert` avoid this" in " ".join(text.split())


def test_no_lines_give_no_lines(command):
    assert command("translate", "run") == (0, b"", b"")


def test_flags_reach_the_translator(command):
    flags = ["--checkpoint=best", "--beam-size=5", "--alpha=1", "--batch-size=7"]
    flags += ["--extra-length=9", "--min-length=3", "--no-repeat-ngram=2", "--max-source-length=90"]
    flags += ["--long-lines=split", "--source-language=de", "--target-language=fra"]
    flags += ["--length-penalty=power", "--shortlist"]
    assert command("translate", "run", *flags)[0] == 0
    assert FakeTranslator.loaded == {
        "runs": ["run"],
        "checkpoint": ["best"],
        "beam_size": 5,
        "alpha": 1.0,
        "batch_size": 7,
        "extra_length": 9,
        "min_length": 3,
        "no_repeat_ngram": 2,
        "max_source_length": 90,
        "long_sentences": "split",
        "source_language": "de",
        "target_language": "fra",
        "shortlist": True,
        "length_penalty": "power",
        "engine": "auto",
        "precision": "float32",
    }


def test_a_source_language_is_for_lines_that_are_split(command):
    for choice in ([], ["--long-lines=cut"]):
        said = refusal(command("translate", "run", "--source-language=en", *choice))
        assert said == "error: `--source-language` needs `--long-lines split` or `--markup`.\n"
    assert command("translate", "run")[0] == 0
    assert FakeTranslator.loaded["source_language"] == "en"


def test_an_ensemble_is_several_runs_or_several_checkpoints(command):
    checkpoints = ["--checkpoint", "a", "--checkpoint", "b"]
    for arguments, runs, expected in (
        (["one", "two"], ["one", "two"], None),
        (["one", *checkpoints], ["one"], ["a", "b"]),
    ):
        command("translate", *arguments)
        assert FakeTranslator.loaded["runs"] == runs
        assert FakeTranslator.loaded["checkpoint"] == expected


def test_n_best_lines_carry_the_index_over_chunks(command, monkeypatch):
    monkeypatch.setattr(text_streams, "READ_BYTES", 2)
    code, out, _ = command("translate", "run", "--n-best", "2", stdin=b"a\nb\n")
    assert code == 0
    assert out.decode().splitlines() == [
        "0 ||| A ||| -0.500000",
        "0 ||| a ||| -1.250000",
        "1 ||| B ||| -0.500000",
        "1 ||| b ||| -1.250000",
    ]


def test_samples_are_told_the_line_they_are_of(command, monkeypatch):
    monkeypatch.setattr(text_streams, "READ_BYTES", 2)
    flags = ["--sample", "--temperature=0.5", "--top-k=9", "--top-p=0.9", "--seed=4"]
    code, out, _ = command("translate", "run", *flags, stdin=b"a\nb\n")
    assert (code, out) == (0, b"a 0 0\nb 1 0\n")
    options = {"temperature": 0.5, "top_k": 9, "top_p": 0.9, "seed": 4}
    assert FakeTranslator.calls[0] == ("sample", ["a"], 1, options, None)


def test_n_best_samples_are_not_held_to_the_beam(command):
    _, out, _ = command("translate", "run", "--sample", "--n-best=5", stdin=b"a\n")
    assert out.decode().splitlines()[4] == "0 ||| a 0 4 ||| -4.000000"
    assert FakeTranslator.calls == [("sample", ["a"], 5, {}, None)]


@pytest.mark.parametrize("flags", [[], ["--sample"], ["--n-best=1"]])
def test_a_prefix_stands_behind_a_tab(command, flags):
    command("translate", "run", "--tab-prefix", *flags, stdin=b"a\tx y\nb\nc\t\n")
    assert FakeTranslator.calls[0][1] == ["a", "b", "c"]
    assert FakeTranslator.calls[0][-1] == ["x y", "", ""]


def test_a_tag_marks_lines_that_are_not_empty(command):
    _, out, _ = command("translate", "run", "--tag", "<BT>", stdin=b"a\n\nb\n")
    assert out == b"<BT> A\n\n<BT> B\n"


def test_invalid_utf8_names_the_line_after_translating_those_before(command):
    code, out, err = command("translate", "run", stdin=b"a\nb\nx\xffy\nc\n")
    assert (code, out) == (2, b"A\nB\n")
    assert err == b"error: Line 3 of standard input is not valid UTF-8 at byte 2\n"


def test_missing_run_is_one_line(command):
    said = refusal(command("translate", "missing", stdin=b"a\n"))
    assert said == "error: `missing` is no run directory\n"


def test_a_sentence_in_place_of_a_run_is_told_where_it_goes(command):
    assert refusal(command("translate", "run", "I'm hungry.")) == (
        'error: There is no run directory "I\'m hungry.". Pass sentences on standard input: '
        "echo 'I'\"'\"'m hungry.' | keras-transformer translate RUN\n"
    )


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--n-best=5"], "`--n-best` must be at most the beam size. Received: --n-best 5, --beam-"),
        (["--n-best=2", "--beam-size=1"], "`--n-best` must be at most the beam size. Received: "),
        (["--temperature=2"], "`--temperature` needs `--sample`."),
        (["--top-k=2"], "`--top-k` needs `--sample`."),
        (["--top-p=0.5"], "`--top-p` needs `--sample`."),
        (["--seed=0"], "`--seed` needs `--sample`."),
        (["--sample", "--beam-size=2"], "`--beam-size` has no effect with `--sample`"),
        (["--sample", "--alpha=1"], "`--alpha` has no effect with `--sample`"),
        (["--input=x"], "`--input` and `--output` must be given together."),
        (["--output=x"], "`--input` and `--output` must be given together."),
        (["--glossary-tags"], "`--glossary-tags` needs `--glossary`."),
        (["--glossary-tags", "--sample"], "`--glossary-tags` needs `--glossary`."),
        (
            ["--precision=int8", "--engine=own"],
            "`--precision int8` is not supported by `--engine own`.",
        ),
        (
            ["--glossary-tags", "--glossary=x", "--engine=litert"],
            "`--glossary-tags` is not supported by `--engine litert`.",
        ),
        (["--tag=<BT>", "--n-best=2"], "`--n-best` cannot be combined with `--tag`."),
        (
            ["--long-lines=split", "--n-best=2"],
            "`--n-best` cannot be combined with `--long-lines split`",
        ),
        (
            ["--long-lines=split", "--sample"],
            "`--sample` cannot be combined with `--long-lines split`",
        ),
        (
            ["--long-lines=split", "--tab-prefix"],
            "`--tab-prefix` cannot be combined with `--long-lines split`",
        ),
        (["--tag", "a\nb"], r"`--tag` must be one line of text. Received: 'a\nb'"),
        (["--tag", " "], "`--tag` must be one line of text. Received: ' '"),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(command, flags, complaint):
    said = refusal(command("translate", "run", *flags, stdin=b"a\n"))
    assert said.startswith(f"error: {complaint}")


class TestFiles:
    """`--input` and `--output`."""

    @pytest.fixture(autouse=True)
    def pieces_of_two_lines(self, monkeypatch):
        monkeypatch.setattr(named_models, "BATCHES_A_PIECE", 2)

    def translate(self, command, path, *flags):
        files = [f"--input={path / 'in.txt'}", f"--output={path / 'out.txt'}", "--batch-size=1"]
        return command("translate", "run", *files, *flags)

    def test_a_file_is_translated_in_pieces(self, command, tmp_path):
        (tmp_path / "in.txt").write_text("a\n\nb\nc\nd\n")
        assert self.translate(command, tmp_path, "--tag=<BT>") == (0, b"", b"")
        assert (tmp_path / "out.txt").read_text() == "<BT> A\n\n<BT> B\n<BT> C\n<BT> D\n"
        pieces = [call[1] for call in FakeTranslator.calls]
        assert pieces == [["a", ""], ["b", "c"], ["d"]]
        assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]

    @pytest.mark.parametrize(
        ("flags", "begins"),
        [
            (["--beam-size=5", "--alpha=1.4"], "\rbeam 5, alpha 1.4:   0%|"),
            (["--output=/dev/null"], "\rbeam 4, alpha 0.6:   0%|"),
            (["--engine=ctranslate2"], "\rbeam 4, alpha 0.6 (power):   0%|"),
            (["--sample"], "\r  0%|"),
        ],
    )
    def test_the_bar_names_the_search(self, command, tmp_path, monkeypatch, flags, begins):
        (tmp_path / "in.txt").write_text("a\n")
        monkeypatch.setattr(sys, "stderr", Terminal())
        load = FakeTranslator.load
        monkeypatch.setattr(RunExport, "load", lambda self: load(self.models.runs))
        assert self.translate(command, tmp_path, *flags)[0] == 0
        assert sys.stderr.getvalue().startswith(begins)

    def test_compressed_files(self, command, tmp_path):
        with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as file:
            file.write("ä\nb\n")
        files = [f"--input={tmp_path / 'in.gz'}", f"--output={tmp_path / 'out.gz'}"]
        assert command("translate", "run", *files)[0] == 0
        with gzip.open(tmp_path / "out.gz", "rt", encoding="utf-8") as file:
            assert file.read() == "Ä\nB\n"
        assert sorted(os.listdir(tmp_path)) == ["in.gz", "out.gz"]

    def interrupt(self, command, path, monkeypatch, *flags):
        """Ctrl-C in the second piece of `a b c d e`."""
        (path / "in.txt").write_text("a\nb\nc\nd\ne\n")

        def translate(self, sentences, prefixes=None, real=FakeTranslator.translate, **terms):
            if "c" in sentences:
                raise KeyboardInterrupt
            return real(self, sentences, prefixes, **terms)

        with monkeypatch.context() as patch:
            patch.setattr(FakeTranslator, "translate", translate)
            assert self.translate(command, path, *flags)[0] == 130
        FakeTranslator.calls.clear()
        assert not (path / "out.txt").exists()

    def test_an_interrupted_translation_goes_on_behind_its_last_piece(
        self, command, tmp_path, monkeypatch
    ):
        self.interrupt(command, tmp_path, monkeypatch)
        with open(tmp_path / ".partial-out.txt", "a") as file:
            file.write("half a li")  # as a killed process leaves it
        code, _, err = self.translate(command, tmp_path)
        assert code == 0
        assert b"resuming after line 2 of 5" in err
        assert [call[1] for call in FakeTranslator.calls] == [["c", "d"], ["e"]]
        assert (tmp_path / "out.txt").read_text() == "A\nB\nC\nD\nE\n"
        assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]

    def test_another_batch_size_goes_on(self, command, tmp_path, monkeypatch):
        self.interrupt(command, tmp_path, monkeypatch)
        assert self.translate(command, tmp_path, "--batch-size=3")[0] == 0
        assert [call[1] for call in FakeTranslator.calls] == [["c", "d", "e"]]

    def test_another_glossary_does_not_go_on(self, command, tmp_path, monkeypatch):
        terms = tmp_path / "terms.tsv"
        terms.write_text("a\tx\n")
        self.interrupt(command, tmp_path, monkeypatch, f"--glossary={terms}")
        terms.write_text("a\ty\n")
        said = refusal(self.translate(command, tmp_path, f"--glossary={terms}"))
        assert "was made with a different `glossary_digest`" in said

    def test_other_settings_do_not_go_on(self, command, tmp_path, monkeypatch):
        self.interrupt(command, tmp_path, monkeypatch)
        said = refusal(self.translate(command, tmp_path, "--tag=<BT>"))
        assert "was made with a different `tag`. Use the same to resume, or remove it" in said
        with monkeypatch.context() as patch:
            patch.setattr(FakeTranslator, "weights", "of a longer training")
            assert b"different `model_digests`" in self.translate(command, tmp_path)[2]
        with monkeypatch.context() as patch:  # as `tune` leaves the run
            patch.setattr(named_models, "search_of", lambda *_: {"alpha": 1.3})
            assert b"different `alpha`" in self.translate(command, tmp_path)[2]
        (tmp_path / "in.txt").write_text("x\nb\nc\nd\ne\n")  # as long as before
        assert b"different `input_digest`" in self.translate(command, tmp_path)[2]
        assert (tmp_path / ".partial-out.txt").read_text() == "A\nB\n"

    def test_an_output_that_an_older_version_began_goes_on(self, command, tmp_path):
        text = b"a\nb\nc\n"
        (tmp_path / "in.txt").write_bytes(text)
        (tmp_path / ".partial-out.txt").write_text("A\nB\n")
        settings = {
            "runs": ["run"], "checkpoint": None, "target_language": None, "alpha": 1.0,
            "max_source_length": None, "engine": "own", "beam_size": None, "tag": "<BT>",
            "length_penalty": None, "ending": None, "extra_length": None, "min_length": None,
            "no_repeat_ngram": None, "n_best": None, "tab_prefix": False, "long_lines": "cut",
            "source_language": "en", "sample": False, "temperature": None, "top_k": None,
            "top_p": None, "seed": None, "column": None, "input": str(tmp_path / "in.txt"),
            "input_digest": hashlib.sha256(text).hexdigest(),
            "model_digests": [FakeTranslator.weights],
        }  # fmt: skip
        record = {"settings": settings, "lines_read": 2, "bytes": 4}
        (tmp_path / ".partial-out.txt.json").write_text(json.dumps(record))
        flags = ["--alpha=1", "--tag=<BT>", "--long-lines=cut"]
        assert self.translate(command, tmp_path, *flags)[0] == 0
        assert (tmp_path / "out.txt").read_text() == "A\nB\n<BT> C\n"

    def test_two_processes_do_not_write_one_output(self, command, tmp_path):
        (tmp_path / "in.txt").write_text("a\nb\n")
        with file_lock(tmp_path / ".partial-out.txt.lock"):
            said = refusal(self.translate(command, tmp_path))
        assert FakeTranslator.calls == []
        assert "Another process is writing" in said
        assert self.translate(command, tmp_path)[0] == 0
        assert (tmp_path / "out.txt").read_text() == "A\nB\n"

    def test_an_output_that_another_process_finished_is_kept(self, tmp_path):
        output = ResumableOutput(tmp_path / "out.txt", {}, total=1)
        (tmp_path / "out.txt").write_text("of the other\n")
        with pytest.raises(UserInputError, match="It is not overwritten"), output:
            pass
        assert sorted(os.listdir(tmp_path)) == ["out.txt"]
        assert (tmp_path / "out.txt").read_text() == "of the other\n"

    def test_a_damaged_partial_output_is_one_line(self, command, tmp_path, monkeypatch):
        self.interrupt(command, tmp_path, monkeypatch)
        record = tmp_path / ".partial-out.txt.json"
        content = json.loads(record.read_text())
        broken = [{"bytes": 1000}, {"bytes": -1}, {"lines_read": 6}, {"lines_read": "2"}]
        broken = [json.dumps(content | change) for change in [*broken, {"settings": []}]]
        for text in ["{", "[]", "[" * 100_000, *broken]:
            record.write_text(text)
            said = refusal(self.translate(command, tmp_path))
            assert "is damaged: " in said
            assert " Remove .partial-out.txt and .partial-out.txt.json to start over." in said


def test_a_glossary_and_what_to_keep_reach_the_translator(command, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("house\tHaus\n")
    flags = [f"--glossary={terms}", "--keep=numbers"]
    assert command("translate", "run", *flags, stdin=b"a house\n") == (0, b"A HOUSE\n", b"")
    (_, _, _, (name, glossary), keep) = FakeTranslator.calls[0]
    assert (name, keep) == ("glossary", ("keep", "numbers"))
    assert [targets for *_, targets in glossary.find("a house")] == [("Haus",)]
    for flag in flags:
        said = refusal(command("translate", "run", flag, "--sample"))
        name = flag.partition("=")[0]
        assert said == f"error: `{name}` has no effect with `--sample`, which does not search.\n"


def test_terms_in_tags_reach_the_translator_and_its_samples(command, tmp_path):
    terms = tmp_path / "terms.tsv"
    terms.write_text("house\tHaus\n")
    flags = [f"--glossary={terms}", "--glossary-tags"]
    assert command("translate", "run", *flags, stdin=b"a house\n") == (0, b"A HOUSE\n", b"")
    assert command("translate", "run", *flags, "--sample", stdin=b"a house\n")[0] == 0
    (*_, own), (*_, sampled, _) = FakeTranslator.calls
    assert own == ("glossary_tags", True)
    assert sampled["glossary_tags"] is True
    assert len(sampled["glossary"]) == 1


class TestDocuments:
    page = "\ufeff<p>größe\r\n<b>zwei</b></p>\n\n".encode()

    def test_standard_input_is_one_document(self, command):
        flags = ["--markup=html", "--source-language=de"]
        assert command("translate", "run", *flags, stdin=self.page) == (
            0,
            self.page.decode().upper().encode(),
            b"",
        )
        ((_, texts, prefixes, progress, markup),) = FakeTranslator.calls
        assert (texts, prefixes, markup) == ([self.page.decode()], None, ("markup", "html"))
        assert progress == ("progress", False)
        assert FakeTranslator.loaded["source_language"] == "de"

    def test_what_to_keep_is_what_the_translator_keeps_unless_given(self, command):
        command("translate", "run", "--markup=xml", "--keep=numbers", stdin=b"<a/>")
        assert FakeTranslator.calls[0][3:] == (
            ("progress", False),
            ("markup", "xml"),
            ("keep", "numbers"),
        )

    @pytest.mark.parametrize(("source", "target"), [("a.html", "b.html"), ("a.gz", "b.gz")])
    def test_a_file_is_one_document(self, command, tmp_path, source, target):
        pack, unpack = (gzip.compress, gzip.decompress) if "gz" in source else (bytes, bytes)
        (tmp_path / source).write_bytes(pack(self.page))
        files = ["--input", tmp_path / source, "--output", tmp_path / target]
        assert command("translate", "run", "--markup=html", *files) == (0, b"", b"")
        written = (tmp_path / target).read_bytes()
        assert unpack(written) == self.page.decode().upper().encode()
        said = refusal(command("translate", "run", "--markup=html", *files))
        assert f"{target} exists. It is not overwritten" in said
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted([source, target])

    def test_an_empty_document_is_empty(self, command):
        assert command("translate", "run", "--markup=markdown") == (0, b"", b"")

    @pytest.mark.parametrize(
        "flags",
        [
            ["--n-best=2"],
            ["--tab-prefix"],
            ["--tag=<BT>"],
            ["--cluster=local", "--input=a", "--output=b"],
            ["--long-lines=cut"],
        ],
    )
    def test_what_works_on_lines_is_refused(self, command, flags):
        said = refusal(command("translate", "run", "--markup=html", *flags))
        assert "cannot be combined with `--markup`" in said
        assert f"`{flags[0].partition('=')[0]}" in said

    def test_samples_and_ctranslate2_are_refused(self, command):
        said = refusal(command("translate", "run", "--markup=html", "--sample"))
        assert said == "error: `--markup` has no effect with `--sample`, which does not search.\n"
        said = refusal(command("translate", "run", "--markup=html", "--engine=ctranslate2"))
        assert said == "error: `--markup` is not supported by `--engine ctranslate2`.\n"

    def test_a_document_that_cannot_be_read_is_one_line(self, command, tmp_path, monkeypatch):
        said = refusal(command("translate", "run", "--markup=html", stdin=b"a\xffb"))
        assert said == "error: standard input is not valid UTF-8 at byte 2\n"
        files = ["--input", tmp_path / "none.html", "--output", tmp_path / "b.html"]
        assert "Cannot read " in refusal(command("translate", "run", "--markup=html", *files))
        monkeypatch.setattr(text_streams, "MAX_LINE_BYTES", 3)
        said = refusal(command("translate", "run", "--markup=html", stdin=b"abcd"))
        assert said == "error: standard input: a document must have at most 3 bytes.\n"

    def test_long_sentences_are_told(self, command):
        said = refusal(command("translate", "run", "--markup=html", stdin=b"<p>LONG"))
        assert said == (
            "error: A sentence of standard input is too long (`--long-lines split` divides it)\n"
        )
        flags = ["--markup=html", "--long-lines=split"]
        code, out, said = command("translate", "run", *flags, stdin=b"<p>LONG")
        assert (code, out) == (0, b"<P>LONG")
        assert said == b"A sentence of standard input was too long\n"
