"""The end of a training: its scores and translations, on disk and for people."""

import sys

from keras_transformer.evaluation import (
    bleu,
    chrf,
    score_record,
    tokenized_compound_split_bleu,
)
from keras_transformer.files.whole_files import write_text
from keras_transformer.inference.translator import Translator
from keras_transformer.training import cost_table, training_cost

EXAMPLES = 5


def write_scores(run, hypotheses, references, *, tokenize="13a", **others):
    """Score translations and write `scores.json`.

    Args:
        run: the `training.TrainingRun`, at its end.
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.
        tokenize: sacrebleu's tokenizer.
        **others: further results, such as `exact_match`.

    Returns:
        The content of `scores.json`, as `evaluation.score_record` makes it.
    """
    record = run.record
    bleu_score, signature = bleu(hypotheses, references, tokenize=tokenize)
    chrf_score, chrf_signature = chrf(hypotheses, references)
    content = score_record(
        bleu=bleu_score,
        signature=signature,
        chrf=chrf_score,
        chrf_signature=chrf_signature,
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


def write_report(settings, batches, run, **results):
    """Translate the test text (the dev text without one); write and print scores and examples.

    `samples.txt` gets all translations. What the training cost is shown beside the paper's Table 2.

    Args:
        settings: `TranslationSettings`: those of the search and of the scores.
        batches: the `TrainingBatches`, with their texts and what became of these.
        run: the `training.TrainingRun`, at its end.
        **results: what `scores.json` holds besides.
    """
    texts, path = batches.texts, run.directory.path
    name, text = ("dev", texts.dev) if texts.test is None else ("test", texts.test)
    sources, references = map(list, zip(*text, strict=True))
    translator = Translator.load(path, long_sentences="cut", **settings.search_options())
    hypotheses = translator.translate(sources, progress=sys.stderr.isatty())
    # A model with byte pieces can produce line breaks.
    lines = [" ".join(hypothesis.splitlines()) for hypothesis in hypotheses]
    write_text(run.directory.samples_path, "\n".join(lines) + "\n")
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
        **results,
        **batches.record,
    )
    print(f"\n{name} ({text.name}, {len(sources):,} sentences)")
    print(f"  BLEU {scores['bleu']:.2f}  {scores['signature']}")
    if settings.language is not None:
        print(f"  BLEU {scores['tokenized_compound_split_bleu']:.2f}  tokenized, compounds split")
    print(f"  chrF {scores['chrf']:.2f}  {scores['chrf_signature']}\n")
    examples = zip(sources, hypotheses, references, strict=True)
    for source, hypothesis, reference in list(examples)[:EXAMPLES]:
        print(f"{source}\n  {hypothesis}\n  (reference: {reference})")
    print(f"\n{cost_table(scores['training_cost'], scores['bleu'])}")
    print(f"\nAll translations: {run.directory.samples_path}")
    print(f"To translate more: keras-transformer translate {path} < source.txt\n")
    print(path)
