"""`keras-transformer evaluate`: print the scorecard of a run on a test set."""

import argparse
import dataclasses
import json
import math
import pathlib
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_transformer.evaluation.scores import METRICS, SCORES
from keras_transformer.files import find_output, note, require_standard_output, tell, write_output
from keras_transformer.search_options import (
    SearchOptions,
    options_for,
    search_record,
    search_text,
)
from keras_transformer.text.text_lines import one_line, text_table
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_batch_arguments,
    add_search_arguments,
    given_search,
    search_of,
)
from keras_transformer.toolkit.cli.program import add_flags, flag
from keras_transformer.toolkit.cli.text_streams import told_by_line
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from keras_transformer.evaluation.alignment_scores import ReferenceLinks
    from keras_transformer.inference.translator import Translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Flags:
    """Flags specific to the verb."""

    source: str = flag(
        "source sentences, one per line, plain or .gz", required=True, metavar="FILE"
    )
    reference: str = flag("reference translations, plain or .gz", required=True, metavar="FILE")
    tokenize: str = flag(
        "sacrebleu's tokenizer; use none for text that is already tokenized (default: 13a)",
        "13a",
        metavar="NAME",
    )
    language: str = flag(
        "language of the references for the Moses tokenizer (default: the run's target language, "
        "or en)",
        metavar="CODE",
    )
    against: str | None = flag(
        "translations of the same sentences, or another run, to score too and to compare with by "
        "paired bootstrap resampling",
        metavar="FILE|RUN",
    )
    alignments: str | None = flag(
        "reference alignments of the words of both files, one line per pair in Pharaoh format (`?` "
        "for possible links, such as '0-0 2?1'), to also print the alignment error rate (AER)",
        metavar="FILE",
    )
    int8: bool = flag(
        "also score the final weights in int8, as a LiteRT model: the translations of `translate "
        "--precision int8` and of `export litert --precision int8`",
        False,
    )
    output: str | None = flag(
        "write the translations of the averaged weights to this file", metavar="FILE"
    )
    json: bool = flag(
        "print JSON; the perplexity is null if it was not measured or is infinite", False
    )


class System(NamedTuple):
    """A system to score: the weights of a run or a file of translations."""

    path: str  # weights or translations
    run: pathlib.Path | None
    lines: list[str]


HELP = "score a run on a test set"
_TITLES = [SCORES[name].title for name in METRICS]
DESCRIPTION = f"""Translate a test set with a run's best single checkpoint and with its final,
averaged weights, and print the scores of both: sacrebleu's {", ".join(_TITLES[:-1])} and
{_TITLES[-1]}, BLEU on Moses tokens with compounds split, length ratio, brevity penalty, and
perplexity per token. If the weights of both are the same, they are scored once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    parser.add_argument("run", metavar="RUN", help="run directory")
    add_flags(parser, _Flags, "source", "reference", "tokenize", "language")
    add_search_arguments(parser, *options_for("evaluate"))
    add_flags(parser, NamedModels, "target_language")
    add_batch_arguments(parser)
    add_flags(parser, _Flags, "against", "alignments", "int8", "output", "json")


def evaluate(values: argparse.Namespace) -> None:
    """Run the verb."""
    values.language = values.language or _target_language(values.run)
    from keras_transformer.installation import start_backend_quietly

    start_backend_quietly(batches=2)  # the text has not been read yet, so assume at least two
    from keras_transformer.evaluation import paired_bootstrap, system_scores
    from keras_transformer.runs.run_records import package_versions

    search = SearchOptions(**search_of(given_search(values), values.run))
    sources, references, against = checked_input(values)
    links = reference_links(values, len(sources))
    systems = {**systems_of(values.run), **against}
    translators = {
        name: loaded_translator(system.run, pathlib.Path(system.path), sources, references, values)
        for name, system in systems.items()
        if system.run is not None
    }
    systems |= systems_in_int8(values, systems, translators, sources)
    translations: dict[str, list[str]] = {}
    scores: dict[str, dict[str, Any]] = {}
    for name, system in systems.items():
        if same := _scored_weights(name, scores, systems, translators):
            translations[name] = translations[same]
            scores[name] = {**scores[same], "path": system.path, "same_weights_as": same}
            continue
        note(f"{name}: {system.path}")
        lines, of_model = system.lines, {"perplexity": None, "search": None}
        if name in translators:
            lines, of_model = run_results(translators[name], sources, references, links)
        translations[name] = lines
        found = system_scores(lines, references, tokenize=values.tokenize, language=values.language)
        scores[name] = {**found, **of_model, "path": system.path}
        if found["bleu"] == 0 < found["chrf"]:
            note(f"{name}: BLEU is 0 if no translation has four tokens in a row of its reference")
    card: dict[str, Any] = {
        "systems": scores,
        "source": values.source,
        "reference": values.reference,
        "sentences": len(sources),
        "language": values.language,
        **search_record(search),
        "versions": package_versions(),
    }
    if against:
        baseline = translations["against"]
        card["paired_bootstrap"] = {
            name: paired_bootstrap(
                translations[name], baseline, references, tokenize=values.tokenize
            )
            for name in systems
            if name != "against"
        }
    if values.output is not None:
        write_translations(values.output, translations)
    if not values.json:
        print(scorecard_text(card))
        return
    for found in scores.values():
        if found["perplexity"] == math.inf:  # not valid in JSON
            found["perplexity"] = None
    print(json.dumps(card, indent=2, ensure_ascii=False))


def _target_language(run: str) -> str:
    """Return the run's target language code for Moses. The default is English."""
    from keras_transformer.runs.run_directory import RunDirectory

    code = RunDirectory.open(run).record().target_language or "en"
    return code.partition("-")[0].lower()


def checked_input(
    values: argparse.Namespace,
) -> tuple[list[str], list[str], dict[str, System]]:
    """Read the input and raise errors that would otherwise occur only after translating.

    Returns the sources, the references, and a dict with the system `against`, which may be empty.
    """
    from keras_transformer.data.parallel_text import read_parallel_text, read_text, unequal_lines
    from keras_transformer.evaluation.scores import bleu_metric, check_language
    from keras_transformer.runs.run_directory import RunDirectory

    bleu_metric(values.tokenize)
    check_language(values.language)
    require_standard_output()
    if values.output is not None:
        find_output(values.output)
    sources, references = read_parallel_text(values.source, values.reference)
    if values.against is None:
        return sources, references, {}
    if pathlib.Path(values.against).is_dir():
        run = RunDirectory.open(values.against)
        system = System(str(run.find_weights()), run.path, [])
    else:
        system = System(values.against, None, read_text(values.against))
        if (number := len(system.lines)) != len(references):
            raise unequal_lines(values.against, number, values.reference, len(references))
    return sources, references, {"against": system}


def reference_links(values: argparse.Namespace, pairs: int) -> "list[ReferenceLinks]":
    """Read the reference alignments, if any. Refuse a file with another number of lines."""
    if values.alignments is None:
        return []
    from keras_transformer.data.parallel_text import unequal_lines
    from keras_transformer.evaluation.alignment_scores import read_reference_links

    found = read_reference_links(values.alignments)
    if len(found) != pairs:
        raise unequal_lines(values.alignments, len(found), values.source, pairs)
    return found


def systems_of(path: PathLike) -> dict[str, System]:
    """Return the systems `single` and `averaged` of a run. Report missing systems on stderr."""
    from keras_transformer.runs.run_directory import RunDirectory

    run = RunDirectory.open(path)
    found = {
        "single": (run.checkpoints.best_or_last(), "checkpoints"),
        "averaged": (run.final_weights(), "final weights"),
    }
    systems = {name: System(str(path), run.path, []) for name, (path, _) in found.items() if path}
    if not systems:
        raise run.no_weights()
    for name, (_, what) in found.items():
        if name not in systems:
            tell(f"The run {run.path} has no {what}: no system `{name}`.")
    return systems


def loaded_translator(
    run: PathLike,
    weights: PathLike,
    sources: list[str],
    references: list[str],
    values: argparse.Namespace,
) -> "Translator":
    """Load a translator with these weights and check that it accepts all sentences."""
    from keras_transformer.inference.translator import Translator

    translator = Translator.load(
        run,
        checkpoint=weights,
        engine="own",
        batch_size=values.batch_size,
        target_language=values.target_language,
        **given_search(values),
    )
    with told_by_line(0, values.source, values.reference):
        translator.check_lengths(sources, references)
    return translator


def systems_in_int8(
    values: argparse.Namespace,
    systems: Mapping[str, System],
    translators: Mapping[str, "Translator"],
    sources: list[str],
) -> dict[str, System]:
    """Translate with a temporary LiteRT model, with `--int8`. Return the system `int8`."""
    if not values.int8:
        return {}
    from keras_transformer.formats.litert.reader import LiteRTTranslator
    from keras_transformer.formats.litert.writer import export_litert

    name = "averaged" if "averaged" in systems else "single"
    translator = translators[name]
    with tempfile.TemporaryDirectory() as folder:
        limit = translator.max_source_length
        how: dict[str, Any] = {"alignments": False, "max_source_length": limit}
        export_litert(translator, folder, precision="int8", **how)
        reader = LiteRTTranslator(folder, target_language=translator.target_language)
        lines = reader.translate(sources, progress=sys.stderr.isatty())
    return {"int8": System(systems[name].path, None, [one_line(text) for text in lines])}


def _scored_weights(
    name: str,
    scored: Collection[str],
    systems: Mapping[str, System],
    translators: Mapping[str, "Translator"],
) -> str | None:
    """Return an already scored system of the same run with equal weights, if any."""
    import numpy as np

    if name not in translators:
        return None
    same_run = (other for other in scored if systems[other].run == systems[name].run)
    weights = translators[name].models[0].get_weights()
    for other in same_run:
        others = translators[other].models[0].get_weights()
        if all(map(np.array_equal, weights, others)):
            return other
    return None


def run_results(
    translator: "Translator",
    sources: list[str],
    references: list[str],
    links: "Sequence[ReferenceLinks]" = (),
) -> tuple[list[str], dict[str, Any]]:
    """Return a translator's outputs and a dict with its other scores and the search.

    With reference alignments, the scores include the alignment error rate.
    """
    from keras_transformer.evaluation import perplexity
    from keras_transformer.evaluation.alignment_scores import error_rate_against

    progress = sys.stderr.isatty()
    translations = translator.translate(sources, progress=progress)
    log_probs = translator.score(sources, references, progress=progress)
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.encode(references))  # +1 for EOS
    of_model = {
        "perplexity": perplexity(log_probs, tokens),
        "search": search_record(translator.search_options),
    }
    if links:
        found = translator.align(sources, references, progress=progress)
        pairs = (alignment.word_pairs() for alignment in found)
        of_model["alignment_error_rate"] = error_rate_against(links, pairs)
    return [one_line(text) for text in translations], of_model


def write_translations(path: PathLike, translations: Mapping[str, list[str]]) -> None:
    """Write the translations of `averaged` or, if missing, of `single` (with a note)."""
    name = "averaged" if "averaged" in translations else "single"
    write_output(path, "".join(f"{line}\n" for line in translations[name]))
    if name == "single":
        note(f"{path} contains the translations of `single`.")


def scorecard_text(card: dict[str, Any]) -> str:
    """Format a scorecard (the dict printed by `evaluate --json`) as tables with signatures."""
    first = next(iter(card["systems"].values()))
    title = f"{card['source']} -> {card['reference']}: {card['sentences']:,} sentences"
    parts = [
        "\n".join([f"{title}, {search_text(card)}", *_other_searches(card)]),
        _systems_table(card["systems"]),
        text_table(
            [
                *([SCORES[name].title, first[f"{name}_signature"]] for name in METRICS),
                ["tok. BLEU", _tokenized_note(first["bleu_signature"], card["language"])],
            ],
            align="<<",
        ),
    ]
    if "paired_bootstrap" in card:
        parts += _bootstrap_parts(card)
    return "\n\n".join(parts)


def _other_searches(card: dict[str, Any]) -> list[str]:
    """Return a line for each system whose default search differs from the card's search."""
    return [
        f"{name} searches with "
        + ", ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in search.items()
            if key in ("beam_size", "alpha") or value != card[key]
        )
        for name, system in card["systems"].items()
        if (search := system["search"]) and any(card[key] != search[key] for key in search)
    ]


def _tokenized_note(signature: str, language: str) -> str:
    tokens = "tokens as given" if "tok:none" in signature else f"Moses tokens ({language})"
    return f"{tokens}, compounds split at hyphens, cased, no smoothing, like multi-bleu.perl"


def _systems_table(systems: dict[str, dict[str, Any]]) -> str:
    measured = set().union(*systems.values())
    columns = {key: score for key, score in SCORES.items() if key in measured}
    rows = [["system", *(score.title for score in columns.values()), "path"]]
    for name, scores in systems.items():
        values = [
            "-" if scores.get(key) is None else format(scores[key], score.form)
            for key, score in columns.items()
        ]
        same = f" (= {scores['same_weights_as']})" if "same_weights_as" in scores else ""
        rows.append([name + same, *values, scores["path"]])
    return text_table(rows, align="<" + ">" * len(columns) + "<")


def _bootstrap_parts(card: dict[str, Any]) -> list[str]:
    found = card["paired_bootstrap"]
    samples = next(iter(found.values()))["samples"]
    rows = [["system", "", "mean", "against", "p-value"]]
    for name, metrics in found.items():
        for key in METRICS:
            values = metrics[key]
            own, other = (
                f"{values[side + 'mean']:.2f} ± {values[side + 'confidence_interval']:.2f}"
                for side in ("", "baseline_")
            )
            rows.append([name, SCORES[key].title, own, other, f"{values['p_value']:.4f}"])
    title = (
        f"Paired bootstrap against {card['systems']['against']['path']}, {samples:,} samples, "
        "means with 95% intervals:"
    )
    return [title, text_table(rows, align="<<>>>")]
