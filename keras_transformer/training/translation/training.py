"""Training a translation model from start to end: averages, scores, report."""

import itertools
import os
import pathlib
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer import losses, metrics, training
from keras_transformer.data import BatchReader, fit_batches
from keras_transformer.data.corpus_mixture import CorpusMixture
from keras_transformer.data.corpus_preparation import SiftPairs
from keras_transformer.data.corpus_preparation import sift as sift_here
from keras_transformer.evaluation import score_record, tokenized_compound_split_bleu, tune_search
from keras_transformer.evaluation.scores import corpus_scores, recorded_rows, signature_key
from keras_transformer.files import say, write_text
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchKeywords, search_record
from keras_transformer.settings import SettingValue
from keras_transformer.text import Shortlist
from keras_transformer.text.text_lines import one_line
from keras_transformer.training import (
    TrainingRun,
    average_best,
    average_checkpoints,
    load_weights,
    training_cost,
)
from keras_transformer.training.translation.data import TranslationData, fit_settings
from keras_transformer.training.translation.run_report import Example, write_run_report
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.training.translation.training_start import (
    TrainingBatches,
    begin_training,
    make_batches,
    make_tokenizers,
    translation_model,
)
from keras_transformer.types import PathLike


def next_commands(path: pathlib.Path, source: str) -> list[str]:
    """Commands to try with a run: translate, the web app, attention, an export.

    Args:
        path: path of the run.
        source: a sentence that the run can translate.
    """
    run, program, text = shlex.quote(str(path)), program_name(), shlex.quote(source)
    beside = shlex.quote(str(path.with_name(f"{path.name}-litert")))
    page = shlex.quote(str(path / "attention.html"))
    return [
        f"echo {text} | {program} translate {run}",
        f"{program} app {run} --open",
        f"{program} attention {run} --source {text} --output {page} --open",
        f"{program} export litert {run} {beside}",
    ]


def say_next_steps(path: pathlib.Path, source: str, *more: str) -> None:
    """Print commands to try with a run, and its path as the last line.

    Args:
        path: path of the run.
        source: a sentence that the run can translate.
        *more: further lines that suggest something, such as "Your own text: ... train --help".
    """
    lines = [f"  {command}" for command in next_commands(path, source)]
    say("\nTry next:", *lines, *more, "")
    say(path, result=True)


def program_name() -> str:
    """What to type for `keras-transformer`: its path if the shell would not find it."""
    own = pathlib.Path(sys.executable).with_name("keras-transformer")
    if shutil.which("keras-transformer") or not own.is_file():
        return "keras-transformer"
    return shlex.quote(os.path.relpath(own))


EXAMPLES = 5
MOST_SENTENCES = 1000  # maximum number of sentences on which alpha is chosen
MOST_ALIGNED = 1_000_000  # pairs
MOST_LOOKED_AT = 20  # number of dev sentences, one of which is shown with attention in the report


def average_weights(settings: TranslationSettings, dev: BatchReader, run: TrainingRun) -> int:
    """Write the mean of a run's checkpoints as its weights.

    Args:
        settings: which checkpoints to average, and whether validation determines how many.
        dev: reader of the dev text.
        run: the training run, at its end.

    Returns:
        The number of checkpoints in the mean.

    Raises:
        UserInputError: all checkpoints are damaged.
    """
    directory = run.directory
    paths = directory.checkpoints.last(settings.save_every)
    if settings.average_of == "best":
        paths = directory.checkpoints.best()[::-1] or paths
    paths = directory.checkpoints.whole(paths)
    say(f"\nAveraging checkpoints of {directory.path}")
    if not settings.choose_average:
        paths = paths[-settings.keep_last :]
        average_checkpoints(paths, directory.weights_path)
        return len(paths)
    model = settings.graph(directory.load_architecture(), dev.special_tokens)
    padding_id = dev.special_tokens.pad
    model.compile(
        loss=losses.LabelSmoothingCrossEntropy(0.0, padding_id, reduction="sum"),
        metrics=[metrics.Perplexity(padding_id)],
        jit_compile=settings.jit_compile(),
    )
    steps = dev.plan.steps_per_epoch

    def perplexity(weights: Path) -> float:
        load_weights(model, weights)
        values = model.evaluate(fit_batches(dev), steps=steps, verbose=0, return_dict=True)
        return values["perplexity"]

    return average_best(paths, directory.weights_path, perplexity, settings.keep_last)


def write_shortlist(batches: TrainingBatches, run: TrainingRun) -> None:
    """Write the shortlist of the training text into the run.

    Args:
        batches: the training text; of a large text, at most `MOST_ALIGNED` pairs are aligned.
        run: the training run, at its end.
    """
    corpus = batches.train.corpus
    corpora = corpus.corpora if isinstance(corpus, CorpusMixture) else [corpus]
    stride = -(-len(corpus) // MOST_ALIGNED)
    pairs = [(part, i) for part in corpora for i in range(0, len(part), stride)]
    say(f"Aligning {len(pairs):,} pairs for the shortlist")
    shortlist = Shortlist.build(
        (part.source(i) for part, i in pairs),
        (part.target(i) for part, i in pairs),
        batches.tokenizer,
        batches.source_tokenizer,
    )
    run.directory.write_shortlist(shortlist)


def write_scores(
    run: TrainingRun,
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    **others: Any,
) -> dict[str, Any]:
    """Score translations and write `scores.json`.

    Args:
        run: the training run, at its end.
        hypotheses: the translations.
        references: one reference for each hypothesis.
        tokenize: sacrebleu's tokenizer.
        **others: further results, such as `exact_match`.

    Returns:
        The content of `scores.json`, see `evaluation.score_record`.
    """
    record = run.record
    scores: dict[str, Any] = {}
    for name, (result, signature) in corpus_scores(hypotheses, references, tokenize).items():
        scores |= {name: result.score, signature_key(name): signature}
    content = score_record(
        **scores,
        seconds=record.seconds,
        target_tokens_per_second=record.target_tokens_per_second,
        command=run.command,
        **others,
        step_seconds=record.step_seconds,
        flop_utilisation=record.flop_utilisation,
        training_cost=training_cost(record, run.speed),
    )
    run.directory.checksums.write_json(run.directory.scores_path, content)
    return content


def write_report(
    settings: TranslationSettings, batches: TrainingBatches, run: TrainingRun, **results: Any
) -> None:
    """Translate the test text, or else the dev text; write and print scores and examples.

    With `tune_alpha`, the length penalty is first chosen on the dev text and stored in the run.
    Without it, a choice made when training ended earlier is undone. All translations are written to
    `samples.txt`, and a report on training to `report.html`. Finally, commands to try next are
    printed.

    Args:
        settings: settings of the search and of the scores.
        batches: the texts and the record of their preparation.
        run: the training run, at its end.
        **results: further results for `scores.json`.
    """
    texts, path = batches.texts, run.directory.path
    name = "dev" if texts.test is None else "test"
    text = texts.dev_text if texts.test is None else texts.test
    pairs = list(text)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    search: Any = settings.search_options()
    if settings.tune_alpha:
        search, results["tuned_on"] = tune_alpha(settings, batches, run)
    else:
        run.directory.undo_tuning(search)
    translator = Translator.load(path, long_sentences="cut", **search)
    say(f"Translating the {name} text, {len(sources):,} sentences")
    hypotheses = translator.translate(sources, progress=sys.stderr.isatty())
    lines = "".join(f"{one_line(hypothesis)}\n" for hypothesis in hypotheses)
    write_text(run.directory.samples_path, lines)
    if settings.language is not None:
        results["tokenized_compound_split_bleu"] = tokenized_compound_split_bleu(
            hypotheses,
            references,
            settings.language,
            tokenized=settings.bleu_tokenize == "none",
        )
    scores = write_scores(
        run,
        hypotheses,
        references,
        tokenize=settings.bleu_tokenize,
        evaluated_on={"name": name, "text": text.name, "sentences": len(sources)},
        **search_record(translator.search_options),
        **results,
        **batches.record,
    )
    say(f"\n{name} ({text.name}, {len(sources):,} sentences)")
    for row in recorded_rows(scores):
        say("  {} {}  {}".format(*row))
    say("")
    triples = zip(sources, hypotheses, references, strict=True)
    with_text = [Example(*triple) for triple in triples if triple[0].strip()]
    # Taken from different places in the text, which may be sorted by length.
    places = range(min(EXAMPLES, len(with_text)))
    examples = [with_text[len(with_text) * (2 * i + 1) // (2 * len(places))] for i in places]
    for source, hypothesis, reference in examples:
        say(f"{source}\n  {hypothesis}\n  (reference: {reference})")
    say(f"\nAll translations: {run.directory.samples_path}")
    source = _middle_sentence(sources)
    cost, plot = (f"{program_name()} {verb} {shlex.quote(str(path))}" for verb in ("cost", "plot"))
    commands = [*next_commands(path, source), cost, plot]
    run.directory.update_record(examples=_example_sentences(sources))
    write_run_report(
        run.directory,
        translator,
        examples,
        _middle_sentence(source for source, _ in texts.dev_text),
        commands,
    )
    say_next_steps(path, source, f"  {cost}")


def _example_sentences(sources: Sequence[str]) -> list[str]:
    """A few short sentences for the web app, from different places in the text."""
    short = list(dict.fromkeys(source for source in sources if 12 <= len(source.strip()) <= 80))
    return short[len(short) // 8 :: max(1, len(short) // 4)][:4]


def _middle_sentence(sources: Iterable[str]) -> str:
    """An example: of the first sentences, one of median length; empty if none contains text.

    A sentence that a shell accepts in plain quotes is preferred.
    """
    first = [*itertools.islice(filter(str.strip, sources), MOST_LOOKED_AT)]
    with_text = [source for source in first if "'" not in source] or first
    by_length = sorted(with_text, key=len)
    return by_length[len(by_length) // 2] if by_length else ""


def tune_alpha(
    settings: TranslationSettings, batches: TrainingBatches, run: TrainingRun
) -> tuple[SearchKeywords, dict[str, Any]]:
    """Choose alpha by BLEU on the dev text, and store it in the run with the rest of its search.

    If training is resumed, the choice is removed, see `RunDirectory.undo_tuning`.

    Args:
        settings: the search to tune, and how to compute BLEU.
        batches: the texts; at most `MOST_SENTENCES` sentences, spread over the dev text, are
            translated.
        run: the training run, at its end, with its final weights.

    Returns:
        `(search, record)`: the fields of `SearchOptions` to use for translation, and the record of
        their choice for `scores.json`.
    """
    pairs = [pair for pair in batches.texts.dev_text if pair[0].strip()]
    number = min(len(pairs), MOST_SENTENCES)
    pairs = [pairs[i * len(pairs) // number] for i in range(number)]
    sources, references = zip(*pairs, strict=True)
    translator = Translator.load(
        run.directory.path, long_sentences="cut", **settings.search_options()
    )
    say(f"Choosing alpha on {len(sources):,} sentences of the dev text")
    tuning = tune_search(
        translator,
        sources,
        references,
        tokenize=settings.bleu_tokenize,
        progress=sys.stderr.isatty(),
    )
    best, default = tuning.best, tuning.default
    run.directory.write_search_defaults(best.options, in_training=True)
    say(
        f"\nalpha {best.alpha:g}, chosen on {len(sources):,} dev sentences (`--tune-alpha`): BLEU "
        f"{best.score:.2f}, length ratio {best.length_ratio:.3f}; {default.score:.2f} and "
        f"{default.length_ratio:.3f} with `--alpha` {default.alpha:g}. The run keeps this alpha."
    )
    record = {
        "text": batches.texts.dev_text.name,
        "sentences": len(sources),
        "signature": tuning.signature,
        "alphas": [one.alpha for one in tuning.results],
        "bleu": [one.score for one in tuning.results],
        "length_ratios": [one.length_ratio for one in tuning.results],
        "alpha_before": default.alpha,
        "bleu_before": default.score,
    }
    return best.options, record


def train_translation(
    settings: TranslationSettings,
    data: TranslationData,
    run_directory: PathLike,
    *,
    minutes: float | None = None,
    origin: PathLike | None = None,
    overwrite: bool = False,
    resume: bool = False,
    command: str = "",
    given: Mapping[str, SettingValue] | None = None,
    sift: SiftPairs = sift_here,
) -> training.FitRecord:
    """Train a translation model into a run directory, average checkpoints, and score the result.

    With several machines, each machine calls this function; only the first one writes and scores.

    Args:
        settings: the training settings.
        data: the texts.
        run_directory: path of the run; tokenized text is kept in `prepared/` next to it.
        minutes: minutes of training after which to stop.
        origin: path of a run to start from, with its model and tokenizers.
        overwrite: whether to replace an existing run.
        resume: whether to resume an existing run.
        command: the command line, for `scores.json`.
        given: the explicitly given settings, by name; the rest is fitted to the text, the
            minutes and the speed of the devices. None means that all settings are kept.
        sift: tokenizes and filters the text, as in `data.prepare_corpus`.

    Returns:
        The record of training. If it has an `exit_code`, a signal stopped training, and nothing was
        averaged or scored.

    Raises:
        UserInputError: text, settings or a run are not suitable, memory or disk space runs out,
            or another machine is lost.

    Example:

    ```python
    data = TranslationData([ParallelFiles("train.en", "train.de")])
    train_translation(TranslationSettings(preset="small"), data, "runs/en_de", minutes=60)
    ```
    """
    call = training.TrainingCommand(
        settings, run_directory, overwrite, resume, minutes, origin, command, given
    )
    return train_as_called(call, data, sift)


def train_as_called(
    call: training.TrainingCommand[TranslationSettings],
    data: TranslationData,
    sift: SiftPairs = sift_here,
) -> training.FitRecord:
    """Train as in `train_translation`; its other arguments are in `call`."""
    with training.TrainingRun.of(call) as run:
        # Settings that were not given: fitted to the text and the minutes
        settings = fit_settings(call, data, run)

        # Tokenizer: one for both sides, or one per side
        source_tokenizer, tokenizer = make_tokenizers(settings, data.train, run)

        # Batches
        batches = make_batches(settings, data, source_tokenizer, tokenizer, run, sift=sift)

        # Model
        with run.scope():
            model = translation_model(settings, source_tokenizer, tokenizer, run)
            loss = losses.LabelSmoothingCrossEntropy(**settings.loss_options(tokenizer))
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        begin_training(settings, batches, model, training_model, run)
        training_model.fit(run.batches(batches.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            averaged = average_weights(settings, batches.dev, run)

            # Shortlist
            if settings.shortlist:
                write_shortlist(batches, run)

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
    return run.record
