"""What is damaged: runs of a translator, a parser and an imported model; exports and text."""

import gzip
import shutil
import zipfile

import tensorflow as tf

from keras_transformer.data import ParallelFiles, prepare_corpus
from keras_transformer.export import (
    export_bergamot,
    export_ctranslate2,
    export_litert,
    export_marian,
    export_saved_model,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.checksums import write_checksums
from keras_transformer.runs.model_weights import save_adapters, save_base, save_weights
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.training import enable_lora
from tests.interop.marian_folders import write_hugging_face
from tests.interop.test_bpe_codes import write_folder as write_codes
from tests.random_translation import build, sentences
from tests.small_trained_run import small_trained_run

ENGLISH = "one two three\nfour\n\nfive one two\n"
GERMAN = "eins zwei drei\nvier\n\nfünf eins zwei\n"
TREES = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .))\n(S (NP (PRP it)))\n" * 2
TREE_TOKENS = ["(NP", "(S", "(VP", ")NP", ")S", ")VP", "XX"]
EXPORTS = ("saved_model", "litert", "ctranslate2", "marian", "bergamot")
# What a stranger makes of an export: without checksums, or packed.
BARE = {
    "bare_ctranslate2": "ctranslate2", "argos": "ctranslate2", "bare_marian": "marian",
    "bare_bergamot": "bergamot",
}  # fmt: skip
PACKAGE = "en_de.argosmodel"
EVALB_PARAMETERS = "DEBUG 0\nMAX_ERROR 10\nLABELED 1\nDELETE_LABEL TOP\nEQ_LABEL ADVP PRT\n"


class Material:
    """The paths of runs and texts that cases copy, or read and leave alone.

    Args:
        directory: a `pathlib.Path`; what is missing in it is made.
        trained_run: a run of `small_trained_run`; None: it is trained.
    """

    def __init__(self, directory, trained_run=None):
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.run = directory / "translator"
        self.parser = directory / "parser"
        self.student = directory / "student"
        self.texts = directory / "texts"
        self.corpus = directory / "corpus"
        self.adapted = directory / "adapted"
        if not self.run.is_dir():
            trained_run = trained_run or small_trained_run(directory / "training")
            shutil.copytree(trained_run, self.run)
            _add_events(self.run)
        if not self.texts.is_dir():
            _write_texts(self.texts, trained_run.parent)
        if not self.parser.is_dir():
            _make_parser(self.parser)
        if not self.student.is_dir():
            _make_student(self.student)
        if not self.adapted.is_dir():
            _make_adapted(self.adapted)
        for kind, write in (("hugging_face", write_hugging_face), ("codes", write_codes)):
            if not (directory / kind).is_dir():
                (directory / kind).mkdir()
                write(directory / kind)
        if not self.corpus.is_dir():
            _prepare(self.corpus, self.texts, RunDirectory(self.run))

    def export(self, kind):
        """Write one of `EXPORTS` or `BARE` into the folder of that name, unless it is there."""
        path = self.directory / kind
        if path.is_dir():
            return
        if kind in BARE:
            self.export(BARE[kind])
            _make_bare(self.directory / BARE[kind], path, kind == "argos")
            return
        of_student = kind in ("marian", "bergamot")
        translator = Translator.load(self.student if of_student else self.run, extra_length=8)
        if kind == "saved_model":  # `check` and `serve` do with `stand_in_export`
            export_saved_model(translator, path)
        elif kind == "litert":
            export_litert(translator, path, max_source_length=40)
        elif kind == "ctranslate2":
            export_ctranslate2(translator, path)
        elif kind == "marian":
            export_marian(translator, path, native=True)
        else:
            export_bergamot(translator, path)

    def stand_in_export(self, directory):
        """Write the files of a SavedModel that verbs look at, without a model in them."""
        version = directory / "1"
        (version / "variables").mkdir(parents=True)
        for name in ("saved_model.pb", "variables/variables.index", "model_card.json"):
            (version / name).write_bytes(name.encode() * 20)
        for name in ("models.config", "batching.config"):
            (directory / name).write_text("num_batch_threads { value: 1 }\n")
        write_checksums(version)


def _write_texts(directory, trained):
    directory.mkdir()
    for side in ("en", "de"):
        shutil.copy(trained / f"train.{side}", directory)
    contents = {
        "one.en": ENGLISH, "one.de": GERMAN, "gold.mrg": TREES, "test.mrg": TREES,
        "evalb.prm": EVALB_PARAMETERS,
        "settings.json": '{"steps": 3, "preset": "tiny"}', "settings.toml": "steps = 3\n",
    }  # fmt: skip
    for name, text in contents.items():
        (directory / name).write_text(text, encoding="utf-8")
    for name in ("one.en", "one.de", "gold.mrg"):
        content = (directory / name).read_bytes()
        (directory / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))


def _add_events(run):
    writer = tf.summary.create_file_writer(str(run / "tensorboard" / "train"))
    with writer.as_default():
        tf.summary.write("loss", 1.5, step=1)
    writer.close()


def _prepare(path, texts, run):
    """Write a prepared corpus to a path."""
    _, tokenizer = run.load_tokenizers()
    text = ParallelFiles(texts / "one.en", texts / "one.de")
    prepare_corpus(text, tokenizer, path.parent / "prepared", keep_text=True)
    (corpus,) = (path.parent / "prepared").iterdir()
    corpus.rename(path)


def _make_parser(path):
    source = SentencePieceTokenizer.train(sentences(50), vocabulary_size=320, byte_fallback=True)
    target = TreeTokenizer.of(TREE_TOKENS)
    model = build(target, source_vocabulary_size=source.vocabulary_size)
    run = RunDirectory.create(path)
    run.start(model=model, tokenizer=target, source_tokenizer=source, settings={"beam_size": 2})
    run.checksums.write_json(run.scores_path, {"bleu": 12.5})
    for weights in (run.checkpoints.path_of(1), run.checkpoints.path_of(2), run.weights_path):
        save_weights(model, weights)


def _make_adapted(path):
    """A run whose checkpoints are adapters."""
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)
    model = build(tokenizer)
    run = RunDirectory.create(path)
    run.start(model=model, tokenizer=tokenizer, settings={"beam_size": 2})
    save_base(model, run.checkpoints.base_path)
    enable_lora(model, 2, 4.0)
    for step in (1, 2):
        save_adapters(model, run.checkpoints.path_of(step))


def _make_bare(export, path, is_packed):
    """Write the files of an export as a stranger has them."""
    shutil.copytree(export, path, ignore=shutil.ignore_patterns("SHA256SUMS"))
    if is_packed:
        names = [each for each in path.iterdir() if each.is_file()]
        with zipfile.ZipFile(path / PACKAGE, "w", zipfile.ZIP_DEFLATED) as package:
            for each in names:
                package.write(each, f"en_de/model/{each.name}")
                each.unlink()


def _make_student(path):
    """A run such as `import bergamot` makes, with a shortlist."""
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)
    options = {"decoder_unit": "ssru", "positions": "sinusoidal_t2t", "zero_id": 1}
    model = build(tokenizer, **options)
    rows = tokenizer.encode(sentences(50))
    translator = Translator(model, tokenizer, beam_size=2)
    translator.save_to_preset(path)
    run = RunDirectory.open(path)
    run.write_shortlist(Shortlist.build(rows, rows[::-1], tokenizer, first=8, best=3))
