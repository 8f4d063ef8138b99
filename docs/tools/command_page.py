"""MkDocs hook: lists the flags of all verbs, taken from the command-line parsers.

On GitHub, `docs/command_line.md` only shows blocks with `keras-transformer VERB --help`. On the
site, the hook replaces them with the verb's description and flags, without importing Keras.
"""

import argparse
import functools
import html
import re
from collections.abc import Iterator

from keras_transformer.toolkit.cli import make_parser
from keras_transformer.toolkit.cli.program import CommandParser

PAGE = "command_line.md"
PROGRAM = "keras-transformer"
BLOCK = re.compile(rf"^```text\n{PROGRAM} ([\w -]+?) --help(?:-all)?\n```$", re.MULTILINE)
COMMON = {"--help", "--help-all", "--quiet", "--verbose"}  # explained once on the page
CODE = re.compile(r"`([^`]+)`")
DEFAULT = re.compile(r"\(default: (?:[^()]|\([^()]*\))+\)|^default: [^;]+")


@functools.cache
def parsers() -> dict[str, CommandParser]:
    """Return the complete parser of each verb and type of export by its words."""
    return dict(_parsers_below(make_parser()))


def _parsers_below(parser: CommandParser) -> Iterator[tuple[str, CommandParser]]:
    parser.complete()
    for action in parser._actions:
        if action.nargs == argparse.PARSER:
            for name, one in action.choices.items():
                yield name, one
                yield from ((f"{name} {below}", inner) for below, inner in _parsers_below(one))


def flags_of(words: str) -> str:
    """Return a verb's description, usage and flags as Markdown with embedded HTML."""
    parser = parsers()[words]
    parts = [_text(parser.description), f"```sh\n{usage_of(parser)}\n```"]
    for group in parser._action_groups:
        actions = [
            action
            for action in group._group_actions
            if not COMMON & {*action.option_strings} and action.nargs != argparse.PARSER
        ]
        if actions:
            title = str(group.title).replace("options", "flags")
            parts.append(f"**{title[0].upper()}{title[1:]}**")
            rows = "\n".join(_row(words, action) for action in actions)
            parts.append(f'<dl class="flags">\n{rows}\n</dl>')
    return "\n\n".join(parts)


def usage_of(parser: CommandParser) -> str:
    """Return the usage of a command. Optional flags are abbreviated to `[FLAG ...]`."""
    if parser.usage:
        return parser.usage % {"prog": parser.prog}
    needed = [action for action in parser._actions if action.required and action.option_strings]
    words = [f"{action.option_strings[0]} {_value(action)}" for action in needed]
    words.append("[FLAG ...]")
    for action in parser._actions:
        if not action.option_strings:
            words.append(_value(action))
    return " ".join([parser.prog, *words])


def _row(words: str, action: argparse.Action) -> str:
    """Return the HTML for a flag or an argument, with its anchor, value and help."""
    value = html.escape(_value(action))
    names = [html.escape(name) for name in action.option_strings]
    shown = ", ".join(f"<code>{name}</code>" for name in names or [value])
    if names and value:
        shown += f" <code>{value}</code>"
    text = str(action.help) % {**vars(action), "prog": PROGRAM}
    text = DEFAULT.sub(r'<span class="default">\g<0></span>', _text(text))
    anchor = re.sub(r"[^\w-]+", "-", f"{words} {(names or [action.dest])[0].strip('-')}").lower()
    return f'<dt id="{anchor}">{shown}</dt>\n<dd>{text}</dd>'


def _value(action: argparse.Action) -> str:
    """Return a flag's value as shown in the usage, or an empty string if it has none."""
    if action.nargs == 0:
        return ""
    names = action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()
    if isinstance(names, tuple):
        return " ".join(names)
    many = {
        argparse.ONE_OR_MORE: f"{names} [{names} ...]",
        argparse.ZERO_OR_MORE: f"[{names} ...]",
        argparse.OPTIONAL: f"[{names}]",
    }
    return many.get(action.nargs, names)


def _text(text: str | None) -> str:
    """Return a help text as HTML, with text in backticks as code."""
    return CODE.sub(r"<code>\1</code>", html.escape(" ".join(str(text or "").split()), quote=False))


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri != PAGE:
        return markdown
    return BLOCK.sub(lambda found: flags_of(found[1]), markdown)
