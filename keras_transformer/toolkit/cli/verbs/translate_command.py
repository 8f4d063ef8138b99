"""`keras-transformer translate`: translate standard input or a file line by line."""

import argparse
import dataclasses
import functools
import gzip
import hashlib
import itertools
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import int_from_zero, positive_int, positive_number, share
from keras_transformer.errors import UserInputError
from keras_transformer.files import find_output, note, write_output
from keras_transformer.formats.registry import FORMATS
from keras_transformer.input_files import is_read_once, open_input
from keras_transformer.search_options import SearchOptions, options_for, search_record, search_text
from keras_transformer.text.text_lines import text_lines
from keras_transformer.toolkit.cli.cluster_job import (
    add_cluster_arguments,
    block_lines_of,
    check_cluster,
    run_on_cluster,
)
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_model_arguments,
    add_search_arguments,
    given_search,
    tell_search_taken,
)
from keras_transformer.toolkit.cli.program import add_flags, flag, options_of
from keras_transformer.toolkit.cli.run_exports import (
    OWN,
    USUAL_LANGUAGE,
    LineOptions,
    load_line_translator,
)
from keras_transformer.toolkit.cli.text_streams import (
    STANDARD_INPUT,
    ResumableOutput,
    StreamedOutput,
    answered,
    blocks_of,
    check_new_output,
    chunks_of_lines,
    pieces_of,
    read_document,
    told_by,
    write_flushed,
    write_lines,
)

if TYPE_CHECKING:
    from keras_transformer.toolkit.cluster.line_workers import AnswerLines

# Attributes of the parsed command line.
SEARCH = ("beam_size", "alpha", "length_penalty", "ending")


@dataclasses.dataclass(frozen=True)
class SamplingOptions:
    """Keyword arguments of `Translator.sample` that have flags. None means the method's default."""

    temperature: float | None = flag(
        "divide the logits by T: below 1 sharpens the distribution, above 1 flattens it (default: "
        "1)",
        type=positive_number,
        metavar="T",
    )
    top_k: int | None = flag(
        "sample only from the K most likely tokens", type=positive_int, metavar="K"
    )
    top_p: float | None = flag(
        "sample only from the most likely tokens that together reach probability P",
        type=share,
        metavar="P",
    )
    seed: int | None = flag(
        "random seed of the samples (default: 0)", type=int_from_zero, metavar="N"
    )

    def given(self) -> dict[str, Any]:
        """Return the options that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


HELP = "translate standard input, or a file, line by line or as a document"
DESCRIPTION = """Translate standard input (UTF-8, one sentence per line) to standard output, line by
line, as it arrives. An empty line produces an empty line. With `--markup`, the input is a document
in HTML, XML or Markdown. For a single line, most of the time is
spent starting Keras. `--engine ctranslate2` and `--engine litert` avoid this once their export
exists."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_model_arguments(parser)
    add_flags(parser, LineOptions, "engine", "precision")
    add_search_arguments(parser, *options_for("translate"))
    names = "shortlist", "n_best", "tab_prefix", "glossary", "glossary_tags", "keep", "markup"
    add_flags(parser, LineOptions, *names)
    long_lines = parser.add_argument_group("long lines")
    add_flags(long_lines, LineOptions, "long_lines", "source_language")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument(
        "--sample",
        action="store_true",
        help="sample each token from the model's distribution instead of searching for the best "
        "translation",
    )
    add_flags(sampling, SamplingOptions)
    files = parser.add_argument_group("complete files, for back-translation")
    files.add_argument(
        "--input",
        nargs="+",
        metavar="FILE",
        help="translate this file, plain or .gz, instead of standard input; with --cluster, "
        "several files and patterns such as 'news/*.en'",
    )
    files.add_argument(
        "--output",
        metavar="FILE",
        help="output file, plain or .gz; it appears when it is complete. Rerun the same command to "
        "resume after an interruption. A pipe or device is written line by line. With --cluster, "
        "a folder",
    )
    add_flags(files, LineOptions, "tag")
    add_cluster_arguments(parser, "column")


def translate(values: argparse.Namespace) -> None:
    """Run the verb."""
    for run in values.runs:
        if " " in run and not os.path.exists(run):
            raise UserInputError(
                f"There is no run directory {run!r}. Pass sentences on standard input: "
                f"echo {shlex.quote(run)} | keras-transformer translate RUN"
            )
    options = line_options(values)
    if options.sampling is None:
        tell_search_taken(options.models.runs, options.search)
    if options.markup is not None:
        source = None if values.input is None else values.input[0]
        _translate_document(options, source, values.output)
    elif values.input is None:
        _translate_stream(options)
    elif values.cluster is None:
        _translate_file(options, values.input[0], values.output)
    else:
        options = options.settled()
        work = functools.partial(_blocks, options, block_lines_of(values, options.models))
        run_on_cluster(values, work, {"input": "column"}, options.models, options.settings())


def line_options(values: argparse.Namespace) -> LineOptions:
    """Return the options from a parsed command line. Refuse flags that cannot be combined."""
    sampling = options_of(SamplingOptions, values).given()
    options = options_of(
        LineOptions,
        values,
        models=NamedModels.of(values),
        search=given_search(values),
        source_language=values.source_language or USUAL_LANGUAGE,
        sampling=sampling if values.sample else None,
    )
    _check_engine(options)
    _check_search(options, sampling)
    if options.glossary is None:
        _refuse(options.settings(), ("glossary_tags",), "needs `--glossary`")
    _check_files(values)
    _check_split(options, values.source_language)
    _check_markup(options, values.cluster)
    if options.tag is not None:
        _refuse(options.settings(), ("n_best",), "cannot be combined with `--tag`")
        if len(options.tag.splitlines()) != 1 or not options.tag.strip():
            raise UserInputError(f"`--tag` must be one line of text. Received: {options.tag!r}")
    return options


def _check_engine(options: LineOptions) -> None:
    engine = options.engine
    if options.precision != "float32" and engine == OWN:
        raise UserInputError("`--precision int8` is not supported by `--engine own`.")
    if engine not in FORMATS:
        return
    lacks = FORMATS[engine].lacks
    if options.glossary_tags:
        lacks = tuple(name for name in lacks if name != "glossary")  # only the source changes
    _refuse(options.settings(), lacks, f"is not supported by `--engine {engine}`")
    if FORMATS[engine].has_search and options.long_lines == "split":
        raise UserInputError(f"`--long-lines split` is not supported by `--engine {engine}`.")
    if options.models.is_ensemble:
        raise UserInputError(
            f"Ensembles are not supported by `--engine {engine}`: pass one RUN and at most one "
            "`--checkpoint`."
        )


def _check_search(options: LineOptions, sampling: Mapping[str, Any]) -> None:
    """Check the search and sampling flags. `sampling` contains the given sampling flags."""
    if options.sampling is not None:
        reason = "has no effect with `--sample`, which does not search"
        required = () if options.glossary_tags else ("glossary",)
        _refuse(options.settings(), (*SEARCH, "shortlist", *required, "keep", "markup"), reason)
        return
    _refuse(sampling, sampling, "needs `--sample`")
    if options.n_best is not None:
        beam_size = options.full_search.beam_size
        if options.n_best > beam_size:
            raise UserInputError(
                "`--n-best` must be at most the beam size. "
                f"Received: --n-best {options.n_best}, --beam-size {beam_size}"
            )


def _check_files(values: argparse.Namespace) -> None:
    if (values.input is None) != (values.output is None):
        raise UserInputError("`--input` and `--output` must be given together.")
    check_cluster(values, ["input"], "block_lines", "column")
    if values.cluster is not None and values.input is None:
        raise UserInputError("`--cluster` needs `--input` and `--output`.")


def _check_split(options: LineOptions, source_language: str | None) -> None:
    """Check the flags for `--long-lines split`. `source_language` is the value of the flag."""
    if options.long_lines != "split":
        given = {"source_language": source_language if options.markup is None else None}
        _refuse(given, ("source_language",), "needs `--long-lines split` or `--markup`")
        return
    reason = "cannot be combined with `--long-lines split`"
    _refuse(options.settings(), ("n_best", "sample", "tab_prefix"), reason)


def _check_markup(options: LineOptions, cluster: str | None) -> None:
    if options.markup is None:
        return
    given = {**options.settings(), "cluster": cluster}
    reason = "cannot be combined with `--markup`"
    _refuse(given, ("n_best", "tab_prefix", "tag", "cluster"), reason)
    if options.long_lines == "cut":
        raise UserInputError(f"`--long-lines cut` {reason}.")


def _refuse(given: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Refuse the flags with these names if they are given."""
    for name in names:
        value = given.get(name)
        if value is not None and value is not False:  # 0 is treated as given
            raise UserInputError(f"`--{name.replace('_', '-')}` {reason}.")


def _blocks(options: LineOptions, block_lines: int) -> "AnswerLines":
    """Load the translator in a cluster worker and return a function that answers its blocks."""
    translator = load_line_translator(options, block_lines)
    return blocks_of(translator.answer, options.models.lines_a_piece)


def _translate_stream(options: LineOptions) -> None:
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    translator = load_line_translator(options)
    if stdin.isatty():
        note("Type sentences, one per line. Ctrl-D ends.")
    for found, _ in answered(translator.answer, chunks_of_lines(stdin), [STANDARD_INPUT]):
        write_lines(stdout, found)


def _translate_document(options: LineOptions, source: str | None, destination: str | None) -> None:
    target = None if destination is None else find_output(destination)
    if target is not None and not target.is_stream:
        check_new_output(target.path)
    document = read_document(source)
    translator = load_line_translator(options, document.count("\n"))
    name = STANDARD_INPUT if source is None else source
    with told_by(lambda _: f"A sentence of {name}"):
        text = translator.translated(document, progress=sys.stderr.isatty())
    if target is None:
        write_flushed(sys.stdout.buffer, text)
        return
    content = text.encode("utf-8")
    if target.path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    write_output(target.path, content)


def _translate_file(options: LineOptions, source: str, destination: str) -> None:
    target = find_output(destination)
    if is_read_once(source):
        raise UserInputError(
            f"`--input` must be a file, because it is read more than once. Received: {source}. "
            "Pass it as standard input, without `--output`."
        )
    options = options.settled()
    settings: dict[str, Any] = {**options.settings(), "input": source}
    for name, path in (("input", source), ("glossary", options.glossary)):
        if path is not None:
            with open_input(path) as file:
                settings[f"{name}_digest"] = hashlib.file_digest(file, "sha256").hexdigest()
    settings["model_digests"] = options.models.digests()
    total = sum(1 for _ in text_lines(source))  # report errors now, not an hour later
    title = _title(options)
    output = (
        StreamedOutput(target.path, total, title)
        if target.is_stream
        else ResumableOutput(target.path, settings, total, title)
    )
    most, paths = options.models.lines_a_piece, [source]
    with output:
        translator = load_line_translator(options, total)
        if not output.lines_read and options.long_lines == "refuse":  # now, not an hour later
            for _ in answered(translator.check, pieces_of(text_lines(source), most), paths):
                pass
        first = output.lines_read
        pieces = pieces_of(itertools.islice(text_lines(source), first, None), most)
        for found, number in answered(translator.answer, pieces, paths, first):
            output.append(found, number)


def _title(options: LineOptions) -> str | None:
    """Return a description of the search as the title of the progress bar."""
    if options.sampling is not None:
        return None
    search = search_record(SearchOptions(**options.search))
    if options.engine in FORMATS:
        search.update(FORMATS[options.engine].own_search)
    return search_text(search)
