"""Cases of damaged and odd files and texts, given to what reads them."""

import gzip
import json
import shutil
import struct

from hypothesis import strategies as st

from keras_transformer.data.parallel_corpus import ParallelCorpus
from keras_transformer.data.parallel_text import read_parallel_text
from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum
from keras_transformer.formats.marian.binary_file import unpacked_bergamot
from keras_transformer.formats.marian.configurations import read_yaml
from keras_transformer.formats.marian.vocabulary import CODES, read_bpe, read_vocabulary
from keras_transformer.input_files import DAMAGED, open_archive, read_archive_record, read_array
from keras_transformer.parsing import Tree, clean, linearize, read_trees, rebuild, repair
from keras_transformer.parsing.evalb_scores import EvalbParameters
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.checksums import check_files, write_checksums
from keras_transformer.runs.tensor_files import open_tensors
from keras_transformer.runs.weight_files import open_weights
from keras_transformer.serving import LiteRTTranslator
from keras_transformer.settings import read_settings_file
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.training.checkpoints.checkpoints import average_checkpoints
from keras_transformer.translation_training import TranslationSettings
from tests.fuzz.damage import BYTES, SHARES, VALUES, damage, damages
from tests.fuzz.faults import require, require_good_end, require_json_numbers
from tests.fuzz.verb_calls import call
from tests.text.shortlist_binary import binary
from tests.text.shortlist_binary import checksum as word_checksum

ANY_TEXT = st.text(st.characters(), max_size=12)
LABELS = st.sampled_from(["S", "NP", "TOP", "-NONE-", "", "NP-SBJ-1", "``", ".", "A|B", "X\u00a0"])
WORDS = st.sampled_from(["a", "-LRB-", "``", "''", ".", "*T*-1", "1\\/2", "ß", "\u2028"])
WHOLE_TREES = st.recursive(
    st.tuples(LABELS, WORDS).map(" ".join).map("({})".format),
    lambda inner: (
        st.tuples(LABELS, st.lists(inner, max_size=3).map(" ".join))
        .map(" ".join)
        .map("({})".format)
    ),
    max_leaves=12,
)
# Pieces of text and how often each comes: what is long stays short in a case's record.
TIMES = st.sampled_from([1, 1, 1, 1, 1, 2, 3, 40, 3000])
PIECES = st.sampled_from(
    ["(", ")", " ", "(S ", "(NP (DT the) (NN dog))", "(S", "XX", "(XX x)", "-NONE-", "\n", "(A-1=2",
     "\u00a0", "``", "''", "(TOP ", "( ", "()", "\t", "\r", "\0", "\u2028", "\ud800"]
) | ANY_TEXT  # fmt: skip
TREES = st.one_of(
    st.lists(st.tuples(WHOLE_TREES, st.just(1)), min_size=1, max_size=2),
    st.lists(st.tuples(WHOLE_TREES | PIECES, TIMES), max_size=12),
    st.lists(st.tuples(PIECES, TIMES), max_size=12),
)
LINES = st.lists(st.tuples(st.sampled_from(["\n", "a\n", "\r\n", "\ufeff"]) | ANY_TEXT, TIMES),
                 max_size=8)  # fmt: skip
TOKENS = ["(S", ")S", "(NP", ")NP", "(VP", ")VP", "XX", "", "(", ")", "x", ")", "(S)", " "]
RULES = ["DEBUG 2\n", "DELETE_LABEL TOP\n", "EQ_LABEL A B\n", "EQ_WORD a\n", "CUTOFF_LEN -1\n",
         "MAX_ERROR 99999999999\n", "LABELED 0\n", "# x\n", "QUOTE_LABEL ''\n",
         "DEBUG\n"]  # fmt: skip
ENTRIES = ["▁a ▁b 0.5\n", "a b nan\n", "a b 1e400\n", "a b -0\n", "NULL a 1\n", "a  1\n", " "]
YAML = ["a: b\n", "%TAG ! !\n", "\r%TAG ! !\n", "\x85%TAG ! !\n", "\u2028---\n", "- ", "[", "{",
        "&a ", "*a\n", "? ", "!!x ", "'", "|\n", "%YAML 1.1\n", "\n...\n"]  # fmt: skip
SETTINGS = ["steps", "preset", "vocabulary_size", "x", "deterministic", "hidden_dim"]
CODED = st.sampled_from(["plain", "plain", "gzip", "broken gzip", "bomb"])


def joined(pieces):
    """The text of a list of pieces and numbers."""
    return "".join(piece * times for piece, times in pieces)


def _write(path, text, coded):
    """Write a text, compressed or not; returns its path."""
    content = text.encode("utf-8", "surrogatepass")
    if coded == "plain":
        path.write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.gz")
    packed = gzip.compress(content + b"\0" * 20_000_000 if coded == "bomb" else content, 1)
    path.write_bytes(packed[:-3] if coded == "broken gzip" else packed)
    return path


def _tree(case, *_):
    try:
        tree = Tree.fromstring(joined(case["text"]))
    except ValueError:
        return
    require(Tree.fromstring(str(tree)) == tree, "a tree is another one when it is read again")
    tree.pretty()
    cleaned = clean(tree)
    if cleaned is not None:
        words, tags = cleaned.words(), cleaned.tags()
        require(rebuild(linearize(cleaned), words, tags) == cleaned, "linearized, rebuilt: another")


def _trees(case, _, directory):
    path = _write(directory / "trees.mrg", joined(case["text"]), case["coded"])
    for tree in read_trees(path, clean=case["clean"]):
        str(tree)


def _repair(case, *_):
    tree, _ = repair(case["tokens"] * case["times"], case["words"])
    require(tree.words() == case["words"], "a repaired tree has other words")


def _evalb(case, _, directory):
    gold = _write(directory / "gold.mrg", joined(case["gold"]), case["coded"])
    test = _write(directory / "test.mrg", joined(case["test"]), "plain")
    rules = _write(directory / "rules.prm", joined(case["rules"]), "plain")
    outcome = call(["evalb", gold, test, *case["flags"], "--params", rules])
    require_good_end(outcome)
    if outcome.code == 0 and "--json" in case["flags"]:
        require_json_numbers(outcome.out)


def _parameters(case, _, directory):
    EvalbParameters.read(_write(directory / "rules.prm", joined(case["text"]), case["coded"]))


def _texts(case, _, directory):
    paths = [
        _write(directory / f"{side}.txt", joined(case[side]), case["coded"])
        for side in ("one", "other")
    ]
    one, other = read_parallel_text(*paths)
    require(len(one) == len(other), "parallel text with other numbers of lines")


def _settings(case, _, directory):
    path = directory / f"settings.{case['form']}"
    if case["form"] == "json":
        path.write_text(json.dumps(case["values"]), encoding="utf-8")
    else:
        path.write_bytes(joined(case["text"]).encode("utf-8", "surrogatepass"))
    TranslationSettings.from_dict(read_settings_file(path))


def _tokenizer(case, material, directory):
    path = shutil.copy(material.directory / case["of"], directory / "tokenizer.model")
    damage(directory / "tokenizer.model", case["damage"])
    tokenizer = (TreeTokenizer if case["trees"] else SentencePieceTokenizer).load(path)
    ids = tokenizer.encode([case["sentence"]])
    if not case["trees"]:
        ids += tokenizer.sample([case["sentence"]], alpha=0.3, seed=1)
    require(all(0 <= i < tokenizer.vocabulary_size for row in ids for i in row), "an id outside")
    tokenizer.decode(ids)
    tokenizer.pieces(range(tokenizer.vocabulary_size))
    require(tokenizer.word_starts is not None, "no word starts")


def _shortlist(case, material, directory):
    tokenizer = SentencePieceTokenizer.load(material.student / "tokenizer.model")
    path = directory / "lex.bin"
    shutil.copy(material.student / "shortlist.npz", path)
    if case["binary"]:
        path.write_bytes(binary([[], [], [], [], [9, 12], [7], [], [5, 9, 11]]))
    for how in case["damages"]:
        damage(path, how)
    if case["binary"] and case["adjusted"]:
        content = path.read_bytes()
        path.write_bytes(
            content[:8] + struct.pack("<Q", word_checksum(content[16:])) + content[16:]
        )
    Shortlist.load(path, tokenizer).candidates([[4, 7, 2]])


def _yaml(case, _, directory):
    path = directory / "decoder.yml"
    path.write_bytes(joined(case["text"]).encode(case["encoding"], "surrogatepass"))
    found = read_yaml(path)
    require(all(isinstance(name, str) for name in found), "a name of YAML that is no text")


def _tensors(case, material, directory):
    origin = material.directory / case["of"]
    path = shutil.copy(origin, directory / origin.name)
    for how in case["damages"]:
        damage(path, how)
    with open_tensors(path) as tensors:
        for name in tensors.names:
            require(tensors.read(name).shape == tensors.shape(name), "a tensor of another shape")


def _vocabulary(case, material, directory):
    origin = material.directory / case["of"]
    path = shutil.copy(origin, directory / origin.name)
    damage(path, case["damage"])
    if path.suffix == CODES:
        read_bpe(path, {"a": 0, "b@@": 1})
    else:
        read_vocabulary(path)


def _packed(case, material, directory):
    content = (material.directory / case["of"]).read_bytes()
    for name in case["names"]:
        (directory / name).write_bytes(gzip.compress(content, 1))
        damage(directory / name, case["damage"])
    with unpacked_bergamot(directory) as folder:
        require(folder.is_dir(), "no folder of unpacked files")


def _lexicon(case, material, directory):
    tokenizer = SentencePieceTokenizer.load(material.student / "tokenizer.model")
    path = _write(directory / "lex.s2t", joined(case["text"]), case["coded"])
    Shortlist.load(path, tokenizer).candidates([[4, 7, 2]])


def _weights(case, material, directory):
    folder = directory / "run" / "checkpoints"
    folder.mkdir(parents=True)
    path = folder / "step-00000400.weights.h5"
    shutil.copy(material.parser / "model.weights.h5", path)
    for how in case["damages"]:
        try:
            damage(path, how)
        except (OSError, ValueError, KeyError, IndexError, TypeError, RuntimeError):
            return  # what an earlier damage left cannot be damaged so
    with open_weights(path) as datasets:
        for dataset in datasets.values():
            dataset[()]
    average_checkpoints([path, path], directory / "average.weights.h5")


def _state(case, material, directory):
    path = directory / "step-00000400.state.npz"
    shutil.copy(material.run / "checkpoints" / path.name, path)
    damage(path, case["damage"])
    try:
        with open_archive(path) as archive:
            record = read_archive_record(archive, path)
            for name, shape, _ in record["variables"][:: max(1, len(record["variables"]) // 5)]:
                read_array(archive, name, shape, 4)
    except DAMAGED:
        return


def _checksums(case, material, directory):
    material.stand_in_export(directory / "export")
    path = directory / "export" / "1" / "SHA256SUMS"
    lines = "".join(f"{'0' * 64}  {name}\n" for name in case["names"])
    text = path.read_text() + lines if case["added"] else joined(case["text"])
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    outcome = call(["check", directory / "export"])
    require_good_end(outcome)
    require(not (case["added"] and case["names"]) or outcome.code == 2, "wrong checksums are right")
    check_files(directory / "export" / "1")


def _corpus(case, material, directory):
    path = shutil.copytree(material.corpus, directory / "corpus")
    names = sorted(each.name for each in path.iterdir())
    name = names[int(case["file"] * len(names))]
    damage(path / name, case["json" if name.endswith(".json") else "bytes"])
    if case["adjusted"] and name != "corpus.json" and (path / name).is_file():
        record = json.loads((path / "corpus.json").read_text())
        record["checksums"][name] = checksum(path / name)
        (path / "corpus.json").write_text(json.dumps(record))
    corpus = ParallelCorpus.open(path)
    for index in range(len(corpus)):
        ids = [*corpus.source(index), *corpus.target(index)]
        most = corpus.metadata["vocabulary_size"]
        require(all(0 <= number < most for number in ids), "an id of no token")


def _litert(case, material, directory):
    exported = material.directory / "litert"
    if not exported.is_dir():  # its export takes half a minute
        return
    path = shutil.copytree(exported, directory / "litert")
    damage(path / case["name"], case["damage"])
    # Not of the model: LiteRT's own reader is not made for strangers' bytes.
    if case["adjusted"] and case["name"] != "model.tflite" and (path / case["name"]).is_file():
        write_checksums(path)
    translator = LiteRTTranslator(path, num_threads=1)
    (found,) = translator.translate([case["sentence"]])
    require(isinstance(found, str), f"no translation: {found!r}")


def _case(**fields):
    return st.fixed_dictionaries(fields)


READERS = {
    "tree": (_tree, _case(text=TREES)),
    "trees": (_trees, _case(text=TREES, coded=CODED, clean=st.booleans())),
    "repair": (_repair, _case(
        tokens=st.lists(st.sampled_from(TOKENS), max_size=12),
        times=st.sampled_from([1, 1, 1, 2, 50]),
        words=st.lists(st.sampled_from(["a", "(", "-LRB-", "\u2028", "ß"]), min_size=1, max_size=6),
    )),
    "evalb": (_evalb, _case(
        gold=TREES, test=TREES, coded=CODED,
        rules=st.lists(st.tuples(st.sampled_from(RULES), TIMES), min_size=1, max_size=4),
        flags=st.sampled_from([[], ["--json"]]),
    )),
    "parameters": (_parameters, _case(text=st.lists(st.tuples(st.sampled_from(RULES) | ANY_TEXT,
                                                              TIMES), max_size=6), coded=CODED)),
    "texts": (_texts, _case(one=LINES, other=LINES, coded=CODED)),
    "settings": (_settings, _case(
        form=st.sampled_from(["json", "toml"]),
        values=st.dictionaries(st.sampled_from(SETTINGS) | ANY_TEXT, VALUES, max_size=4) | VALUES,
        text=st.lists(st.tuples(st.sampled_from(["steps = 3\n", "[", "a = ", "{", "x.y = 1\n",
                                                 '"""', "1e999", "\n"]) | ANY_TEXT, TIMES),
                      max_size=6),
    )),
    "tokenizer": (_tokenizer, _case(
        of=st.sampled_from(["parser/tokenizer.model", "parser/source_tokenizer.model",
                            "translator/tokenizer.model"]),
        damage=BYTES, trees=st.booleans(), sentence=ANY_TEXT,
    )),
    "shortlist": (_shortlist, _case(
        binary=st.booleans(), damages=st.lists(BYTES, min_size=1, max_size=4),
        adjusted=st.booleans(),
    )),
    "lexicon": (_lexicon, _case(
        text=st.lists(st.tuples(st.sampled_from(ENTRIES) | ANY_TEXT, TIMES), max_size=6),
        coded=CODED,
    )),
    "yaml": (_yaml, _case(
        text=st.lists(st.tuples(st.sampled_from(YAML) | ANY_TEXT, TIMES), max_size=8),
        encoding=st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    )),
    "tensors": (_tensors, _case(
        of=st.sampled_from(["hugging_face/model.safetensors", "codes/model.npz"]),
        damages=st.lists(damages("x.npz"), min_size=1, max_size=1) | st.lists(BYTES, max_size=3),
    )),
    "vocabulary": (_vocabulary, _case(
        of=st.sampled_from(["hugging_face/source.spm", "codes/source.bpe", "codes/vocab.yml"]),
        damage=damages("x.spm"),
    )),
    "packed": (_packed, _case(
        of=st.sampled_from(["hugging_face/source.spm", "codes/model.npz"]),
        names=st.lists(st.sampled_from(["model.a.bin.gz", "model.b.bin.gz", "vocab.a.spm.gz",
                                        "lex.a.bin.zst", "config.yml.gz", "x.gz"]),
                       min_size=1, max_size=3, unique=True),
        damage=BYTES,
    )),
    "weights": (_weights, _case(damages=st.lists(damages("x.h5"), min_size=1, max_size=2))),
    "state": (_state, _case(damage=damages("x.npz"))),
    "corpus": (_corpus, _case(
        file=SHARES, json=damages("corpus.json"), bytes=damages("x.bin"), adjusted=st.booleans(),
    )),
    "litert": (_litert, st.sampled_from(["translation.json", "tokenizer.model", "model.tflite"])
               .flatmap(lambda name: _case(name=st.just(name), damage=damages(name),
                                           adjusted=st.booleans(), sentence=ANY_TEXT))),
    "checksums": (_checksums, _case(
        added=st.booleans(), text=LINES,
        names=st.lists(st.sampled_from(["../x", "/etc/passwd", "x", "", ".", "saved_model.pb",
                                        "variables", "a" * 300, "\u2028"]), max_size=2),
    )),
}  # fmt: skip


@st.composite
def hostile_files(draw):
    """The strategy of these cases."""
    reader = draw(st.sampled_from(list(READERS)))
    return {"reader": reader, **draw(READERS[reader][1])}


def run_hostile_file(case, material, directory):
    """Read what the case holds; errors of the user pass, others are raised."""
    try:
        READERS[case["reader"]][0](case, material, directory)
    except UserInputError:
        return "refused"
    return None
