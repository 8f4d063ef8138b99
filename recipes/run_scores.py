"""The scores of a run: computed on its translations and kept in its `scores.json`."""

from keras_transformer.evaluation import bleu, score_record
from keras_transformer.run_directory import write_json


def write_scores(run, hypotheses, references, *, record, command, tokenize="13a", **others):
    """Score translations and write `scores.json`.

    Args:
        run: the `RunDirectory`.
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.
        record: the `training.FitRecord`.
        command: the command line of the run.
        tokenize: sacrebleu's tokenizer.
        **others: further results, such as `exact_match`.

    Returns:
        The content of `scores.json`, as `evaluation.score_record` makes it.
    """
    score, signature = bleu(hypotheses, references, tokenize=tokenize)
    scores = score_record(
        bleu=score,
        signature=signature,
        seconds=record.seconds,
        target_tokens_per_second=record.target_tokens_per_second,
        command=command,
        **others,
    )
    write_json(run.scores_path, scores)
    return scores
