"""The flags of `keras-transformer translate`, and which of them go together."""

import argparse
from collections.abc import Iterable

from keras_transformer.command_line.command_errors import (
    int_from_zero,
    positive_int,
    positive_number,
    share,
)
from keras_transformer.commands.arguments.cluster_arguments import (
    LINE_JOB,
    add_cluster_arguments,
    check_cluster,
)
from keras_transformer.commands.arguments.model_arguments import add_model_arguments
from keras_transformer.commands.arguments.search_arguments import add_search_arguments, search_of
from keras_transformer.commands.translate_engines import ENGINES, check_engine
from keras_transformer.errors import UserInputError
from keras_transformer.search_options import SearchOptions
from keras_transformer.text.sentence_encoding import LONG_SENTENCES

# Names of the parsed command line.
SAMPLING = ("temperature", "top_k", "top_p", "seed")
COLUMN = "column"
USUAL_LANGUAGE = "en"  # of the lines, where none is given
SEARCH = ("beam_size", "alpha", "length_penalty", "ending")


def add_translate_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the verb to its parser."""
    add_model_arguments(parser)
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="what computes: this package's own search, or an export that is made once, in the "
        "run's engines/. ctranslate2 starts quickest, and is the fastest for one sentence; its "
        "length penalty differs: it divides by the length to the power of --alpha (default: own)",
    )
    _add_search_arguments(parser)
    _add_long_line_arguments(parser.add_argument_group("long lines"))
    _add_sampling_arguments(parser.add_argument_group("sampling"))
    _add_file_arguments(parser.add_argument_group("whole files, for back-translation"))
    add_cluster_arguments(parser, COLUMN)


def check_combinations(options: argparse.Namespace) -> None:
    """Refuse flags that do not go together; fill in the language of the lines."""
    check_engine(options)
    if options.sample:
        _refuse(options, SEARCH, "is for searching, and `--sample` does not search")
    else:
        _refuse(options, SAMPLING, "needs `--sample`")
        if options.n_best is not None:
            beam_size = SearchOptions(**search_of(options, options.runs[0])).beam_size
            if options.n_best > beam_size:
                raise UserInputError(
                    "`--n-best` must be at most the beam size. "
                    f"Received: --n-best {options.n_best}, --beam-size {beam_size}"
                )
    if (options.input is None) != (options.output is None):
        raise UserInputError("`--input` and `--output` must be given together.")
    check_cluster(options, *LINE_JOB, COLUMN)
    if options.cluster is not None and options.input is None:
        raise UserInputError("`--cluster` needs `--input` and `--output`.")
    if options.cluster is None and options.input is not None and len(options.input) > 1:
        raise UserInputError(
            f"`--input` takes several files with `--cluster` alone. Received: {len(options.input)}"
        )
    _check_split(options)
    if options.source_language is None:
        options.source_language = USUAL_LANGUAGE
    if options.tag is not None:
        _refuse(options, ("n_best",), "prints no plain lines for `--tag` to mark")
        if len(options.tag.splitlines()) != 1 or not options.tag.strip():
            raise UserInputError(f"`--tag` must be one line of text. Received: {options.tag!r}")


def _add_search_arguments(parser: argparse.ArgumentParser) -> None:
    add_search_arguments(parser, *SEARCH, "extra_length", "min_length", "no_repeat_ngram")
    add = parser.add_argument
    add(
        "--n-best",
        type=positive_int,
        metavar="N",
        help="print the N best translations of each line, best first, as `index ||| text ||| "
        "score`: the line's index from 0, the score after the length penalty (N <= beam size); "
        "with --sample, N samples and their log-probabilities",
    )
    add(
        "--tab-prefix",
        action="store_true",
        help="input lines are `source TAB prefix`: the translation begins with the prefix; a line "
        "without TAB has none",
    )


def _add_long_line_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--long-lines",
        choices=LONG_SENTENCES,
        default="refuse",
        help="what to do with a line of more tokens than --max-source-length: `refuse` ends the "
        "command, `cut` drops the rest, `split` translates the sentences of the line one by one "
        "and joins them with spaces; stderr tells the number of every such line (default: refuse)",
    )
    add(
        "--source-language",
        metavar="CODE",
        help="language of the lines, by whose rules `--long-lines split` tells the end of a "
        f"sentence from an abbreviation (default: {USUAL_LANGUAGE})",
    )


def _add_sampling_arguments(group: argparse._ArgumentGroup) -> None:
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


def _add_file_arguments(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--input",
        nargs="+",
        metavar="FILE",
        help="translate this file, plain or .gz, not standard input; with --cluster several files "
        "and patterns such as 'news/*.en'",
    )
    add(
        "--output",
        metavar="FILE",
        help="the file to write, plain or .gz; it appears when it is complete. After an "
        "interruption the same command continues. A pipe or a device is written line by line. With "
        "--cluster a folder",
    )
    add(
        "--tag",
        metavar="TEXT",
        help="put TEXT and a space in front of every line that is not empty, to mark text that was "
        "translated by a machine",
    )


def _check_split(options: argparse.Namespace) -> None:
    if options.long_lines != "split":
        _refuse(options, ("source_language",), "needs `--long-lines split`")
        return
    reason = "goes with one translation of a whole line, not with `--long-lines split`"
    _refuse(options, ("n_best",), reason)
    for name in ("sample", "tab_prefix"):
        if getattr(options, name):
            raise UserInputError(f"`--{name.replace('_', '-')}` {reason}.")


def _refuse(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise UserInputError(f"`--{name.replace('_', '-')}` {reason}.")
