"""A page of the documentation: its code blocks, its commands and its links."""

import itertools
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).parents[2]


class Page:
    """A Markdown file.

    Args:
        name: its path in the repository, such as `docs/serving.md`.
    """

    def __init__(self, name):
        self.path = ROOT / name
        self.text = self.path.read_text("utf-8")

    def blocks(self, language=""):
        """Return the code blocks in a language, or those without one."""
        fenced = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)
        return [code for name, code in fenced if name == language]

    def commands(self, start="keras-transformer"):
        """Return the words after `start` of each command that begins with it, without `< FILE`."""
        start, found = shlex.split(start), []
        for line in "".join(self.blocks("sh")).replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            for piped, command in itertools.groupby(words, lambda word: word == "|"):
                words = list(itertools.takewhile(lambda word: word not in ("<", ">"), command))
                if not piped and words[: len(start)] == start:
                    found.append(words[len(start) :])
        return found

    def run_code(self):
        """Run the Python blocks from top to bottom; returns the names that they give."""
        return run_code(self.blocks("python"), str(self.path))

    def links(self):
        """Return the paths of the files it links to."""
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", self.text)
        return [self.path.parent / link for link in links]


def run_code(blocks, name):
    """Run blocks of Python, all with the same names, which it returns; `name` is for errors."""
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names
