"""README's code and commands, as a reader without a clone and without a network can run them."""

import itertools
import random
import re
import shlex
from typing import NamedTuple

MINUTES = 0.5  # of a training, instead of those in README
WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "five": "fünf"}
# The first words of a command, and why it is not run.
NOT_RUN = {
    "pip": "this check has installed the package",
    "make": "needs a clone",
    "git": "needs a network",
    "cd": "needs a clone",
    ".": "needs a clone",
    "source": "changes the reader's shell",
    "docker": "needs Docker",
    "keras-transformer app": "runs until it is stopped",
    "keras-transformer serve": "needs TensorFlow's model server",
}


class Command(NamedTuple):
    """A command of README: its text, and why it is not run, or None."""

    text: str
    reason: str | None


def examples_of(page):
    """Each Python block of a `Page`, with the lines of the block after it that has no language."""
    blocks = r"^```python\n(.*?)^```$(?:\n\n```\n(.*?)^```$)?"
    found = re.findall(blocks, page.text, re.DOTALL | re.MULTILINE)
    return [(code, output.splitlines()) for code, output in found]


def commands_of(page):
    """The commands in the `sh` blocks of a `Page`, in order, without comments."""
    found = []
    for line in "\n".join(page.blocks("sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            text = re.sub(r"\s+#.*$", "", " ".join(line.split()))
            found.append(Command(text, _reason(words)))
    return found


def _reason(words):
    if any(word.startswith(("hf://", "http://", "https://")) for word in words):
        return "needs a network"
    starts = (" ".join(words[:length]) for length in (2, 1))
    return next((NOT_RUN[start] for start in starts if start in NOT_RUN), None)


def shortened(text):
    """A command whose training takes `MINUTES`."""
    return re.sub(r"(--minutes[ =])[\d.]+", rf"\g<1>{MINUTES}", text)


def paths_in(text):
    """The words of a command that are paths with a folder, such as `runs/en_de`."""
    words = shlex.split(text)
    return [word for word in words if "/" in word and not word.startswith(("-", "/"))]


def texts_of(commands):
    """The names of the texts that the commands read and that no earlier command writes."""
    names = []
    for command in commands:
        words = shlex.split(command.text)
        written = {
            after for before, after in itertools.pairwise(words) if before in (">", "--output")
        }
        read = [word for word in words if re.fullmatch(r"[\w-]+\.(en|de|txt)", word)]
        names += [name for name in read if name not in written and name not in names]
    return names


def write_texts(folder, names):
    """Write texts in which the same line of English and German names the same numbers."""
    for name in names:
        pairs = _pairs(4000 if name.startswith("train") else 50)
        side = 1 if name.endswith(".de") else 0
        (folder / name).write_text("".join(f"{pair[side]}\n" for pair in pairs), "utf-8")


def _pairs(number):
    draw = random.Random(1)
    for _ in range(number):
        words = draw.choices(sorted(WORDS), k=draw.randint(2, 7))
        yield " ".join(words), " ".join(WORDS[word] for word in words)
