"""The command `keras-transformer`."""

import sys

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_errors import (
    CommandParser,
    number_from_zero,
    positive_int,
    run_command,
)
from keras_transformer.errors import UserInputError
from keras_transformer.version import __version__

READ_BYTES = 1 << 16


def main(arguments=None):
    """Entry point of `keras-transformer`; returns the exit code."""
    return run_command(lambda: _run(arguments))


def _run(arguments):
    options = _parser().parse_args(arguments)
    options.verb(options)


def _parser():
    parser = CommandParser(prog="keras-transformer", description="Translate with trained models.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    translate = verbs.add_parser(
        "translate",
        help="translate standard input line by line",
        description="Translate standard input (UTF-8, one sentence a line) to standard output, "
        "line by line, as it arrives. An empty line gives an empty line.",
    )
    translate.set_defaults(verb=_translate)
    add = translate.add_argument
    add("run", metavar="RUN", help="run directory of a training")
    add("--checkpoint", metavar="FILE", help="weights to use (default: the run's final ones)")
    add("--beam-size", type=positive_int, default=4, metavar="N", help="default: 4")
    add(
        "--alpha",
        type=number_from_zero,
        default=0.6,
        metavar="A",
        help="exponent of the length penalty (default: 0.6)",
    )
    add(
        "--batch-size",
        type=positive_int,
        default=32,
        metavar="N",
        help="most sentences a batch (default: 32)",
    )
    add(
        "--n-best",
        type=positive_int,
        metavar="N",
        help="print the N best translations of each line, best first, as `index ||| text ||| "
        "score`: the line's index from 0, the score after the length penalty (N <= beam size)",
    )
    return parser


def _translate(options):
    _check_n_best(options.n_best, options.beam_size)
    start_backend_quietly()
    from keras_transformer.translator import Translator  # takes seconds: not for `--help`

    translator = Translator.load(
        options.run,
        checkpoint=options.checkpoint,
        beam_size=options.beam_size,
        alpha=options.alpha,
        batch_size=options.batch_size,
    )
    index = 0
    for lines in chunks_of_lines(sys.stdin.buffer):
        if options.n_best is None:
            output = [one_line(text) for text in translator.translate(lines)]
        else:
            found = translator.translate_nbest(lines, options.n_best)
            output = n_best_lines(found, first_index=index)
        index += len(lines)
        sys.stdout.buffer.write("".join(f"{line}\n" for line in output).encode("utf-8"))
        sys.stdout.buffer.flush()


def _check_n_best(n_best, beam_size):
    if n_best is not None and n_best > beam_size:
        raise UserInputError(
            "`--n-best` must be at most the beam size. "
            f"Received: --n-best {n_best}, --beam-size {beam_size}"
        )


def chunks_of_lines(stream):
    """Yield lists of the lines that have arrived.

    A chunk is what one read gives: a file comes in large pieces, which batch well, and a line typed
    by hand or by a waiting program is answered at once.

    Args:
        stream: a buffered binary stream of UTF-8 text, such as `sys.stdin.buffer`.

    Raises:
        UserInputError: a line is not UTF-8; the lines before it have been yielded.
    """
    number, rest = 0, b""
    while data := stream.read1(READ_BYTES):
        *complete, rest = (rest + data).split(b"\n")
        yield from _decoded(complete, number)
        number += len(complete)
    if rest:
        yield from _decoded([rest], number)


def _decoded(lines, lines_before):
    """Yield the lines as one list of strings; at a broken line, those before it, and raise."""
    decoded = []
    for line in lines:
        try:
            decoded.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            if decoded:
                yield decoded
            number = lines_before + len(decoded) + 1
            raise UserInputError(
                f"Line {number} of standard input is not valid UTF-8 at byte {error.start + 1}"
            ) from error
    if decoded:
        yield decoded


def n_best_lines(translations, first_index):
    """Lists of `(text, score)` as lines of Moses's n-best format."""
    return [
        f"{index} ||| {one_line(text)} ||| {score:.6f}"
        for index, candidates in enumerate(translations, start=first_index)
        for text, score in candidates
    ]


def one_line(text):
    """The text without line breaks, which a model with byte pieces can produce."""
    return text.replace("\n", " ")
