"""The model of a translation training: new, of another run, or of the run that goes on."""

import keras

from keras_transformer import losses, metrics, models, optimizers, training


def check_memory(settings, devices):
    """Refuse a model that is too large before hours are spent on its text.

    Args:
        settings: `TranslationSettings`.
        devices: `training.Devices`. A CPU holds weights, gradients and Adam's two means of them.

    Raises:
        UserInputError: the memory of the machine does not suffice.
    """
    options = settings.model_options()
    if settings.positions == "words":
        del options["positions"]  # they need the tokenizers, and next to no memory
    models.check_model_fits(
        settings.preset,
        # That of a tokenizer of one's own is known later, and checked when the model is built.
        vocabulary_size=1 if settings.tokenizer else settings.vocabulary_size,
        copies=4 if devices.device_name == "CPU" else 1,
        **options,
    )


def make_model(settings, source_tokenizer, tokenizer, origin=None):
    """Build the model of the settings, or load another run's.

    Args:
        settings: `TranslationSettings`.
        source_tokenizer, tokenizer: of the source and of the target; one object where they share a
            vocabulary.
        origin: a `RunDirectory` to start from, or None.

    Returns:
        A functional `keras.Model`, with frozen parts where the settings name some.

    Raises:
        UserInputError: the other run's files do not fit each other, or `freeze` names no layer.
    """
    if origin is None:
        model = _build(settings, source_tokenizer, tokenizer)
    else:
        model = origin.load_model(**settings.dropout_rates())
    return _freeze(model, settings)


def resume_model(settings, run):
    """The model of a run whose training goes on, without its weights: the state brings them.

    Args:
        settings: `TranslationSettings`.
        run: the `RunDirectory`.

    Returns:
        As `make_model`.
    """
    return _freeze(run.load_architecture(**settings.dropout_rates()), settings)


def compile_model(model, settings, tokenizer, accumulate=1):
    """Compile a model for training.

    Args:
        model: of `make_model` or `resume_model`.
        settings: `TranslationSettings`.
        tokenizer: of the target.
        accumulate: parts that each replica computes its share of a step in.

    Returns:
        The compiled `training.training_model` over the model's layers.
    """
    padding_id = tokenizer.special_tokens.pad
    loss = losses.LabelSmoothingCrossEntropy(
        settings.label_smoothing, padding_id, vocabulary_size=tokenizer.vocabulary_size
    )
    # The size and the precision are the model's: another run's may differ from the settings.
    embedding = models.TransformerStacks.of(model).target_embedding
    trainer = training.training_model(model, accumulate)
    trainer.compile(
        optimizer=optimizers.transformer_adam(
            embedding.hidden_dim, dtype=embedding.compute_dtype, **settings.optimizer_options()
        ),
        loss=loss,
        metrics=[
            metrics.TokenLoss(loss, padding_id),
            metrics.Perplexity(padding_id),
            metrics.TokenAccuracy(padding_id),
        ],
        weighted_metrics=[
            metrics.StepLoss(loss),
            metrics.StepLoss(losses.LabelSmoothingCrossEntropy(0.0, padding_id), name="step_nll"),
        ],
        jit_compile=settings.jit_compile(keras.backend.backend()),
    )
    return trainer


def _build(settings, source_tokenizer, tokenizer):
    options = settings.model_options(source_tokenizer, tokenizer)
    if source_tokenizer is not tokenizer:
        options["source_vocabulary_size"] = models.padded_vocabulary_size(
            source_tokenizer.vocabulary_size
        )
    return models.build_transformer(
        settings.preset,
        vocabulary_size=models.padded_vocabulary_size(tokenizer.vocabulary_size),
        padding_id=tokenizer.special_tokens.pad,
        **options,
    )


def _freeze(model, settings):
    if settings.freeze:
        training.freeze(model, settings.freeze.split())
    return model
