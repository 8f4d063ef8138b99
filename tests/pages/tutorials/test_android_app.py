"""docs/tutorials/android: its Java finds the ids that SentencePiece finds, and calls the export.

`Translator.java` runs with an `Interpreter` that shows what it is called with, and answers "4 5".
"""

import json
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree

import numpy as np
import pytest

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.text.sentencepiece_tokenizer import train_model
from tests.external_data import ROOT
from tests.litert_exports import litert_export
from tests.pages.page import Page

PAGE = Page("docs/tutorials/android_app.md")
FOLDER = ROOT / "docs" / "tutorials" / "android"
MAIN = FOLDER / "app" / "src" / "main"
SOURCES = MAIN / "java" / "org" / "example" / "translate"
INTERPRETER = """
package org.tensorflow.lite;
import java.nio.ByteBuffer;
import java.util.*;
public class Interpreter {
  public static class Options { public Options setNumThreads(int n) { return this; } }
  public Interpreter(ByteBuffer model, Options options) {}
  public void close() {}
  public void runSignature(Map<String, Object> in, Map<String, Object> out, String name) {
    int[][] ids = (int[][]) out.get("output_ids");
    System.out.println(name + " " + new TreeSet<>(in.keySet()) + " " + new TreeSet<>(out.keySet())
        + " " + Arrays.deepToString((int[][]) in.get("input_ids")) + " " + ids[0].length);
    ids[0][0] = 4;
    ids[0][1] = 5;
    ((int[]) out.get("output_lengths"))[0] = 2;
  }
}
"""
PROGRAM = """
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.example.translate.*;
public class Program {
  public static void main(String[] files) throws Exception {
    byte[] model = Files.readAllBytes(Path.of(files[0]));
    SentencePiece pieces = files.length == 3
        ? new SentencePiece(model)
        : new SentencePiece(
            model,
            Files.readAllLines(Path.of(files[3])),
            Integer.parseInt(files[4]),
            Boolean.parseBoolean(files[5]));
    List<String> lines = Files.readAllLines(Path.of(files[1]));
    StringBuilder found = new StringBuilder();
    for (String line : lines) {
      int[] ids = pieces.encode(line);
      found.append(Arrays.toString(ids)).append("\\n").append(pieces.decode(ids)).append("\\n");
    }
    Files.writeString(Path.of(files[2]), found);
    Translator translator = new Translator(ByteBuffer.allocateDirect(1), pieces, pieces, 40, 8);
    System.out.println(translator.translate("one two three"));
    System.out.println("[" + translator.translate(" ") + "]");
  }
}
"""
TEXTS = [
    "one two three", "Zwölf Boxkämpfer jagen Viktor quer über den großen Deich.", "", "  two  ",
    "ﬁne ½ Ａ", "emoji 😀 and 漢字", "漢字", "a\u2581b",
    "tabs\tand\u00a0spaces", "ABC" * 30, "<0x41> </s>",
]  # fmt: skip

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tensorflow,
    pytest.mark.skipif(shutil.which("javac") is None, reason="javac is not installed"),
]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """A folder with the compiled classes."""
    folder = tmp_path_factory.mktemp("classes")
    (folder / "Interpreter.java").write_text(INTERPRETER)
    (folder / "Program.java").write_text(PROGRAM)
    files = [folder / "Interpreter.java", folder / "Program.java"]
    files += [SOURCES / "SentencePiece.java", SOURCES / "Translator.java"]
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", folder, *files], check=True)
    return folder


def started_java(classes, tokenizer, texts):
    """The ended process of the program, whose call has the vocabulary of imported models."""
    paths = [classes / name for name in ("tokenizer.model", "texts", "found")]
    paths[0].write_bytes(tokenizer.model_bytes)
    paths[1].write_text("".join(f"{text}\n" for text in texts), "utf-8")
    if tokenizer.vocabulary is not None:
        path = classes / "vocabulary"
        path.write_text("".join(f"{piece}\n" for piece in tokenizer.vocabulary.pieces), "utf-8")
        paths += [path, str(tokenizer.special_tokens.unk), str(tokenizer.right_to_left).lower()]
    command = ["java", "-Dfile.encoding=UTF-8", "-cp", classes, "Program", *paths]
    return subprocess.run(command, capture_output=True, text=True)


def run_java(classes, tokenizer, texts):
    """The ids and texts that Java finds, and what it prints."""
    done = started_java(classes, tokenizer, texts)
    assert done.returncode == 0, done.stderr
    lines = (classes / "found").read_text("utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines[::2]], lines[1::2], done.stdout.splitlines()


def lines_of_the_page(texts=()):
    return [line for line in [*texts, *PAGE.text.split("\n")] if line.strip()]


def check(classes, tokenizer, texts):
    rows, decoded, _ = run_java(classes, tokenizer, texts)
    assert rows == tokenizer.encode(texts)
    assert decoded == tokenizer.decode(rows)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_its_ids_are_sentencepieces(classes, model_type, byte_fallback):
    lines = lines_of_the_page(TEXTS if byte_fallback else ())
    size = 500 if byte_fallback else 200
    tokenizer = SentencePieceTokenizer.train(
        lines, vocabulary_size=size, byte_fallback=byte_fallback, model_type=model_type
    )
    check(classes, tokenizer, TEXTS + lines)


@pytest.mark.parametrize("right_to_left", [False, True])
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_its_ids_are_those_of_an_imported_models_list(classes, model_type, right_to_left):
    lines = lines_of_the_page()
    own = SentencePieceTokenizer.train(lines, vocabulary_size=200, model_type=model_type)
    # In another order, without some pieces, and with one that only the other side's model has.
    pieces = [own.pieces([number])[0] for number in range(200)]
    special, others = ["</s>", "<unk>", "<pad>"], sorted(set(pieces) - {"</s>", "<unk>", "<pad>"})
    vocabulary = PieceVocabulary(
        (*special, *others[::-1][:150], "漢字"), eos=0, unk=1, pad=2, right_to_left=right_to_left
    )
    tokenizer = SentencePieceTokenizer(vocabulary.within(own.model_bytes))
    (row,) = tokenizer.encode(["漢字 ~"])
    assert {1, len(vocabulary.pieces) - 1} & {*row}
    check(classes, tokenizer, TEXTS + lines)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"normalization": "nmt_nfkc_cf"}, "another normalization: nmt_nfkc_cf"),
        ({"treat_whitespace_as_suffix": True}, "must have spaces before words"),
        ({"model_type": "char"}, "must be of the type BPE or unigram"),
    ],
)
def test_other_tokenizers_are_refused(classes, options, error):
    options = {"normalization_rule_name": options.pop("normalization", "nmt_nfkc"), **options}
    model = train_model(lines_of_the_page(), vocab_size=80, **options)
    done = started_java(classes, SentencePieceTokenizer(model), TEXTS)
    assert error in done.stderr


def test_it_calls_the_export(classes, trained_run):
    from ai_edge_litert.interpreter import Interpreter

    export = litert_export(trained_run, "float32")
    tokenizer = SentencePieceTokenizer((export / "tokenizer.model").read_bytes())
    _, _, printed = run_java(classes, tokenizer, ["one"])
    name, inputs, outputs, ids, length = re.fullmatch(
        r"(\w+) \[(.*?)\] \[(.*?)\] \[(\[.*\])\] (\d+)", printed[0]
    ).groups()
    assert printed[1:] == [*tokenizer.decode([[4, 5]]), "[]"]
    interpreter = Interpreter(str(export / "model.tflite"))
    signature = interpreter.get_signature_list()[name]
    assert sorted(signature["inputs"]) == inputs.split(", ")
    assert sorted(signature["outputs"]) == outputs.split(", ")
    row = json.loads(ids)
    answer = interpreter.get_signature_runner(name)(
        input_ids=np.array([row], "int32"), input_lengths=np.array([len(row)], "int32")
    )
    assert answer["output_ids"].shape == (1, int(length))  # 40 and 8: the limits of this export
    settings = json.loads((export / "translation.json").read_text("utf-8"))
    assert (settings["limits"]["max_source_length"], settings["limits"]["extra_length"]) == (40, 8)


def test_the_activity_reads_what_the_export_has(trained_run):
    settings = json.loads((litert_export(trained_run, "float32") / "translation.json").read_text())
    code = (SOURCES / "MainActivity.java").read_text("utf-8")
    read = re.findall(r'get\w+\("(\w+)"\)', code)
    side = settings["source"]
    assert side.keys() == settings["target"].keys()
    assert len(read) == 10
    assert set(read) <= {*settings, *settings["limits"], *side, *side["special_tokens"]}


def test_manifest_and_gradle_name_the_same_package():
    manifest = xml.etree.ElementTree.parse(MAIN / "AndroidManifest.xml").getroot()
    (activity,) = manifest.iter("activity")
    name = activity.get("{http://schemas.android.com/apk/res/android}name")
    (namespace,) = re.findall(r'namespace = "(.*)"', (FOLDER / "app/build.gradle.kts").read_text())
    path = pathlib.Path(MAIN, "java", *namespace.split("."), f"{name.removeprefix('.')}.java")
    assert f"package {namespace};" in path.read_text("utf-8")
