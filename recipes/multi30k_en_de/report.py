"""What the recipe shows at its end."""

from keras_transformer.run_directory import write_text
from recipes.run_scores import write_scores

EXAMPLES = 5


def report(run, translator, test_text, record, options, **results):
    """Translate the test set; write `samples.txt` and `scores.json`; print scores and examples.

    Args:
        run: the `RunDirectory`.
        translator: the `Translator` of the trained model.
        test_text: English and German captions, two lists of strings.
        record: the `training.FitRecord`.
        options: the `RecipeOptions` of the call, with `Multi30kSettings`.
        **results: what `scores.json` holds besides.
    """
    sources, references = test_text
    hypotheses = translator.translate(sources, progress=True)
    write_text(run.samples_path, "\n".join(hypotheses) + "\n")
    scores = write_scores(
        run,
        hypotheses,
        references,
        record=record,
        command=options.command,
        tokenize=options.settings.bleu_tokenize,
        **results,
    )
    print(f"\ntest_2016_flickr: BLEU {scores['bleu']:.2f}\n  {scores['signature']}\n")
    examples = zip(sources, hypotheses, references, strict=True)
    for source, hypothesis, reference in list(examples)[:EXAMPLES]:
        print(f"{source}\n  {hypothesis}\n  (reference: {reference})")
    print(f"\nAll translations: {run.samples_path}")
    print(f"To translate more: keras-transformer translate {run.path} < english > german\n")
    print(run.path)
