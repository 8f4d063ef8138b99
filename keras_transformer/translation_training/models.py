"""The model of a translation training, new or of another run, compiled."""

import keras

from keras_transformer import losses, metrics, models, optimizers, training


def make_model(settings, source_tokenizer, tokenizer, origin=None):
    """Build the model of the settings, or load another run's, and compile it.

    Args:
        settings: `TranslationSettings`.
        source_tokenizer, tokenizer: of the source and of the target; one object where they share a
            vocabulary.
        origin: a `RunDirectory` to start from, or None.

    Returns:
        A compiled `keras.Model`.

    Raises:
        UserInputError: the other run's files do not fit each other, or `freeze` names no layer.
    """
    model = _load(settings, origin) if origin else _build(settings, source_tokenizer, tokenizer)
    if settings.freeze:
        training.freeze(model, settings.freeze.split())
    padding_id = tokenizer.special_tokens.pad
    loss = losses.LabelSmoothingCrossEntropy(
        settings.label_smoothing, padding_id, vocabulary_size=tokenizer.vocabulary_size
    )
    model.compile(
        optimizer=_make_optimizer(settings, models.TransformerLayers.of(model).target_embedding),
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
    )
    return model


def _make_optimizer(settings, embedding):
    """The optimizer for the size and the precision that a model's embedding has."""
    ema = {"use_ema": True, "ema_momentum": settings.ema_momentum} if settings.ema else {}
    optimizer = optimizers.transformer_adam(
        embedding.hidden_dim, settings.warmup_steps, settings.learning_rate_scale, **ema
    )
    if embedding.compute_dtype != "float16":
        return optimizer
    # Keras does this by itself only where the policy of the model as a whole is mixed_float16.
    return keras.optimizers.LossScaleOptimizer(optimizer)


def _load(settings, origin):
    return origin.load_model(
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        activation_dropout=settings.activation_dropout,
    )


def _build(settings, source_tokenizer, tokenizer):
    options = settings.model_options()
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
