"""A student of the small run that translates digits: what it reads, and how it is compared."""

import json
import shutil
import signal

import pytest
import sacrebleu

from keras_transformer import RunDirectory, SentencePieceTokenizer, Translator, build_transformer
from keras_transformer.data import SentencePairs
from keras_transformer.files import write_json
from keras_transformer.toolkit.cli import run_command
from keras_transformer.training.translation import training_start
from recipes.distilled import measure, nbest_lists, train
from recipes.distilled.distilled_text import DistilledText
from recipes.distilled.nbest_lists import nearest_by_sentence_bleu
from recipes.distilled.report import markdown_table
from recipes.distilled.settings import DistilledSettings
from recipes.distilled.student_options import OF_TEACHER, student_options
from recipes.distilled.teacher import Teacher
from tests.evaluation.cost.recorded_runs import write_run
from tests.training.equal_runs import rows
from tests.training.small_training import At, interrupt
from tests.translation_training.number_text import SMALL, flags, write_pairs
from tests.written_files import one_line

pytestmark = pytest.mark.tensorflow

NOT_GIVEN = ("num_layers", "vocabulary_size", "byte_fallback", "bleu_sentences", "held_out")
SETTINGS = {
    **{name: value for name, value in SMALL.items() if name not in NOT_GIVEN},
    "num_encoder_layers": 2,
    "num_decoder_layers": 1,
    "teacher_beam_size": 2,
    "steps": 2,
    "save_every": 2,
    "bleu_every": 0,
    "average": 1,
    "choose_average": False,
    "tune_alpha": False,
    "probe": False,
    "precision": "float32",
    "bleu_tokenize": "none",
    "drop_duplicates": False,
}


def write_text(folder):
    """60 pairs to train on and 15 to validate on: their flags."""
    folder.mkdir()
    files = (*write_pairs(folder, "train", 3, stop=60), *write_pairs(folder, "dev", 2, stop=15))
    names = ("--source", "--target", "--dev-source", "--dev-target")
    return [part for pair in zip(names, files, strict=True) for part in pair]


def call(teacher, text, run, *arguments, **settings):
    given = ["--teacher", str(teacher), *text, "--run", str(run), "--no-exports"]
    return run_command(lambda: train.main([*given, *flags(**{**SETTINGS, **settings}), *arguments]))


def break_off_after(pieces):
    """A stand-in for `Teacher.load` whose translator is stopped by Ctrl-C after some pieces."""
    load = Teacher.load

    def load_stopping(self):
        translator, left = load(self), iter(range(pieces))
        translate = translator.translate_nbest

        def translate_nbest(sentences, n):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return translate(sentences, n)

        translator.translate_nbest = translate_nbest
        return translator

    return load_stopping


@pytest.fixture(scope="module")
def student(trained_run, tmp_path_factory):
    """A student whose teacher was broken off while it translated: its run."""
    base = tmp_path_factory.mktemp("distilled")
    text, run = write_text(base / "text"), base / "runs" / "student"
    arguments = ["--distilled", str(base / "distilled"), "--resume"]
    ways = {"from_nbest": "both", "mix_original": 0.5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nbest_lists, "LINES_A_PIECE", 25)
        patch.setattr(Teacher, "load", break_off_after(1))
        assert call(trained_run, text, run, *arguments, **ways) == 130
    partial = base / "distilled" / ".partial-nbest.jsonl"
    assert len(partial.read_text().splitlines()) == 25
    assert call(trained_run, text, run, *arguments, **ways) == 0
    assert not partial.exists()
    return run


def of(student, name):
    return student.parents[1] / name


def test_the_translations_are_the_teachers(student, trained_run):
    sources = of(student, "text/train.en").read_text().splitlines()
    found = [json.loads(line) for line in of(student, "distilled/nbest.jsonl").open()]
    expected = Translator.load(trained_run, beam_size=2).translate_nbest(sources, 2)
    assert [[text for text, _ in one] for one in found] == [
        [text for text, _ in one] for one in expected
    ]
    for ours, theirs in zip(found, expected, strict=True):
        assert [score for _, score in ours] == pytest.approx(
            [score for _, score in theirs], rel=1e-4
        )


def test_each_way_chooses_its_translation(student):
    found = [json.loads(line) for line in of(student, "distilled/nbest.jsonl").open()]
    references = of(student, "text/train.de").read_text().splitlines()
    best = of(student, "distilled/best.txt").read_text().splitlines()
    assert best == [one[0][0] for one in found]
    nearest = of(student, "distilled/sentence-bleu-none.txt").read_text().splitlines()
    assert len(nearest) == len(references) == 60
    for chosen, candidates, reference in zip(nearest, found, references, strict=True):
        scores = {
            text: sacrebleu.sentence_bleu(text, [reference], tokenize="none").score
            for text, _ in candidates
        }
        assert scores[chosen] == max(scores.values())


def test_a_student_has_the_teachers_vocabulary_and_depths_of_its_own(student, trained_run):
    runs = RunDirectory(student), RunDirectory(trained_run)
    ours, theirs = (run.record().tokenizer_fingerprint for run in runs)
    assert ours == theirs
    names = [layer.name for layer in runs[0].load_architecture().layers]
    assert sum(name.startswith("encoder_layer") for name in names) == 2
    assert sum(name.startswith("decoder_layer") for name in names) == 1
    settings = runs[0].settings()
    assert settings["residual_connection"] == "deepnorm"
    assert settings["tokenizer"] == str(trained_run / "tokenizer.model")
    # Two ways, and the original
    assert json.loads((student / "scores.json").read_text())["training_pairs"] == 3 * 60


def test_the_table_has_what_the_systems_do(student, trained_run):
    content = json.loads((student / "distilled.json").read_text())
    systems = {(one["system"], one["search"]): one for one in content["systems"]}
    beam, own = "beam 2, alpha 0.6", "beam 4, alpha 0.6"  # the teacher's is not what it taught by
    assert list(systems) == [
        ("teacher", own), ("student", beam), ("teacher", "greedy"), ("student", "greedy"),
    ]  # fmt: skip
    sources, references = (
        of(student, f"text/dev.{side}").read_text().splitlines() for side in ("en", "de")
    )
    for (name, _), system in systems.items():
        run = RunDirectory(trained_run if name == "teacher" else student)
        weights = run.load_architecture().get_weights()
        assert system["parameters"] == sum(weight.size for weight in weights)
        measured = system["runtimes"]["Translator"]
        assert measured["bytes"] == (run.path / "model.weights.h5").stat().st_size
        assert len(measured["seconds"]) == 3
    for name, search, run in (("teacher", "greedy", trained_run), ("student", beam, student)):
        system = systems[name, search]
        found = Translator.load(run, beam_size=system["beam_size"]).translate(sources)
        assert system["bleu"] == sacrebleu.corpus_bleu(found, [references], tokenize="none").score
        assert system["chrf"] == sacrebleu.corpus_chrf(found, [references]).score
    assert systems["teacher", own]["runtimes"]["Translator"]["ratio"] == 1
    assert (student / "distilled.md").read_text() == markdown_table(content)


def test_a_second_run_rounds_its_matrices_to_int8(trained_run, tmp_path, capsys):
    text, run = write_text(tmp_path / "text"), tmp_path / "student"
    given = tmp_path / "text" / "given.de"
    given.write_text("eins\n" * 60)
    arguments = ["--translations", str(given), "--shortlist", "--warmup-steps", "16"]
    assert call(trained_run, text, run, *arguments, int8_steps=4) == 0
    last = RunDirectory(tmp_path / "student-int8")
    assert RunDirectory(run).shortlist_path.is_file()
    assert last.shortlist_path.is_file()
    settings = last.settings()
    assert last.record().origin == str(run)
    assert (settings["quantization_aware"], settings["steps"], settings["warmup_steps"]) == (
        True,
        4,
        1,
    )
    peak = RunDirectory(run).settings()["learning_rate_scale"] * 16**-0.5
    assert settings["learning_rate_scale"] * 1**-0.5 == pytest.approx(peak / 10)
    assert last.load_model().count_params() == RunDirectory(run).load_model().count_params()
    content = json.loads((run / "distilled.json").read_text())
    assert [one["system"] for one in content["systems"]] == [
        "teacher", "student", "student, trained for int8",
        "teacher", "student", "student, trained for int8",
    ]  # fmt: skip
    assert "Translating 60 sentences" not in capsys.readouterr().out  # the file has them


def test_other_translations_are_another_text(tmp_path):
    text, path = SentencePairs(["a house", "a tree"], ["?", "?"]), tmp_path / "best.txt"
    path.write_text("ein Haus\nein Baum\n")
    one = DistilledText(text, path, "best")
    assert list(one) == [("a house", "ein Haus"), ("a tree", "ein Baum")]
    before = one.fingerprint()
    path.write_text("ein Haus\nder Baum\n")
    assert one.fingerprint() != before


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        (["das Haus da", "ein Haus da", "ein Haus"], "ein Haus da"),
        (["der Baum", "ein Baum"], "ein Baum"),
        (["Tisch", "Stuhl"], "Tisch"),  # of equals the first
    ],
)
def test_the_nearest_to_the_reference_is_chosen(candidates, expected):
    choose = nearest_by_sentence_bleu("none")
    scored = [(text, -float(number)) for number, text in enumerate(candidates)]
    assert choose(scored, "ein Haus da") == expected


def test_what_cannot_be_a_student_is_refused_in_one_line(trained_run, tmp_path, capsys):
    text, run = write_text(tmp_path / "text"), tmp_path / "student"

    def refused(says, teacher=trained_run, text=text, run=run, *arguments):
        assert call(teacher, text, run, *arguments) == 2
        assert says in one_line(capsys)
        assert not (run / "run.json").is_file() or run == trained_run

    refused("pass --dev-source and --dev-target", text=text[:4])
    few = tmp_path / "few.de"
    few.write_text("eins\n")
    refused(
        "few.de must have a line for each source sentence. Received: 1 lines for 60",
        trained_run,
        text,
        run,
        "--translations",
        str(few),
    )
    alone = [*text, "--run", str(run)]
    assert run_command(lambda: train.main(alone)) == 2
    assert "learns from --teacher RUN or --translations FILE" in one_line(capsys)
    more = [*alone, "--translations", str(few), "--more-source", str(few)]
    assert run_command(lambda: train.main(more)) == 2
    assert "--more-source needs --teacher RUN" in one_line(capsys)
    refused("A student cannot replace its teacher", run=trained_run)
    refused("There is no run directory", tmp_path / "none")
    (tmp_path / "text" / "train.de").write_text("eins\n")
    refused("train.de has 1")
    (tmp_path / "text" / "train.en").write_text("")
    refused("train.en is empty")
    write_pairs(tmp_path / "text", "train", 3)

    words = ["one two three four five six"] * 9
    other = SentencePieceTokenizer.train(words, vocabulary_size=24, byte_fallback=False)
    other.save(tmp_path / "other.model")
    refused(
        "A student uses the tokenizers of its teacher", trained_run, text, run,
        "--tokenizer", str(tmp_path / "other.model"),
    )  # fmt: skip
    stranger = RunDirectory(tmp_path / "stranger")
    model = build_transformer("tiny", vocabulary_size=24, hidden_dim=32)
    stranger.start(model=model, tokenizer=other, settings={})
    refused(
        "The runs of a teacher must have the same tokenizers", trained_run, text, run,
        "--teacher", str(trained_run), str(stranger.path),
    )  # fmt: skip
    parser = tmp_path / "parser"
    shutil.copytree(stranger.path, parser)
    (parser / "SHA256SUMS").unlink()
    write_json(
        parser / "run.json", json.loads((parser / "run.json").read_text()) | {"output": "trees"}
    )
    refused("are trees, not", parser)


def test_filters_and_scoring_are_the_teachers_unless_others_are_given(trained_run, tmp_path):
    teacher = RunDirectory(shutil.copytree(trained_run, tmp_path / "teacher"))
    changed = {**teacher.settings(), "max_tokens": 99, "language": "de"}
    teacher.checksums.write_json(teacher.settings_path, changed)
    student = tmp_path / "student"
    texts = [f"--{name}=file" for name in ("source", "target", "dev-source", "dev-target")]

    def read(*arguments):
        flags = ["--teacher", str(teacher.path), *texts, "--run", str(student), *arguments]
        settings = student_options("", flags)[0].settings
        return {name: getattr(settings, name) for name in OF_TEACHER}

    of_teacher = {
        "max_tokens": 99, "max_ratio": 4.0, "drop_duplicates": True, "drop_copies": True,
        "bleu_tokenize": "13a", "language": "de",
    }  # fmt: skip
    assert read() == of_teacher
    (tmp_path / "some.toml").write_text("max_ratio = 3.0")
    given = ["--no-drop-copies", "--language=none", "--settings", str(tmp_path / "some.toml")]
    others = {"max_ratio": 3.0, "drop_copies": False, "language": None}
    assert read(*given) == {**of_teacher, **others}
    write_run(student, metrics=False)
    write_json(student / "settings.json", DistilledSettings().to_dict())
    assert read("--resume")["bleu_tokenize"] == "none"  # as it began


def test_the_table_puts_quality_first():
    def system(name, search, bleu, speed, ratio):
        runtimes = {"Translator": {"sentences_per_second": speed, "ratio": ratio, "bytes": 8.2e6}}
        return {
            "system": name, "search": search, "bleu": bleu, "chrf": 60.25, "parameters": 2_081_536,
            "runtimes": runtimes,
        }  # fmt: skip

    content = {
        "text": "test.en", "sentences": 1000, "timed_sentences": 500, "rounds": 3,
        "bleu_signature": "tok:none", "chrf_signature": "nc:6", "date": "2026-11-23",
        "systems": [
            system("teacher", "beam 5, alpha 1", 41.234, 100.0, 1.0),
            system("student", "greedy", 40.9, 312.34, 3.125),
        ],
    }  # fmt: skip
    assert markdown_table(content) == (
        "| system  | search          |  BLEU |  chrF | M parameters | Translator, sentences/s "
        "| ratio |   MB |\n"
        "| ------- | --------------- | ----: | ----: | -----------: | ----------------------: "
        "| ----: | ---: |\n"
        "| teacher | beam 5, alpha 1 | 41.23 | 60.25 |         2.08 |                   100.0 "
        "|  1.00 | 8.20 |\n"
        "| student | greedy          | 40.90 | 60.25 |         2.08 |                   312.3 "
        "|  3.12 | 8.20 |\n"
        "\n"
        "test.en, 1,000 sentences; BLEU tok:none, chrF nc:6, both of Translator unless a runtime "
        "has its own column. Speeds on 500 sentences, median of 3 alternating "
        "rounds, 2026-11-23; ratios to the first row in the same runtime.\n"
    )


@pytest.mark.slow
def test_a_broken_off_student_goes_on_and_learns(trained_run, tmp_path, monkeypatch):
    text, run = write_text(tmp_path / "text"), tmp_path / "student"
    write_pairs(tmp_path / "text", "train", 4)
    second = shutil.copytree(trained_run, tmp_path / "second")
    ensemble = ["--teacher", str(trained_run), str(second)]
    longer = {
        "hidden_dim": 64, "intermediate_dim": 128, "batch_tokens": 1024, "steps": 320,
        "warmup_steps": 100, "learning_rate_scale": 0.3, "save_every": 80, "log_every": 1,
    }  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(training_start, "bleu_validators", lambda *arguments: [At(100, interrupt)])
        assert call(trained_run, text, run, *ensemble, **longer) == 128 + signal.SIGINT
    assert not (run / "distilled.json").exists()
    assert call(trained_run, text, run, *ensemble, "--resume", **longer) == 0
    assert [int(row["step"]) for row in rows(run / "metrics.csv")] == list(range(1, 321))
    content = json.loads((run / "distilled.json").read_text())
    assert [one["system"] for one in content["systems"]] == [
        "teacher run", "teacher second", "ensemble of 2", "student", "teacher run", "student",
    ]  # fmt: skip
    translator = Translator.load(run, beam_size=1)
    sources = (tmp_path / "text" / "train.en").read_text().splitlines()
    # What it learns is its teachers' translations, their errors too.
    taught = Translator.load([trained_run, second]).translate(sources)
    found = translator.translate(sources)
    right = sum(one == other for one, other in zip(found, taught, strict=True))
    assert right >= 0.97 * len(taught)


@pytest.mark.slow
def test_exports_are_compared_too(student, trained_run):
    test = [str(of(student, f"text/dev.{side}")) for side in ("en", "de")]
    flags = ["--teacher", str(trained_run), "--test-source", test[0], "--test-target", test[1]]
    before = json.loads((student / "distilled.json").read_text())
    try:
        measure.main([str(student), *flags])
        after = json.loads((student / "distilled.json").read_text())
    finally:
        write_json(student / "distilled.json", before)
        (student / "distilled.md").write_text(markdown_table(before))
    for system in after["systems"]:
        assert list(system["runtimes"]) == ["Translator", "SavedModel", "LiteRT", "LiteRT int8"]
        *sizes, in_int8 = [runtime["bytes"] for runtime in system["runtimes"].values()]
        assert all(size > 4 * system["parameters"] for size in sizes)
        assert in_int8 < sizes[-1]
        assert system["runtimes"]["LiteRT int8"]["bleu"] == pytest.approx(system["bleu"], abs=10)
    assert list(student.glob(".partial-*")) == []
