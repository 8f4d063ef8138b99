"""Cases of sentences: any Unicode, through translate, score, align and parse."""

import functools
import math
from unittest import mock

from hypothesis import strategies as st

from keras_transformer.errors import UserInputError
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from tests.fuzz.faults import require, require_good_end
from tests.fuzz.verb_calls import call

TEXTS = st.one_of(
    st.text(st.characters(), max_size=25),
    st.lists(st.sampled_from(["one", "two", "(", ")", "\ud800", "\u2028", "\0", "e\u0301", "🎉",
                              "\x85", "\t", "<s>", "</s>", "<pad>", "<0x0A>", "▁"]),
             max_size=9).map(" ".join),
    st.sampled_from(["", " ", "\n", "\r", "x" * 300, "one " * 80, "\u0300" * 90]),
)  # fmt: skip
WHAT = ["translate", "score", "align", "parse", "translate_nbest", "sample"]
VERBS = ["translate", "parse", "score", "align"]


@st.composite
def sentences(draw):
    """The strategy of these cases."""
    return {
        "what": draw(st.sampled_from(WHAT + VERBS)),
        "through": draw(st.sampled_from(["python", "python", "verb"])),
        "pairs": draw(st.lists(st.tuples(TEXTS, TEXTS), max_size=4)),
        "broken": draw(st.booleans()),
    }


@functools.cache
def _translator(path):
    return Translator.load(path, beam_size=2, extra_length=8, batch_size=4, max_source_length=64)


@functools.cache
def _parser(path):
    return Parser.load(path, beam_size=2, extra_length=20, batch_size=4, max_source_length=64)


def run_sentences(case, material, directory):
    """Give the sentences to a model, as Python or as a verb does; raises `Fault`."""
    if case["through"] == "verb" and case["what"] in VERBS:
        return _through_verb(case, material, directory)
    try:
        _through_python(case, material)
    except UserInputError:
        return "refused"
    return None


def _through_python(case, material):
    sources, targets = ([pair[side] for pair in case["pairs"]] for side in (0, 1))
    if case["what"] == "parse":
        trees = _parser(material.parser).parse(sources)
        _require_number(trees, sources)
        for tree, source in zip(trees, sources, strict=True):
            words = tree.words() if tree else []
            require(set("".join(words)) <= set(source), "a tree has other words")
        return
    method = getattr(_translator(material.run), case["what"])
    if case["what"] in ("score", "align"):
        found = method(sources, targets)
        good = _is_score if case["what"] == "score" else _is_alignment
        require(all(map(good, found)), f"no such result: {found}")
    else:
        found = method(sources) if case["what"] == "translate" else method(sources, 2)
        require(all(_is_translation(each) for each in found), f"no translations: {found}")
    _require_number(found, sources)


def _require_number(found, sources):
    require(len(found) == len(sources), f"{len(found)} results for {len(sources)} sentences")


def _is_score(score):
    return math.isfinite(score) and score <= 1e-3


def _is_alignment(alignment):
    return all("-" in pair for pair in alignment.pharaoh().split())


def _is_translation(found):
    texts = [found] if isinstance(found, str) else [text for text, _ in found]
    return all(isinstance(text, str) and text.encode("utf-8") is not None for text in texts)


def _through_verb(case, material, directory):
    """Through the verb, on a model that is loaded once for all cases."""
    encoding = ("utf-8", "surrogatepass" if case["broken"] else "replace")
    lines = [[_line(text).encode(*encoding) for text in pair] for pair in case["pairs"]]
    sources, targets = ([b"".join(pair[side] + b"\n" for pair in lines)] for side in (0, 1))
    verb, stdin = case["what"], sources[0]
    run = material.parser if verb == "parse" else material.run
    arguments = [verb, run]
    if verb in ("score", "align"):
        for name, content in (("source", sources[0]), ("target", targets[0])):
            (directory / name).write_bytes(content)
            arguments += [f"--{name}", directory / name]
        stdin = b""
    translator, parser = _translator(material.run), _parser(material.parser)
    with (
        mock.patch.object(Translator, "load", return_value=translator),
        mock.patch.object(Parser, "load", return_value=parser),
    ):
        outcome = call(arguments, stdin)
    require_good_end(outcome)
    if outcome.code == 0:
        found, number = (text.count(b"\n") for text in (outcome.out, sources[0]))
        require(found == number, f"{found} lines of output for {number}")
    return outcome


def _line(text):
    return text.replace("\n", " ")
