"""The `keras-transformer` command.

Verbs are imported only when their parsers are built, because the training code imports `program`
from this package.
"""

import argparse
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, cast

from keras_transformer.installation import __version__
from keras_transformer.settings import CHOICES
from keras_transformer.toolkit.cli.program import CommandParser, run_command
from keras_transformer.toolkit.cli.text_streams import ResumableOutput

__all__ = ["CommandParser", "ResumableOutput", "main", "make_parser", "run_command"]

# The verbs listed by `--help`. Each verb has a module, `verbs/NAME_command.py`.
GROUPS = {
    "Train": ("demo", "train", "tune", "average"),
    "Use": ("translate", "app", "evaluate", "score", "align", "parse", "evalb"),
    "Ship": ("export", "serve", "import"),
    "Inspect": ("models", "plot", "attention", "cost", "check"),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
SHELLS = ("bash", "zsh", "tcsh")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `keras-transformer` and return the exit code."""
    return run_command(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int | None:
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    values = make_parser().parse_args(arguments)
    values.arguments = arguments  # for command records
    return values.verb(values)


def make_parser() -> CommandParser:
    """Return the command-line parser. In the parsed values, `verb` is the verb's function."""
    parser = CommandParser(
        prog="keras-transformer",
        description="Train, use and export translation models and parsers.",
        usage="%(prog)s [-h] [-V] VERB ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"%(prog)s {__version__}"
    parser.add_argument("-V", "--version", action="version", version=version)
    parser.add_argument(
        "--completion",
        action=_Completion,
        choices=SHELLS,
        help="print the completion script for a shell and exit",
    )
    verbs = parser.add_subparsers(
        prog=parser.prog, required=True, metavar="VERB", help=argparse.SUPPRESS
    )
    helps = {verb: _add_verb(verbs, verb) for verb in VERBS}
    width = max(map(len, VERBS))
    groups = [
        "\n".join([f"{title}:", *(f"  {verb:{width}}  {helps[verb]}" for verb in names)])
        for title, names in GROUPS.items()
    ]
    end = "Run keras-transformer VERB --help to see the flags of a verb."
    parser.epilog = "\n\n".join([*groups, end])
    return parser


def _add_verb(verbs: Any, verb: str) -> str:
    """Add a verb to the command line and return its help text."""
    module = importlib.import_module(f"keras_transformer.toolkit.cli.verbs.{verb}_command")
    help_text: str = module.HELP
    parser = verbs.add_parser(
        verb,
        help=help_text,
        description=module.DESCRIPTION,
        usage=getattr(module, "USAGE", None),
        prepare=module.add_arguments,
        essential=getattr(module, "add_essential", None),
    )
    parser.set_defaults(verb=getattr(module, "import_" if verb == "import" else verb))
    return help_text


# Metavars that identify file arguments. Arguments with choices are completed from the choices.
_FILES = ("FILE", "FILE|RUN", "GOLD", "MODEL", "SOURCE", "TEST")
_DIRECTORIES = ("DIR", "DIRECTORY", "RUN")
# In bash, shtab does not complete flags after a flag that accepts multiple files.
_FILES_OR_FLAGS = """
_shtab_files_or_flags() {
  case $completing_word in
    -*) compgen -W "${current_option_strings[*]}" -- "$completing_word" ;;
    *) compgen -f -- "$1" ;;
  esac
}
"""


class _Completion(argparse.Action):
    """Prints a shell script that completes verbs, flags, choices, files and directories."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> NoReturn:
        import shtab

        preamble = {"bash": _FILES_OR_FLAGS}
        several = {**shtab.FILE, "bash": "_shtab_files_or_flags", "preamble": preamble}
        for action in _all_actions(cast(CommandParser, parser)):
            shown = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
            if shown in _FILES:
                is_several = action.option_strings and action.nargs == argparse.ONE_OR_MORE
                vars(action)["complete"] = several if is_several else shtab.FILE
            elif shown in _DIRECTORIES:
                vars(action)["complete"] = shtab.DIRECTORY
            elif not action.choices:
                action.choices = vars(action).get(CHOICES)
        print(shtab.complete(parser, values))
        parser.exit()


def _all_actions(parser: CommandParser) -> Iterator[argparse.Action]:
    """Yield the actions of a parser and its verbs, including all flags."""
    parser.complete()
    for action in parser._actions:
        yield action
        if action.nargs == argparse.PARSER:
            action.help = str(action.metavar)  # suppressed actions are not completed
            for verb in cast(dict[str, CommandParser], action.choices).values():
                yield from _all_actions(verb)
