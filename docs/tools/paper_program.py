"""Prints the NumPy program in docs/the_paper.md: `python -m docs.tools.paper_program > toy.py`.

The page shows the program in parts, each followed by its output. With `--update`, the script runs
the parts and the answers to the exercises, and writes the outputs to the page.
"""

import contextlib
import io
import pathlib
import re
import sys
from typing import Any, NamedTuple

DOCS = pathlib.Path(__file__).parents[1]
PAGE = DOCS / "the_paper.md"
BLOCK = re.compile(
    r"^```python\n(# (?:Part|Answer) \d+.*?)^```\n(?:\n```text\n(.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block of the page's program or of an answer to an exercise."""

    code: str
    output: str  # the output shown on the page

    @property
    def is_part(self) -> bool:
        """Whether the block is part of the program."""
        return self.code.startswith("# Part ")


def blocks() -> list[Block]:
    """Return the parts of the program and the answers, in page order."""
    return [Block(code, output) for code, output in BLOCK.findall(PAGE.read_text("utf-8"))]


def program() -> str:
    """Return the complete program."""
    return "\n\n".join(block.code for block in blocks() if block.is_part)


def run(code: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Run blocks in order in a shared namespace. Return the namespace and the outputs."""
    names: dict[str, Any] = {"__name__": "toy"}
    outputs = []
    with contextlib.chdir(DOCS / "assets"):  # the weights are loaded from this folder
        for block in code:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, str(PAGE), "exec"), names)
            outputs.append(printed.getvalue())
    return names, outputs


def updated(text: str) -> str:
    """Return the text of the page with updated program outputs."""
    _, outputs = run([code for code, _ in BLOCK.findall(text)])
    remaining = iter(outputs)

    def with_output(found: re.Match) -> str:
        output = next(remaining)
        shown = f"\n```text\n{output}```\n" if output else ""
        return f"```python\n{found[1]}```\n{shown}"

    return BLOCK.sub(with_output, text)


def main() -> None:
    """Print the program or update the page."""
    if "--update" in sys.argv[1:]:
        PAGE.write_text(updated(PAGE.read_text("utf-8")), "utf-8")
    else:
        print(program(), end="")


if __name__ == "__main__":
    main()
