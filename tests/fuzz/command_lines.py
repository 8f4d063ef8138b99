"""Cases of command lines: every verb's flags, valid, odd and wrong."""

import argparse
import functools
import shutil

from hypothesis import strategies as st

from keras_transformer.toolkit import cli
from tests.fuzz.faults import require, require_good_end, require_json_numbers
from tests.fuzz.verb_calls import call, placed

PATHS = [
    "RUN", "PARSER", "EXPORT", "TEXTS", "TEXTS/one.en", "TEXTS/one.de", "TEXTS/one.en.gz",
    "TEXTS/train.en", "TEXTS/train.de", "TEXTS/gold.mrg", "TEXTS/gold.mrg.gz", "TEXTS/test.mrg",
    "TEXTS/evalb.prm", "TEXTS/settings.json", "TEXTS/settings.toml", "RUN/settings.json",
    "RUN/model.weights.h5", "RUN/tokenizer.model", "RUN/checkpoints", "WORK", "WORK/new",
    "WORK/a/b", "WORK/empty", "WORK/new.gz", "/dev/null", "/dev/full", "/proc/self/mem",
    "", ".", "-", "none", "a" * 300, "missing*.en", "WORK/bad\udcff",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "4", "-1", "0.5", "1e3", "nan", "inf", "-inf", "1e400", "٣", "½",
           "0x4", "1_0", " 4", "4.0", "", "none", "9" * 20, "9" * 5000]  # fmt: skip
WORDS = ["de", "xx", "13a", "none", "intl", "zh", "best", "step-00000080", "../../x", "<BT>",
         "a\nb", "best.weights", "average-last-2", "flores200", "greedy", "\u2028",
         "--run"]  # fmt: skip
# Given last, so they hold: a training of other sizes takes minutes or the machine's memory.
SMALL = ["--steps", "1", "--preset", "tiny", "--hidden-dim", "8", "--num-heads", "2",
         "--intermediate-dim", "8", "--num-layers", "1", "--vocabulary-size", "300",
         "--replicas", "1"]  # fmt: skip
DEMO = [*SMALL[:2], *SMALL[4:], "--warmup-steps", "1", "--vocabulary-size", "60", "--numbers", "60",
        "--held-out", "8", "--validation", "8"]  # fmt: skip


@functools.cache
def verbs():
    """The `argparse` parsers of all verbs, by their words, such as `("export", "litert")`."""
    found, waiting = {}, [((), cli.make_parser())]
    while waiting:
        words, parser = waiting.pop()
        parser.complete()
        inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        for action in inner:
            waiting += [((*words, name), each) for name, each in action.choices.items()]
        if not inner:
            found[words] = parser
    return dict(sorted(found.items()))


# What shows tracebacks on purpose, or opens a browser.
_LEFT_OUT = {"--help", "--verbose", "--open"}


@st.composite
def command_lines(draw):
    """The strategy of these cases."""
    words = draw(st.sampled_from(list(verbs())))
    actions = verbs()[words]._actions
    positional = [each for each in actions if not each.option_strings]
    optional = [each for each in actions if each.option_strings]
    required = [each for each in optional if each.required]
    other = [
        each for each in optional if not each.required and not _LEFT_OUT & {*each.option_strings}
    ]
    few = draw(st.lists(st.sampled_from(other), max_size=4)) if other else []
    if not draw(st.integers(0, 60)):
        few.append(optional[0])  # --help
    arguments = list(words)
    for action in [*positional, *required, *few]:
        if draw(st.integers(0, 30)):  # seldom something is missing
            arguments += draw(_written(action))
    arguments += {("train",): SMALL, ("demo",): DEMO}.get(words, [])
    stdin = draw(st.sampled_from(["", "one two\n", "one\r\n\n\ttwo", "\xff\n", "\ufeffone\n"]))
    return {"arguments": arguments, "stdin": stdin}


@st.composite
def _written(draw, action):
    """The words of an argument on the command line."""
    number = 0 if action.nargs == 0 or isinstance(action, argparse.BooleanOptionalAction) else 1
    if isinstance(action.nargs, int):
        number = action.nargs
    elif action.nargs in ("+", "*"):
        number = draw(st.integers(1, 2))
    values = [draw(_value(action)) for _ in range(number)]
    if not action.option_strings:
        return values
    flag = draw(st.sampled_from(action.option_strings))
    if number == 1 and draw(st.booleans()):
        return [f"{flag}={values[0]}"]
    return [flag, *values]


def _value(action):
    paths, numbers, words = map(st.sampled_from, (PATHS, NUMBERS, WORDS))
    odd = st.one_of(paths, numbers, words, st.text(max_size=5).map(_as_argument))
    if action.choices:
        return st.sampled_from(list(action.choices)) | odd
    if action.dest in ("run", "runs"):
        return st.sampled_from(["RUN", "RUN", "PARSER"]) | paths
    if any(word in str(action.metavar) for word in ("FILE", "DIR", "MODEL")):
        return st.one_of(paths, paths, paths, odd)
    return st.one_of(numbers, words, odd)


def _as_argument(text):
    """The text without what no command line holds."""
    return (
        text.replace("\0", "").encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")
    )


def run_command_line(case, material, directory):
    """Call the case's verb; raises `Fault`."""
    (directory / "empty").touch()
    texts = shutil.copytree(material.texts, directory / "texts")
    places = {"WORK": directory, "TEXTS": texts}
    places |= {name.upper(): directory / name for name in ("run", "parser", "export")}
    words = " ".join(case["arguments"])
    if "RUN" in words:
        shutil.copytree(material.run, directory / "run")
    if "PARSER" in words:
        shutil.copytree(material.parser, directory / "parser")
    if "EXPORT" in words:
        material.stand_in_export(directory / "export")
    outcome = call(
        placed(case["arguments"], places), case["stdin"].encode("utf-8", "surrogatepass")
    )
    require_good_end(outcome)
    prints_json = "--json" in case["arguments"] and case["arguments"][0] != "tune"  # a file there
    if outcome.code == 0 and prints_json and not _is_help(case):
        require_json_numbers(outcome.out)
    require(outcome.code != 0 or outcome.computes is None, "a verb ended twice")
    return outcome


def _is_help(case):
    return any(word in ("-h", "--help") for word in case["arguments"])
