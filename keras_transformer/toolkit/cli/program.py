"""Base code of all command-line programs: flags, exit codes and one-line errors on stderr."""

import argparse
import dataclasses
import os
import signal
import sys
import traceback
import webbrowser
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from keras_transformer.argument_checks import int_from_zero, positive_int
from keras_transformer.errors import USER_ERROR, UserInputError, is_out_of_memory, similar_name
from keras_transformer.files import (
    be_quiet,
    full_output,
    output_fault,
    print_any_path,
    replace_missing_streams,
    tell,
)
from keras_transformer.installation import LOG_LEVEL, check_backend_exists, conflict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance, SupportsWrite

INTERRUPTED = 128 + signal.SIGINT  # 130, as reported by shells
_MOST_CHARACTERS = 2000  # limit for errors, because a library's message may contain a file

_is_verbose = False

Options = TypeVar("Options", bound="DataclassInstance")


class CommandParser(argparse.ArgumentParser):
    """An `argparse` parser with one-line errors that suggest likely corrections.

    Flags may be written with `_` instead of `-`, like setting names: `--batch_tokens`. They cannot
    be abbreviated. All parsers support `--quiet` and `--verbose`.

    Args:
        prepare: function that adds flags to the parser when they are first needed, so that other
            verbs do not incur the cost of its imports.
        essential: function that adds the flags shown by `--help`; `--help-all` then shows all
            flags. None means that `--help` shows all flags.
        **kwargs: arguments of `argparse.ArgumentParser`.
    """

    def __init__(
        self,
        *,
        prepare: Callable[["CommandParser"], None] | None = None,
        essential: Callable[["CommandParser"], None] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self._prepare = prepare
        self._essential = essential
        self._verbs: Any = None  # action returned by `add_subparsers`
        add = self.add_argument
        if essential is not None:
            add("--help-all", action="help", help="show every flag and exit")
        add(
            "--quiet", action=_Quiet, help="show only results and errors, without progress or notes"
        )
        add(
            "--verbose", action=_Verbose, help="show the backend's log and the tracebacks of errors"
        )

    def complete(self) -> None:
        """Add the flags of `prepare` if they have not been added yet."""
        if self._prepare is not None:
            prepare, self._prepare = self._prepare, None
            prepare(self)

    def add_subparsers(self, **kwargs: Any) -> Any:
        self._verbs = super().add_subparsers(**kwargs)
        return self._verbs

    def parse_known_args(  # type: ignore[override]  # argparse's overloads
        self, args: Iterable[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        args = sys.argv[1:] if args is None else [*args]
        end = args.index("--") if "--" in args else len(args)  # no flags can follow it
        args = [*map(_dashed, args[:end]), *args[end:]]
        if self._essential is not None and {"-h", "--help"} & {*args[:end]}:
            self._show_essential_help(self._essential)
        self.complete()
        self._check_words(args[:end])
        values, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported by the verb's own parser, not by the main parser
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return values, unknown

    def _show_essential_help(self, essential: Callable[["CommandParser"], None]) -> NoReturn:
        page = CommandParser(
            prog=self.prog,
            usage=self.usage,
            description=self.description,
            epilog=f"Run {self.prog} --help-all to see all flags.",
        )
        essential(page)
        page.print_help()
        self.exit()

    def _check_words(self, args: Sequence[str]) -> None:
        """Refuse unknown flags and verbs before any other error is reported."""
        flags, waiting = self._option_string_actions, iter(args)
        for argument in waiting:
            flag, equals, _ = argument.partition("=")
            if self._verbs is not None and not flag.startswith("-"):
                verbs = [*(self._verbs.choices or ())]
                if flag not in verbs:
                    kind = str(self._verbs.metavar).lower()
                    self.error(f"unknown {kind} {flag}{_meant(flag, verbs)}")
                return  # the rest is parsed by the verb's own parser
            if flag in flags:
                if self._verbs is not None and flags[flag].nargs is None and not equals:
                    next(waiting, None)  # the flag's value, not a verb
            elif flag.startswith("--"):
                self.error(f"unrecognized arguments: {flag}{_meant(flag, flags)}")

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        # The original method of `argparse` ignores a full disk.
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            tell(message.removesuffix("\n"))

    def error(self, message: str) -> NoReturn:
        self.exit(USER_ERROR, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


class _Loudness(argparse.Action):
    """A flag without a value that takes effect as soon as it is parsed."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)


class _Quiet(_Loudness):
    def __call__(self, *_: object) -> None:
        be_quiet(True)


class _Verbose(_Loudness):
    def __call__(self, *_: object) -> None:
        global _is_verbose
        _is_verbose = True
        os.environ[LOG_LEVEL] = "0"


def _meant(word: str, words: Collection[str]) -> str:
    """Return a question that suggests a similar flag or verb, or an empty string."""
    if word == "--target" and "--reference" in words:  # as `train` calls the same file
        return ". Did you mean --reference?"
    meant = similar_name(word, words)
    return f". Did you mean {meant}?" if meant else ""


def flag(help: str, default: Any = None, /, **how: Any) -> Any:
    """Define a dataclass field with a command-line flag; see `add_flags`.

    Args:
        help: help text of the flag.
        default: default value of the field; False creates a switch.
        **how: additional arguments of `add_argument`, such as a different default for the flag.
            Integers are shown as N in the help text.
    """
    if default is False:
        how = {"action": "store_true", **how}
    elif how.get("type") in (positive_int, int_from_zero):
        how = {"metavar": "N", **how}
    return dataclasses.field(
        default=default, metadata={"flag": {"help": help, "default": default, **how}}
    )


def add_flags(
    parser: "argparse.ArgumentParser | argparse._ArgumentGroup",
    record: "type[DataclassInstance]",
    *names: str,
) -> None:
    """Add flags for a verb's options, such as `--beam-sizes` for the `beam_sizes` field.

    Args:
        parser: parser or argument group.
        record: dataclass of the options.
        *names: fields to add flags for; defaults to all fields with a flag.
    """
    for field in dataclasses.fields(record):
        if "flag" in field.metadata and (not names or field.name in names):
            parser.add_argument(f"--{field.name.replace('_', '-')}", **field.metadata["flag"])


def options_of(record: type[Options], values: argparse.Namespace, **others: Any) -> Options:
    """Create a dataclass from a parsed command line, setting fields from flags of the same name.

    Args:
        record: dataclass to create.
        values: parsed command line.
        **others: values for other fields.
    """
    names = [field.name for field in dataclasses.fields(record) if field.name not in others]
    return record(**{name: getattr(values, name) for name in names}, **others)


def run_command(main: Callable[[], int | None]) -> int:
    """Call `main()` and return the exit code of the process.

    Args:
        main: function that returns an exit code, or None for success. A `UserInputError`, an I/O
            error in a file or standard stream, or a lack of memory prints one line to stderr (exit
            code 2). Ctrl-C exits with 130. If the reader closes the output early (`| head`), the
            command ends silently.

    Example:
        >>> run_command(lambda: None)
        0
    """
    global _is_verbose
    _is_verbose = False
    be_quiet(False)
    replace_missing_streams()
    print_any_path()
    if found := conflict():
        tell(f"warning: {found}")
    try:
        code = _code_of(main)
    except SystemExit as exit:  # from `argparse` after it prints help or an error
        given = 1 if isinstance(exit.code, str) else exit.code or 0
        code = _sent_on(given)
        if code != given:
            return code
        raise
    return _sent_on(code)


def warn_of_reach(server: str) -> None:
    """Warn that other machines can reach an unprotected server, described by `server`.

    Example:
        >>> import contextlib
        >>> with contextlib.redirect_stderr(sys.stdout):
        ...     warn_of_reach("port 8500")
        warning: other machines can reach port 8500: it has no password and no encryption.
    """
    tell(f"warning: other machines can reach {server}: it has no password and no encryption.")


def open_in_browser(address: str) -> None:
    """Open an address in the user's browser, or warn if there is no browser.

    Without a display, as on a server, only the browser in the environment variable `BROWSER` is
    started, because any other browser would take over the terminal.
    """
    has_display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if (sys.platform == "linux" and not has_display) or not webbrowser.open(address):
        tell(f"warning: no browser was found to open {address}.")


def _code_of(main: Callable[[], int | None]) -> int:
    """Call `main()` and return its exit code. Errors are printed and converted to exit codes."""
    try:
        check_backend_exists()
        return main() or 0
    except UserInputError as error:
        if _is_verbose:
            traceback.print_exc()
        return _user_error(str(error))
    except BrokenPipeError:
        output_fault()  # discards the remaining output, which nobody reads
        return 0
    except OSError as error:
        if error.filename is not None:
            return _user_error(f"{error.strerror}: {error.filename}")
        return _sent_on(0) or _user_error(f"Cannot read or write: {error.strerror or error}")
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return _user_error(
            "There is not enough memory: use a smaller batch, shorter sentences, or a smaller "
            "model."
        )


def _sent_on(code: int) -> int:
    """Flush standard output and return the exit code of a command that ends with `code`."""
    fault = output_fault()
    if fault is None or isinstance(fault, BrokenPipeError) or code:
        return code
    return _user_error(str(full_output(fault)))


def _user_error(message: str) -> int:
    line = " ".join(message.split())
    tell(f"error: {line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + '...'}")
    return USER_ERROR


def _dashed(argument: str) -> str:
    if not argument.startswith("--"):
        return argument
    flag, equals, value = argument.partition("=")
    return flag.replace("_", "-") + equals + value
