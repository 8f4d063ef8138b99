"""End-to-end training of a translation model, with averaging, scores and a report."""

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
from keras_transformer.errors import reject
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
from keras_transformer.training.translation.data import (
    FEWEST_UPDATES,
    TranslationData,
    fit_settings,
)
from keras_transformer.training.translation.run_report import Example, write_run_report
from keras_transformer.training.translation.settings import TranslationSettings
from keras_transformer.training.translation.training_start import (
    TrainingBatches,
    begin_training,
    make_batches,
    make_tokenizers,
    translation_model,
)
from keras_transformer.training.translation.word_aligner import find_aligner
from keras_transformer.types import PathLike


def next_commands(path: pathlib.Path, source: str) -> list[str]:
    """Return commands to try with a run: translation, the web app, attention and export.

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
    """Print commands to try with a run, and the path of the run as the last line.

    Args:
        path: path of the run.
        source: a sentence that the run can translate.
        *more: further lines with suggestions, such as "Your own text: ... train --help".
    """
    lines = [f"  {command}" for command in next_commands(path, source)]
    say("\nTry next:", *lines, *more, "")
    say(path, result=True)


def program_name() -> str:
    """Return the command name `keras-transformer`, or its path if it is not in the shell's path."""
    own = pathlib.Path(sys.executable).with_name("keras-transformer")
    if shutil.which("keras-transformer") or not own.is_file():
        return "keras-transformer"
    return shlex.quote(os.path.relpath(own))


EXAMPLES = 5
MOST_SENTENCES = 1000  # maximum number of sentences for choosing alpha
MOST_ALIGNED = 1_000_000  # pairs
MOST_LOOKED_AT = 20  # number of dev sentences; the report shows attention for one of them


def average_weights(settings: TranslationSettings, dev: BatchReader, run: TrainingRun) -> int:
    """Average the checkpoints of a run and write the result as the run's weights.

    Args:
        settings: which checkpoints to average, and whether validation determines their number.
        dev: reader of the dev text.
        run: the finished training run.

    Returns:
        The number of averaged checkpoints.

    Raises:
        UserInputError: all checkpoints are damaged.
    """
    directory = run.directory
    paths = directory.checkpoints.last(settings.save_every)
    if settings.average_of == "best":
        paths = directory.checkpoints.best()[::-1] or paths
    paths = directory.checkpoints.whole(paths)
    if not settings.choose_average:
        paths = paths[-settings.keep_last :]
    if len(paths) > 1:
        say(f"\nAveraging checkpoints of {directory.path}")
    if not settings.choose_average:
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
    """Write the lexical shortlist of the training text to the run.

    Args:
        batches: the training text, of which at most `MOST_ALIGNED` pairs are aligned.
        run: the finished training run.
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
        run: the finished training run.
        hypotheses: the translations.
        references: one reference for each hypothesis.
        tokenize: sacrebleu's tokenizer.
        **others: additional results, such as `exact_match`.

    Returns:
        The contents of `scores.json`; see `evaluation.score_record`.
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

    With `shortlist`, the shortlist of the training text is written first. With `tune_alpha`, the
    length penalty is chosen on the dev text and stored in the run; without it, any penalty chosen
    when training last ended is removed. All translations are written to `samples.txt`, and a
    training report is written to `report.html`. Finally, suggested commands are printed.

    Args:
        settings: settings for decoding and scores.
        batches: the texts and the record of their preparation.
        run: the finished training run.
        **results: additional results for `scores.json`.
    """
    if settings.shortlist:
        write_shortlist(batches, run)
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
    # Taken from different parts of the text, which may be sorted by length.
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
    if run.record.steps < FEWEST_UPDATES:
        say(
            f"\nThe model was trained for only {run.record.steps:,} updates. For better "
            "translations, train a new run with more --minutes."
        )
    say_next_steps(path, source, f"  {cost}")


def _example_sentences(sources: Sequence[str]) -> list[str]:
    """Return a few short sentences from different parts of the text for the web app."""
    short = list(dict.fromkeys(source for source in sources if 12 <= len(source.strip()) <= 80))
    return short[len(short) // 8 :: max(1, len(short) // 4)][:4]


def _middle_sentence(sources: Iterable[str]) -> str:
    """Return a median-length sentence from the start of a text, or "" if all are empty.

    Sentences that a shell accepts in plain quotes are preferred.
    """
    first = [*itertools.islice(filter(str.strip, sources), MOST_LOOKED_AT)]
    with_text = [source for source in first if "'" not in source] or first
    by_length = sorted(with_text, key=len)
    return by_length[len(by_length) // 2] if by_length else ""


def tune_alpha(
    settings: TranslationSettings, batches: TrainingBatches, run: TrainingRun
) -> tuple[SearchKeywords, dict[str, Any]]:
    """Choose alpha by BLEU on the dev text, and store it in the run's search options.

    If training is resumed, the choice is removed; see `RunDirectory.undo_tuning`.

    Args:
        settings: the search options to tune, and how to compute BLEU.
        batches: the texts. At most `MOST_SENTENCES` sentences, spread over the dev text, are
            translated.
        run: the training run, which has ended, with its final weights.

    Returns:
        `(search, record)`: the fields of `SearchOptions` for translation, and the tuning record for
        `scores.json`.
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
    """Train a translation model in a run directory, average checkpoints, and score the result.

    With several machines, each machine calls this function, but only the first writes and scores.

    Args:
        settings: the training settings.
        data: the texts.
        run_directory: path of the run. Tokenized text is stored in `prepared/` next to the run.
        minutes: minutes after which training stops.
        origin: path of a run that provides the initial model and the tokenizers.
        overwrite: whether to replace an existing run.
        resume: whether to resume an existing run.
        command: command line to record in `scores.json`.
        given: explicitly specified settings by name; other settings are fitted to the text, the
            minutes and the speed of the devices. None keeps all settings.
        sift: tokenizes and filters the text, as in `data.prepare_corpus`.

    Returns:
        The record of training. If its `exit_code` is not None, a signal stopped training, and
        nothing was averaged or scored.

    Raises:
        UserInputError: text, settings or a run are unsuitable, memory or disk space runs out, or
            contact with another machine is lost.

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
    """Train like `train_translation`, with the remaining arguments from `call`."""
    if data.alignments is not None and not call.settings.aligns:
        fault = "`alignments` needs `guided_alignment` or `alignment_only`"
        reject(fault, alignments=[*map(str, data.alignments)])
    if data.alignments is None and call.settings.aligns:
        find_aligner()  # report a missing program now, not after preparing the text
    with training.TrainingRun.of(call) as run:
        # Fit unspecified settings to the text and the minutes
        settings = fit_settings(call, data, run)

        # One tokenizer for both sides, or one per side
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

            # Scores
            write_report(settings, batches, run, averaged_checkpoints=averaged)
    return run.record
