"""`keras-transformer tune`: the search of a run, chosen on a dev set."""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.command_line.command_errors import Verbs
from keras_transformer.commands.arguments.long_lines import told_by_line
from keras_transformer.commands.arguments.model_arguments import is_ensemble, load_translator
from keras_transformer.commands.arguments.search_arguments import given_search, tell_search_taken
from keras_transformer.commands.arguments.tune_arguments import (
    add_tune_arguments,
    check_files_given,
    check_one_model,
)
from keras_transformer.commands.scorecard_text import text_table
from keras_transformer.files.output_files import find_output, write_output
from keras_transformer.files.standard_streams import require_standard_output
from keras_transformer.search_options import SearchOptions

if TYPE_CHECKING:
    from keras_transformer.evaluation import SearchScore, SearchTuning
    from keras_transformer.runs.run_directory import RunDirectory

METRIC_NAMES = {"bleu": "BLEU", "chrf": "chrF"}


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "tune",
        help="choose the length penalty of a run, or of an ensemble, on a dev set",
        description="Translate a dev set with several length penalties, and write the one with the "
        "best score into the run: every verb and export then searches with it where no flag says "
        "otherwise (CTranslate2 and Marian have a length penalty of another form). Beam sizes and "
        "extra lengths are tried if they are named. For an ensemble `--dry-run` prints the flags.",
    )
    parser.set_defaults(verb=tune)
    add_tune_arguments(parser)


def tune(options: argparse.Namespace) -> None:
    """Run the verb."""
    check_files_given(options)
    check_one_model(options)
    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.runs.run_lock import run_lock

    run, *others = map(RunDirectory.open, options.runs)
    require_standard_output()
    if not options.dry_run:
        with run_lock(run.path):  # what trains there, or cannot be written, is told now
            pass
    if options.reset:
        _reset(run)
        return
    several = {"beam_size": options.beam_sizes, "extra_length": options.extra_lengths}
    tell_search_taken(options, ["alpha", *(name for name, values in several.items() if values)])
    tuning = _tuning(options, [run, *others])
    print(tuning_text(options, tuning))
    if not options.dry_run:
        with run_lock(run.path):
            run.write_search_defaults(tuning.best.options)
    if options.json is not None:
        paths = {"runs": options.runs} if others else {"run": options.runs[0]}
        content = {**paths, "source": options.source, "reference": options.reference}
        content |= {"written": not options.dry_run, **tuning.as_dict()}
        write_output(options.json, f"{json.dumps(content, indent=2)}\n", "--json")
    if is_ensemble(options):
        print(f"The flags of an ensemble that searches so: {_flags(tuning.best)}")
    elif options.dry_run:
        print(f"{run.record_path} stays as it was.")
    else:
        print(
            f"Written to {run.record_path}: every verb and export searches so where no flag says "
            f"otherwise. To undo it: keras-transformer tune {run.path} --reset"
        )


def _reset(run: "RunDirectory") -> None:
    """Restore the search before the first `tune`, and say which one that is."""
    from keras_transformer.runs.run_lock import run_lock

    if run.record().untuned_search is None:
        print(f"The search of {run.path} has not been tuned: nothing to undo.")
        return
    with run_lock(run.path):
        run.write_search_defaults(None)
    search = SearchOptions(**run.search_defaults())
    print(f"{run.record_path} has its earlier search again: {_named(search)}.")


def _tuning(options: argparse.Namespace, runs: Sequence["RunDirectory"]) -> "SearchTuning":
    """The scores of all combinations; what would fail after the translation is refused at once."""
    from keras_transformer.data.text_files import read_parallel_text
    from keras_transformer.evaluation.scores import bleu_metric

    bleu_metric(options.tokenize)
    if options.json is not None:
        find_output(options.json, "--json")
    sources, references = read_parallel_text(options.source, options.reference)
    for run in runs:
        run.load_tokenizers()  # a parser has none for text
    translator = load_translator(
        options,
        batches=2,  # as many as there surely are
        batch_size=options.batch_size,
        **given_search(options),
    )
    with told_by_line(0, {"sources": options.source}):
        translator.check_lengths(sources)
    from keras_transformer.evaluation import tune_search

    return tune_search(
        translator,
        sources,
        references,
        alphas=options.alphas,
        beam_sizes=options.beam_sizes,
        extra_lengths=options.extra_lengths,
        metric=options.metric,
        tokenize=options.tokenize,
        progress=sys.stderr.isatty(),
    )


def tuning_text(options: argparse.Namespace, tuning: "SearchTuning") -> str:
    """The scores as a table, the chosen one marked, and the earlier search."""
    several: dict[str, Any] = {"beam": options.beam_sizes, "extra": options.extra_lengths}
    titles = [name for name, values in several.items() if values is not None]
    metric = METRIC_NAMES[tuning.metric]
    rows = [["", "alpha", *titles, metric, "length ratio"]]
    for one in tuning.results:
        values = {"beam": one.beam_size, "extra": one.extra_length}
        cells = [format(one.alpha, "g"), *(str(values[title]) for title in titles)]
        mark = "*" if one == tuning.best else ""
        rows.append([mark, *cells, f"{one.score:.2f}", f"{one.length_ratio:.3f}"])
    return "\n".join(
        [
            f"{options.source} -> {options.reference}: {tuning.sentences:,} sentences, {metric} "
            f"{tuning.signature}",
            text_table(rows, align="<" + ">" * (len(rows[0]) - 1)),
            f"before: {_scored(tuning.default, metric)}",
            f"chosen: {_scored(tuning.best, metric)}",
        ]
    )


def _scored(one: "SearchScore", metric: str) -> str:
    return f"{_named(one)}: {metric} {one.score:.2f}, length ratio {one.length_ratio:.3f}"


def _flags(search: "SearchScore") -> str:
    return (
        f"--alpha {search.alpha} --beam-size {search.beam_size} "
        f"--extra-length {search.extra_length}"
    )


def _named(search: "SearchScore | SearchOptions") -> str:
    return (
        f"alpha {search.alpha:g}, beam size {search.beam_size}, extra length {search.extra_length}"
    )
