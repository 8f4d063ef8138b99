"""Train a Transformer to parse sentences into constituency trees, and score it with EVALB."""

import sys
from collections.abc import Sequence

from keras_transformer import losses, models, training
from keras_transformer.toolkit.cli import run_command
from recipes.recipe_options import recipe_options
from recipes.wsj_parsing.report import TREES, check_dev_set, report
from recipes.wsj_parsing.settings import ParsingSettings
from recipes.wsj_parsing.tree_data import make_batches
from recipes.wsj_parsing.treebank import add_treebank_arguments, make_tokenizers, treebanks


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Train, average the last checkpoints and score. `arguments` are command-line arguments."""
    options, values = recipe_options(
        "wsj_parsing",
        ParsingSettings,
        __doc__,
        arguments=arguments,
        add=add_treebank_arguments,
        fine_tuning=False,
    )
    settings = options.settings
    with training.TrainingRun.of(options, results=TREES) as run:
        # Text
        train_texts, dev_text = treebanks(values.data, values.more_trees)

        # Tokenizer: one for words, one for trees
        source_tokenizer, tokenizer = make_tokenizers(train_texts, settings, run)

        # Batches
        data = make_batches(train_texts, dev_text, source_tokenizer, tokenizer, settings, run)

        # Model
        with run.scope():
            model = run.earlier_model(**settings.dropout_rates()) or models.build_transformer(
                **settings.model_options(source_tokenizer, tokenizer)
            )
            loss = losses.LabelSmoothingCrossEntropy(settings.label_smoothing, reduction="sum")
            training_model = settings.compile(model, loss, run.accumulate, tokenizer.special_tokens)

        # Training
        check_dev_set(data, model, settings)
        run.say(data)
        run.begin(
            training_model,
            data.train,
            data.dev,
            tokenizer=tokenizer,
            source_tokenizer=source_tokenizer,
        )
        training_model.fit(run.batches(data.train), callbacks=run.callbacks, **run.fit_options)
        if run.is_chief:
            # Average
            checkpoints = run.directory.checkpoints
            last = checkpoints.whole(checkpoints.last(settings.save_every))[-settings.average :]
            training.average_checkpoints(last, run.directory.weights_path)

            # Scores
            results = {"training_trees": data.training_trees, "averaged_checkpoints": len(last)}
            report(run, data.gold, settings, **results)
    return run.exit_code


if __name__ == "__main__":
    sys.exit(run_command(main))
