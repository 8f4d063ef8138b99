"""What a student reads where its teacher's translations are missing, damaged or of another one."""

import json
import shutil
import types

import pytest

from keras_transformer import RunDirectory
from keras_transformer.data import SentencePairs
from keras_transformer.errors import UserInputError
from keras_transformer.training import Devices
from keras_transformer.translation_training import TranslationData
from recipes.distilled import distilled_text
from recipes.distilled.distilled_text import Translations, distilled_data
from recipes.distilled.settings import DistilledSettings
from recipes.distilled.teacher import Teacher, given_search

pytestmark = pytest.mark.tensorflow

SOURCES, REFERENCES = ["one two", "three"], ["eins zwei", "drei"]
NBEST = [[["eins", -0.5], ["eins zwei", -1.0]], [["drei", -0.25], ["vier", -2.0]]]


class Student:
    """A student of the small run, whose teacher has no time to lose."""

    def __init__(self, run, folder):
        self.run = run
        self.path = folder / "student"
        self.translated = 0  # how often

    def write_nbest(self, text, teacher, path, made_by, say):
        self.translated += 1
        path.write_text("".join(f"{json.dumps(one)}\n" for one in NBEST))

    def data(
        self,
        state=None,
        beam_size=2,
        run=None,
        sources=SOURCES,
        folder=None,
        processes=1,
        others=types.MappingProxyType({}),
        **settings,
    ):
        """Its texts, the last one mixed in."""
        mixed = SentencePairs(["a"], ["b"])
        data = TranslationData([SentencePairs(sources, REFERENCES), mixed], [1.0, 3.0])
        teacher = Teacher.open([run or self.run], {"beam_size": beam_size})
        devices = Devices("CPU", processes=processes)
        training = types.SimpleNamespace(
            directory=RunDirectory(self.path), devices=devices, say=print, state=state
        )
        translations = Translations(teacher, folder=folder, **others)
        return distilled_data(data, translations, DistilledSettings(**settings), training)

    def begin(self, **options):
        """The targets that it reads, without those of the text that is mixed in."""
        *texts, _ = self.data(**options).train
        return [target for text in texts for _, target in text]

    def resume(self, **settings):
        return self.begin(state="of some steps", **settings)

    @property
    def folder(self):
        """The translations."""
        (folder,) = (self.path.parent / "distilled").iterdir()
        return folder


@pytest.fixture
def student(trained_run, tmp_path, monkeypatch):
    student = Student(trained_run, tmp_path)
    monkeypatch.setattr(distilled_text, "write_nbest", student.write_nbest)
    return student


@pytest.fixture
def changed(student, tmp_path):
    """The teacher after a longer training."""
    run = shutil.copytree(student.run, tmp_path / "changed")
    with open(run / "model.weights.h5", "ab") as weights:
        weights.write(b"of a longer training")
    return run


def message_of(call, **settings):
    """The one line of a refusal."""
    with pytest.raises(UserInputError) as caught:
        call(**settings)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_teachers_smaller_beam_outranks_its_results(trained_run, tmp_path):
    run = RunDirectory(shutil.copytree(trained_run, tmp_path / "run"))
    run.write_search_defaults({"beam_size": 6, "num_results": 6})
    search = Teacher.open([run.path], {"beam_size": 2}).search
    assert (search["beam_size"], search["num_results"]) == (2, None)
    assert Teacher.open([run.path]).search["num_results"] == 6


def test_the_settings_give_an_ensemble_its_own_search(trained_run, tmp_path):
    runs = [shutil.copytree(trained_run, tmp_path / name) for name in ("one", "two")]
    RunDirectory(runs[0]).write_search_defaults({"alpha": 1.5, "beam_size": 5})
    settings = DistilledSettings(teacher_alpha=1.25, teacher_extra_length=9)
    given = given_search(settings.to_dict())
    assert given == {"alpha": 1.25, "extra_length": 9}
    teacher = Teacher.open(runs, given)
    own = {"beam_size": 5, "alpha": 1.25, "extra_length": 9}
    assert teacher.search.items() >= own.items()
    assert teacher.record()["search"] == teacher.search
    assert teacher.told_search == (
        f"beam 5, alpha 1.25, extra length 9; the other options are taken from {runs[0]}"
    )
    assert Teacher.open(runs[:1]).told_search == "beam 5, alpha 1.5, extra length 50"
    with pytest.raises(UserInputError, match="`teacher_alpha` must be "):
        DistilledSettings(teacher_alpha=10)


@pytest.mark.parametrize("name", ["distilled", "runs"])
def test_students_with_and_without_a_name_share_a_folder(student, name):
    """Those without one lie in runs/distilled."""
    runs = student.path.parent
    student.path = runs / name / "student" if name == "distilled" else runs / "student"
    student.begin()
    (folder,) = (runs / "distilled").iterdir()
    assert (folder / "nbest.jsonl").is_file()


def test_each_way_and_the_original_pairs_are_texts_with_weights(student):
    data = student.data()
    assert data.weights == [1.0, 3.0]
    assert list(data.train[0]) == list(zip(SOURCES, ["eins", "drei"], strict=True))
    ways = {"from_nbest": "both", "mix_original": 0.25}
    assert student.data(**ways).weights == [1.0, 1.0, 0.25, 3.0]
    assert student.translated == 1


def test_translations_of_another_teacher_search_or_text_are_refused(student, changed, tmp_path):
    student.begin()
    folder = student.folder
    for other, name in (
        ({"beam_size": 3}, "search"),
        ({"sources": ["a", "b"]}, "text"),
        ({"run": changed, "beam_size": 3}, "weights and search"),
    ):
        message = message_of(student.begin, folder=folder, **other)
        assert message.endswith(f"were made with different {name}. Choose another --distilled.")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "train.en").touch()
    message = message_of(student.begin, folder=tmp_path / "text")
    assert message.endswith("holds no translations of a teacher. Choose another --distilled.")


def test_more_sources_and_targets_are_translated_too(student, trained_run, tmp_path, monkeypatch):
    lists = [["vier", -0.5]], [["fünf", -0.5]]
    paths = []

    def write_nbest(text, teacher, path, made_by, say):
        paths.append(path.parent.name)
        lines = [lists[number % 2] for number in range(text.num_pairs)]
        path.write_text("".join(f"{json.dumps(one)}\n" for one in lines))

    monkeypatch.setattr(distilled_text, "write_nbest", write_nbest)
    more = SentencePairs(["four", "five", "four"], [""] * 3, "more")
    others = {"more": more, "backward": Teacher.open([trained_run])}
    *texts, mixed = student.data(others=others, folder=tmp_path / "own").train
    assert [list(text) for text in texts] == [
        [("one two", "vier"), ("three", "fünf")],
        [("four", "vier"), ("five", "fünf"), ("four", "vier")],
        [("vier", "eins zwei"), ("fünf", "drei")],
    ]
    assert list(mixed) == [("a", "b")]
    assert paths == ["own", "own-more", "own-backward"]
    assert len({text.fingerprint() for text in texts}) == 3


def test_a_file_replaces_the_teacher(student, tmp_path):
    path = tmp_path / "given.de"
    path.write_text("uno dos\ntres\n")
    assert student.begin(others={"file": path}) == ["uno dos", "tres"]
    assert student.translated == 0


def test_several_machines_do_not_translate(student):
    assert "which one machine must create: start on one machine" in message_of(
        student.begin, processes=2
    )
    assert student.translated == 0


def test_translations_of_another_search_are_told_of(student, capsys):
    student.begin()
    of_two = student.folder
    assert "different search" not in capsys.readouterr().out
    student.begin(beam_size=3)
    told = capsys.readouterr().out
    assert f"Keeping translations from a different search in {of_two}\n" in told
    assert "Translating 2 sentences of pairs into " in told
    assert "beam 3, alpha 0.6, extra length 50\n" in told
    (of_two / "nbest.jsonl").unlink()
    student.begin(beam_size=4)
    told = capsys.readouterr().out
    assert f"Keeping unfinished translations from a different search in {of_two}" in told
    student.begin(beam_size=4)
    told = capsys.readouterr().out
    assert told.startswith("The translations of pairs (beam 4, alpha 0.6, extra length 50) are in")


def test_a_resumed_student_is_not_given_translations_of_a_changed_teacher(student, changed):
    assert student.begin() == student.resume() == ["eins", "drei"]
    folder = student.folder
    (folder.parent / "damaged").mkdir()
    (folder.parent / "damaged" / "made_by.json").write_text("[")
    message = message_of(student.resume, run=changed)
    assert f" lacks the translations with which {student.path} started; " in message
    assert (
        f"those in {folder} differ in weights. Put them back, or the teacher as it was" in message
    )
    message = message_of(student.resume, beam_size=3)
    assert f"those in {folder} differ in search. " in message
    assert "`keras-transformer tune TEACHER --reset` undoes the changes made by `tune`" in message
    assert student.translated == 1
    assert len(list(folder.parent.iterdir())) == 2


def test_a_student_without_a_state_translates_again_and_one_with_a_state_does_not(student):
    student.begin()
    shutil.rmtree(student.folder)
    message = message_of(student.resume)
    assert f" lacks the translations with which {student.path} started. Put them back" in message
    assert student.translated == 1
    assert student.begin() == ["eins", "drei"]
    assert student.translated == 2


def test_a_resumed_student_chooses_again_what_it_has_translated(student):
    student.begin()
    (student.folder / "best.txt").unlink()
    assert student.resume() == ["eins", "drei"]
    (student.folder / "nbest.jsonl").unlink()
    assert student.resume() == ["eins", "drei"]
    assert student.translated == 1


@pytest.mark.parametrize("way", ["sentence-bleu", "both"])
def test_a_greedy_teacher_leaves_nothing_to_choose(student, way):
    message = message_of(student.begin, beam_size=1, from_nbest=way)
    assert message.startswith("`from_nbest` must be best if the teacher uses greedy decoding")
    assert message.endswith(f"Received: from_nbest='{way}'")
    assert student.translated == 0
    assert student.begin(beam_size=1) == ["eins", "drei"]
    assert student.resume(beam_size=1, from_nbest=way)[-2:] == ["eins zwei", "drei"]  # as it began


def test_no_more_than_the_damaged_is_to_be_removed(student):
    student.begin(from_nbest="both")
    folder = student.folder
    best, nbest = folder / "best.txt", folder / "nbest.jsonl"
    (folder / "notes.txt").write_text("of the user")
    best.write_text("eins\n")
    assert message_of(student.begin) == (
        f"{best} is damaged: it has 1 lines for 2 pairs. Remove only this file to choose its "
        "translations again."
    )
    best.unlink()
    nearest = next(folder.glob("sentence-bleu-*.txt")).name
    advice = f"Remove nbest.jsonl and {nearest} to translate again."
    for line in ("[]\n", "[[1]]\n"):
        nbest.write_text(2 * line)
        assert message_of(student.begin) == f"{nbest}, line 1 is damaged. {advice}"
    nbest.write_text("[]\n")
    damage = "it has 1 lines for 2 pairs"
    assert message_of(student.begin) == f"{nbest} is damaged: {damage}. {advice}"
    (folder / "made_by.json").write_text("[")
    assert message_of(student.begin).endswith("next to it. Choose another --distilled.")
