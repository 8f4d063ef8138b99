"""docs/tutorials/text_classifier.md, on a small archive that TFDS reads as it reads IMDB's."""

import io
import itertools
import tarfile

import pytest

from tests.pages.page import Page, run_code

PAGE = Page("docs/tutorials/text_classifier.md")
# Of the page's numbers, those that are too large for 120 of them.
SMALL = {
    "vocabulary_size=8000": "vocabulary_size=120",
    "patience=1": "patience=20",
    "epochs=6": "epochs=20",
}
OPINIONS = {
    "pos": ["I loved every minute", "A wonderful cast", "Funny, warm and clever", "A delight"],
    "neg": ["I slept through it", "A dull story", "Long, cold and silly", "A waste of time"],
}
OPENINGS = ["We saw it last night.", "My brother chose it.", "It is a film about the sea."]
ENDINGS = [
    "See for yourself.",
    "So much for that.",
    "The end is no surprise.",
    "It runs two hours.",
    "The music is by a friend.",
]


def reviews():
    """Yield the folder and the text of each review."""
    yield "train/unsup", "It has a beginning and an end."
    for label, opinions in OPINIONS.items():
        texts = itertools.product(OPENINGS, opinions, ENDINGS)
        for number, (opening, opinion, ending) in enumerate(texts):
            split = "test" if number % 7 == 0 else "train"
            yield f"{split}/{label}", f"{opening}<br /><br />{opinion}. {ending}"


def write_archive(path):
    """Reviews as IMDB has them: a file each, in folders of splits and labels."""
    with tarfile.open(path, "w:gz") as archive:
        for number, (folder, text) in enumerate(reviews()):
            member = tarfile.TarInfo(f"aclImdb/{folder}/{number}_1.txt")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


@pytest.mark.slow
@pytest.mark.tensorflow
def test_it_learns(tmp_path, monkeypatch, capsys):
    import tensorflow_datasets as tfds

    archive = tmp_path / "aclImdb_v1.tar.gz"
    write_archive(archive)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tfds.download.DownloadManager, "download", lambda *_: archive)
    code = "".join(PAGE.blocks("python"))
    for there, small in SMALL.items():
        assert code.count(there) == 1, there
        code = code.replace(there, small)
    names = run_code([code], PAGE.path.name)
    printed = capsys.readouterr().out.splitlines()
    assert "102 reviews to train on, 18 to test" in printed
    assert names["accuracy"] >= 0.9
    assert printed[-1] == "True"
    assert not any("<br" in text for text in names["train_texts"])
