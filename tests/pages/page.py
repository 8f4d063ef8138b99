"""A page of the documentation: its code blocks, its commands and its links."""

import doctest
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

    def run_examples(self):
        """Run the blocks with `>>>`, which must print what the page says; returns how many."""
        text = "\n".join(self.blocks("python"))  # a block's last output ends at the empty line
        examples = doctest.DocTestParser().get_doctest(text, {}, self.path.name, str(self.path), 0)
        report = []
        runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
        result = runner.run(examples, out=report.append)
        assert result.failed == 0, "".join(report)
        return result.attempted

    def links(self):
        """Return `(path, anchor)` of its links within the repository; the anchor may be empty."""
        text = re.sub("`[^`\n]+`", "", self._without_blocks())
        links = re.findall(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)", text)
        return [(self.path.parent / path if path else self.path, anchor) for path, anchor in links]

    def anchors(self):
        """Return the anchors of its headings, as GitHub and the site make them."""
        found = []
        for heading in re.findall(r"^#+ (.+)$", self._without_blocks(), re.MULTILINE):
            text = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).strip().lower()
            found.append(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
        return found

    def _without_blocks(self):
        return re.sub(r"^```.*?^```$", "", self.text, flags=re.DOTALL | re.MULTILINE)


def run_code(blocks, name):
    """Run blocks of Python, all with the same names, which it returns; `name` is for errors."""
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    return names
