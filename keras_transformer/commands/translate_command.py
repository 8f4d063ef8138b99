"""`keras-transformer translate`: standard input or a file, line by line."""

import hashlib
import itertools
import sys

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_errors import (
    int_from_zero,
    number_from_zero,
    positive_int,
    positive_number,
    share,
)
from keras_transformer.commands.line_stream import chunks_of_lines, one_line, write_lines
from keras_transformer.commands.model_arguments import (
    add_model_arguments,
    load_translator,
    model_digests,
)
from keras_transformer.errors import UserInputError

# A file is translated in pieces of so many batches: enough to sort by length in each.
BATCHES_A_PIECE = 16
CHANGE_NO_LINE = ("arguments", "batch_size", "output", "verb")  # of the parsed command line
SAMPLING = ("temperature", "top_k", "top_p", "seed")
SEARCH = ("beam_size", "alpha")


def add_parser(verbs):
    """Add the verb to the `argparse` subparsers `verbs`."""
    parser = verbs.add_parser(
        "translate",
        help="translate standard input, or a file, line by line",
        description="Translate standard input (UTF-8, one sentence a line) to standard output, "
        "line by line, as it arrives. An empty line gives an empty line.",
    )
    parser.set_defaults(verb=translate)
    add_model_arguments(parser)
    _add_search_arguments(parser)
    _add_sampling_arguments(parser.add_argument_group("sampling"))
    _add_file_arguments(parser.add_argument_group("whole files, for back-translation"))


def translate(options):
    """Run the verb with the parsed command line."""
    _check_combinations(options)
    if options.input is None:
        _translate_stream(_load(options), options)
    else:
        _translate_file(options)


def _add_search_arguments(parser):
    add = parser.add_argument
    add("--beam-size", type=positive_int, metavar="N", help="default: 4; 1 is greedy search")
    add(
        "--alpha",
        type=number_from_zero,
        metavar="A",
        help="exponent of the length penalty (default: 0.6)",
    )
    add(
        "--n-best",
        type=positive_int,
        metavar="N",
        help="print the N best translations of each line, best first, as `index ||| text ||| "
        "score`: the line's index from 0, the score after the length penalty (N <= beam size); "
        "with --sample, N samples and their log-probabilities",
    )
    add(
        "--min-length",
        type=int_from_zero,
        default=0,
        metavar="N",
        help="least number of tokens of a translation (default: 0)",
    )
    add(
        "--no-repeat-ngram",
        type=int_from_zero,
        default=0,
        metavar="N",
        help="never produce the same N tokens in a row twice in one translation (default: 0, off)",
    )
    add(
        "--tab-prefix",
        action="store_true",
        help="input lines are `source TAB prefix`: the translation begins with the prefix; a line "
        "without TAB has none",
    )


def _add_sampling_arguments(group):
    add = group.add_argument
    add(
        "--sample",
        action="store_true",
        help="draw each token by its probability instead of searching for the best translation",
    )
    add(
        "--temperature",
        type=positive_number,
        metavar="T",
        help="below 1 likely tokens become likelier, above 1 less likely (default: 1)",
    )
    add("--top-k", type=positive_int, metavar="K", help="draw among the K likeliest tokens")
    add(
        "--top-p",
        type=share,
        metavar="P",
        help="draw among the likeliest tokens that together have probability P",
    )
    add(
        "--seed",
        type=int_from_zero,
        metavar="N",
        help="another number gives other samples (default: 0)",
    )


def _add_file_arguments(group):
    add = group.add_argument
    add("--input", metavar="FILE", help="translate this file, plain or .gz, not standard input")
    add(
        "--output",
        metavar="FILE",
        help="where to, plain or .gz; appears when it is whole. The same command goes on where it "
        "was interrupted",
    )
    add(
        "--tag",
        metavar="TEXT",
        help="put TEXT and a space in front of every line that is not empty, as a mark of text "
        "that was translated by a machine",
    )


def _check_combinations(options):
    if options.sample:
        _refuse(options, SEARCH, "is for searching, and `--sample` does not search")
    else:
        _refuse(options, SAMPLING, "needs `--sample`")
        beam_size = options.beam_size or 4
        if options.n_best is not None and options.n_best > beam_size:
            raise UserInputError(
                "`--n-best` must be at most the beam size. "
                f"Received: --n-best {options.n_best}, --beam-size {beam_size}"
            )
    if (options.input is None) != (options.output is None):
        raise UserInputError("`--input` and `--output` must be given together.")
    if options.tag is not None:
        _refuse(options, ("n_best",), "prints no plain lines for `--tag` to mark")
        if len(options.tag.splitlines()) != 1 or not options.tag.strip():
            raise UserInputError(f"`--tag` must be one line of text. Received: {options.tag!r}")


def _refuse(options, names, reason):
    for name in names:
        if getattr(options, name) is not None:
            raise UserInputError(f"`--{name.replace('_', '-')}` {reason}.")


def _load(options):
    settings = {name: getattr(options, name) for name in SEARCH}
    return load_translator(
        options,
        batch_size=options.batch_size,
        min_length=options.min_length,
        no_repeat_ngram=options.no_repeat_ngram,
        **{name: value for name, value in settings.items() if value is not None},
    )


def _translate_stream(translator, options):
    index = 0
    for lines in chunks_of_lines(sys.stdin.buffer):
        write_lines(sys.stdout.buffer, translate_lines(translator, options, lines, index))
        index += len(lines)


def _translate_file(options):
    start_backend_quietly()  # these import Keras
    from keras_transformer.commands.resumable_output import ResumableOutput
    from keras_transformer.text_lines import text_lines

    settings = {name: value for name, value in vars(options).items() if name not in CHANGE_NO_LINE}
    with open(options.input, "rb") as file:
        settings["input_digest"] = hashlib.file_digest(file, "sha256").hexdigest()
    settings["model_digests"] = model_digests(options)
    total = sum(1 for _ in text_lines(options.input))  # a broken line is told now, not in an hour
    with ResumableOutput(options.output, settings, total) as output:
        lines = itertools.islice(text_lines(options.input), output.lines_read, None)
        translator = _load(options)
        while piece := list(itertools.islice(lines, BATCHES_A_PIECE * options.batch_size)):
            found = translate_lines(translator, options, piece, output.lines_read)
            output.append(found, len(piece))


def translate_lines(translator, options, lines, first_index):
    """The output lines of input lines.

    Args:
        translator: a `Translator`.
        options: the parsed command line.
        lines: list of strings.
        first_index: the number of lines before them.

    Returns:
        A list of strings: one a line, or `--n-best` ones.
    """
    prefixes = None
    if options.tab_prefix:
        parts = [line.partition("\t") for line in lines]
        lines, prefixes = [source for source, *_ in parts], [prefix for *_, prefix in parts]
    if options.sample:
        settings = {name: getattr(options, name) for name in SAMPLING}
        found = translator.sample(
            lines,
            options.n_best or 1,
            **{name: value for name, value in settings.items() if value is not None},
            prefixes=prefixes,
            first_index=first_index,
        )
    elif options.n_best is not None:
        found = translator.translate_nbest(lines, options.n_best, prefixes=prefixes)
    else:
        found = [[(text, None)] for text in translator.translate(lines, prefixes=prefixes)]
    if options.n_best is not None:
        return n_best_lines(found, first_index)
    return [tagged(one_line(text), options.tag) for ((text, _),) in found]


def n_best_lines(translations, first_index):
    """Lists of `(text, score)` as lines of Moses's n-best format.

    Example:
        >>> n_best_lines([[("ein Haus", -0.5), ("Haus", -1.25)]], first_index=7)
        ['7 ||| ein Haus ||| -0.500000', '7 ||| Haus ||| -1.250000']
    """
    return [
        f"{index} ||| {one_line(text)} ||| {score:.6f}"
        for index, candidates in enumerate(translations, start=first_index)
        for text, score in candidates
    ]


def tagged(text, tag):
    """The text with the tag in front; an empty text stays empty.

    Example:
        >>> tagged("a house", "<BT>"), tagged("", "<BT>"), tagged("a house", None)
        ('<BT> a house', '', 'a house')

    Reference:
        Caswell et al., "Tagged Back-Translation", 2019.
    """
    return f"{tag} {text}" if tag is not None and text.strip() else text
