"""The end of a training: its scores and translations, on disk and for people."""

import sys

from keras_transformer.evaluation import bleu, chrf, score_record
from keras_transformer.files.whole_files import write_text
from keras_transformer.training import cost_table, training_cost

EXAMPLES = 5


def write_scores(run, hypotheses, references, *, record, speed, command, tokenize="13a", **others):
    """Score translations and write `scores.json`.

    Args:
        run: the `RunDirectory`.
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.
        record: the `training.FitRecord`.
        speed: the `training.DeviceSpeed` of the training.
        command: the command line of the run.
        tokenize: sacrebleu's tokenizer.
        **others: further results, such as `exact_match`.

    Returns:
        The content of `scores.json`, as `evaluation.score_record` makes it.
    """
    bleu_score, signature = bleu(hypotheses, references, tokenize=tokenize)
    chrf_score, chrf_signature = chrf(hypotheses, references)
    content = score_record(
        bleu=bleu_score,
        signature=signature,
        chrf=chrf_score,
        chrf_signature=chrf_signature,
        seconds=record.seconds,
        target_tokens_per_second=record.target_tokens_per_second,
        command=command,
        **others,
        step_seconds=record.step_seconds,
        flop_utilisation=record.flop_utilisation,
        training_cost=training_cost(record, speed),
    )
    run.checksums.write_json(run.scores_path, content)
    return content


def write_report(run, translator, data, *, tokenize, record, speed, command, **results):
    """Translate the test text (the dev text without one); write and print scores and examples.

    `samples.txt` gets all translations. What the training cost is shown beside the paper's Table 2.

    Args:
        run: the `RunDirectory`.
        translator: the `Translator` of the trained model.
        data: the `TranslationData`.
        tokenize: sacrebleu's tokenizer.
        record: the `training.FitRecord`.
        speed: the `training.DeviceSpeed` of the training.
        command: the command line of the run.
        **results: what `scores.json` holds besides.
    """
    name, text = ("dev", data.dev) if data.test is None else ("test", data.test)
    sources, references = map(list, zip(*text, strict=True))
    hypotheses = translator.translate(sources, progress=sys.stderr.isatty())
    # A model with byte pieces can produce line breaks.
    lines = [" ".join(hypothesis.splitlines()) for hypothesis in hypotheses]
    write_text(run.samples_path, "\n".join(lines) + "\n")
    scores = write_scores(
        run,
        hypotheses,
        references,
        record=record,
        speed=speed,
        command=command,
        tokenize=tokenize,
        evaluated_on={"name": name, "text": text.name, "sentences": len(sources)},
        **results,
    )
    print(f"\n{name} ({text.name}, {len(sources):,} sentences)")
    print(f"  BLEU {scores['bleu']:.2f}  {scores['signature']}")
    print(f"  chrF {scores['chrf']:.2f}  {scores['chrf_signature']}\n")
    examples = zip(sources, hypotheses, references, strict=True)
    for source, hypothesis, reference in list(examples)[:EXAMPLES]:
        print(f"{source}\n  {hypothesis}\n  (reference: {reference})")
    print(f"\n{cost_table(scores['training_cost'], scores['bleu'])}")
    print(f"\nAll translations: {run.samples_path}")
    print(f"To translate more: keras-transformer translate {run.path} < source.txt\n")
    print(run.path)
