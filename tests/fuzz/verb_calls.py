"""Verbs called in this process, and what their ends must look like."""

import contextlib
import dataclasses
import io
import os
import re
import sys
import traceback
from unittest import mock

from keras_transformer.toolkit import cli
from keras_transformer.toolkit.serving.model_server import BINARY
from tests.fuzz.material import PACKAGE

ERROR_LINE = re.compile(r"^(keras-transformer[a-z0-9 -]*: )?error: ")
OPENING = {"open", "os.open"}
CHANGING = {
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.link",
    "os.symlink",
}


# By the directory that is damaged: each verb's arguments. RUN is that, WORK an empty one.
ONE = ["--source", "TEXTS/one.en"]
BOTH = [*ONE, "--target", "TEXTS/one.de"]
TRAINING = ["--source", "TEXTS/train.en", "--target", "TEXTS/train.de"]
VERBS = {
    "translator": {
        "translate": ["translate", "RUN"],
        "translate to a file": [
            "translate", "RUN", "--input", "TEXTS/one.en", "--output", "WORK/out.de"
        ],
        "evaluate": ["evaluate", "RUN", *ONE, "--reference", "TEXTS/one.de", "--json"],
        "tune": ["tune", "RUN", *ONE, "--reference", "TEXTS/one.de", "--alphas", "0.6,1"],
        "tune --reset": ["tune", "RUN", "--reset"],
        "score": ["score", "RUN", *BOTH],
        "align": ["align", "RUN", *BOTH],
        "average": ["average", "RUN", "--last", "2"],
        "export saved-model": ["export", "saved-model", "RUN", "WORK/exported"],
        "export litert": ["export", "litert", "RUN", "WORK/exported"],
        "export ctranslate2": ["export", "ctranslate2", "RUN", "WORK/exported"],
        "train --from": [
            "train", *TRAINING, "--from", "RUN", "--run", "WORK/new", "--steps", "1"
        ],
        "train --resume": ["train", *TRAINING, "--run", "RUN", "--resume"],
        "check": ["check", "RUN"],
        "parse": ["parse", "RUN"],
    },
    "parser": {
        "parse": ["parse", "RUN", "--beam-size", "2"],
        "parse --repair": ["parse", "RUN", "--repair", "--beam-size", "1"],
        "average": ["average", "RUN", "--last", "2"],
        "check": ["check", "RUN"],
        "translate": ["translate", "RUN"],
        "train --from": [
            "train", *TRAINING, "--from", "RUN", "--run", "WORK/new", "--steps", "1"
        ],
    },
    "student": {
        "translate --shortlist": ["translate", "RUN", "--shortlist"],
        "export marian": ["export", "marian", "RUN", "WORK/exported", "--native"],
        "export bergamot": ["export", "bergamot", "RUN", "WORK/en_de"],
        "train --from": [
            "train", *TRAINING, "--from", "RUN", "--run", "WORK/new", "--steps", "1"
        ],
        "check": ["check", "RUN"],
    },
    "saved_model": {
        "serve": ["serve", "RUN", "--port", "18500", "--rest-port", "0"],
        "check": ["check", "RUN"],
    },
    "litert": {"check": ["check", "RUN"], "LiteRTTranslator": None},
    "ctranslate2": {
        "check": ["check", "RUN"],
        "import ctranslate2": ["import", "ctranslate2", "RUN", "WORK/run"],
    },
    "bergamot": {
        "check": ["check", "RUN"],
        "import bergamot": ["import", "bergamot", "RUN", "WORK/run"],
    },
    # A Marian folder is imported whatever its checksums say: Marian trains in it.
    "marian": {"check": ["check", "RUN"]},
    "adapted": {
        "translate": ["translate", "RUN", "--checkpoint", "step-00000002"],
        "average": ["average", "RUN", "--last", "2"],
        "check": ["check", "RUN"],
    },
    # Without checksums.
    "hugging_face": {"import marian": ["import", "marian", "RUN", "WORK/run"]},
    "codes": {"import marian": ["import", "marian", "RUN", "WORK/run"]},
    "bare_marian": {"import marian": ["import", "marian", "RUN", "WORK/run"]},
    "bare_bergamot": {"import bergamot": ["import", "bergamot", "RUN", "WORK/run"]},
    "bare_ctranslate2": {"import ctranslate2": ["import", "ctranslate2", "RUN", "WORK/run"]},
    "argos": {"import ctranslate2": ["import", "ctranslate2", f"RUN/{PACKAGE}", "WORK/run"]},
}  # fmt: skip


def placed(words, places):
    """Words of a command line with paths for places, as in `RUN/settings.json` and `--run=RUN`."""
    found = []
    for word in words:
        flag, equals, rest = word.rpartition("=") if word.startswith("--") else ("", "", word)
        head, slash, tail = rest.partition("/")
        found.append(f"{flag}{equals}{places[head]}{slash}{tail}" if head in places else word)
    return found


class Computes(BaseException):
    """Ends a verb where it would begin to compute; its argument tells of what."""


@dataclasses.dataclass
class Outcome:
    """How a verb ended.

    Args:
        code: the exit code; None where it raised what no verb may raise, or was ended.
        out: its standard output, bytes.
        err: its standard error.
        raised: the traceback of what it raised, or "".
        computes: the argument of `Computes`, or None.
    """

    code: int | None
    out: bytes
    err: str
    raised: str = ""
    computes: str | None = None

    def fault(self):
        """What is wrong with the way in which the verb ended, or ""."""
        if self.raised:
            return self.raised
        if "Traceback" in self.err:
            return f"a traceback on stderr: {self.err[-2000:]}"
        errors = [line for line in self.err.splitlines() if ERROR_LINE.match(line)]
        if self.code == 2 and len(errors) != 1:
            return f"exit code 2 with {len(errors)} lines of error: {self.err[-2000:]!r}"
        if self.code == 0 and errors:
            return f"exit code 0 with an error: {errors[0]}"
        if self.code not in (0, 2) and self.computes is None:
            return f"exit code {self.code}: {self.err[-500:]!r}"
        return ""


def call(arguments, stdin=b""):
    """Run `keras-transformer` with arguments, in this process.

    Args:
        arguments: iterable of what becomes strings.
        stdin: the bytes of standard input.

    Returns:
        An `Outcome`.
    """
    out, errors = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    code, raised, computes = None, "", None
    with (
        mock.patch("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))),
        mock.patch("os.execvp", _execvp),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = exit.code or 0
        except Computes as end:
            computes = str(end)
        except BaseException:
            raised = traceback.format_exc()
        with contextlib.suppress(UnicodeError):
            sys.stdout.flush()
    return Outcome(code, out.buffer.getvalue(), errors.getvalue(), raised, computes)


def _execvp(file, arguments):
    """Stands for the server that takes a verb's place: it prints how it was started."""
    print(file, *arguments)
    raise SystemExit(0)


def add_stand_in_server(directory):
    """Make a directory with a `tensorflow_model_server` the whole PATH of this process."""
    directory.mkdir(exist_ok=True)
    program = directory / BINARY
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    os.environ["PATH"] = str(directory)


class FileWatch:
    """Which files are opened and which are changed, as Python's audit events tell.

    There is one for a process: an audit hook stays.
    """

    def __init__(self):
        self.opened, self.changed = set(), set()
        self._listens = False
        sys.addaudithook(self._hear)

    @contextlib.contextmanager
    def listening(self):
        """A context in which it listens; what was heard before is forgotten."""
        self.opened.clear()
        self.changed.clear()
        self._listens = True
        try:
            yield
        finally:
            self._listens = False

    def _hear(self, event, arguments):
        if not self._listens:
            return
        if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path, _, flags = arguments
            writes = (flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            (self.changed if writes else self.opened).add(_absolute(path))
        elif event in CHANGING:
            paths = [path for path in arguments if isinstance(path, (str, bytes, os.PathLike))]
            self.changed.update(map(_absolute, paths))


def _absolute(path):
    return os.path.abspath(os.fsdecode(path))
