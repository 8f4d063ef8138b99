"""A user's program, which `make lint` checks with the types of the package."""

from collections.abc import Iterable
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer import data, layers, losses, metrics, models, optimizers, text, training

SOURCES = ["one two", "two three", "three one"]
TARGETS = ["eins zwei", "zwei drei", "drei eins"]


def fit_and_translate(directory: str) -> list[str]:
    """A translator with `compile` and `fit`."""
    tokenizer = kt.SentencePieceTokenizer.train(SOURCES + TARGETS, vocabulary_size=40)
    reader = data.prepare_batches(SOURCES, TARGETS, tokenizer, directory, batch_tokens=256)
    model = kt.build_transformer(
        "tiny", vocabulary_size=tokenizer.vocabulary_size, num_encoder_layers=1, dropout=0.1
    )
    model.compile(kt.transformer_adam(128, warmup_steps=100), kt.LabelSmoothingCrossEntropy(0.1))
    model.fit(data.fit_batches(reader), steps_per_epoch=2, shuffle=False)
    translator = kt.Translator(model, tokenizer, beam_size=2, alpha=0.6, extra_length=10)
    best: list[str] = translator.translate(SOURCES)
    first: str = translator(SOURCES[0], progress=True)
    print(first.upper(), translator.translate("one", prefixes=["e"]).upper())
    for pairs in translator.translate_nbest(SOURCES, n=2, progress=True):
        for translation, score in pairs:
            print(translation.upper(), round(score, 3))
    scores: list[float] = translator.score(SOURCES, TARGETS, normalize=True)
    alignment: kt.Alignment = translator.align(SOURCES, TARGETS)[0]
    print(scores, alignment.pharaoh(), alignment.weights.sum())
    return best


def classifier(num_words: int) -> keras.Model:
    """The layers in a model of one's own."""
    token_ids = keras.Input((None,), dtype="int32")
    hidden = layers.PositionalEmbedding(num_words, 32, mask_id=0)(token_ids)
    for _ in range(2):
        hidden = layers.TransformerEncoderLayer(64, num_heads=2, activation="gelu")(hidden)
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(token_ids, keras.layers.Dense(1, activation="sigmoid")(pooled))


def attention(batch: np.ndarray) -> tuple[int, ...]:
    """One layer on its own, its output and its scores."""
    layer = layers.MultiHeadAttention(4, 16, dropout=0.1)
    outputs, scores = layer(batch, return_attention_scores=True, use_causal_mask=True)
    return (*outputs.shape, *scores.shape)


def train(lines: Iterable[str], directory: Path, cache: str) -> float:
    """A training that can be resumed, in a run directory."""
    tokenizer = text.SentencePieceTokenizer.train(lines, vocabulary_size=40)
    corpus = data.prepare_corpus(data.SentencePairs(SOURCES, TARGETS), tokenizer, cache)
    batches = data.plan_batches(corpus, tokenizer.special_tokens, batch_tokens=256, seed=1)
    with training.TrainingRun(directory, steps=10, save_every=5, resume=True) as run:
        with run.scope():
            model = models.build_transformer("tiny", vocabulary_size=tokenizer.vocabulary_size)
            trainer = training.training_model(model, run.accumulate)
            loss = losses.LabelSmoothingCrossEntropy(0.1, reduction="sum")
            optimizer = optimizers.transformer_adam(hidden_dim=128, warmup_steps=400)
            trainer.compile(optimizer, loss, **metrics.training_metrics(loss))
        run.begin(trainer, batches, batches, tokenizer=tokenizer)
        trainer.fit(run.batches(batches), callbacks=run.callbacks, **run.fit_options)
        training.average_checkpoints(run.directory.checkpoints.last(), run.directory.weights_path)
    return run.record.seconds


def load_and_export(run: str) -> str:
    """A trained run, and its exports."""
    translator = kt.Translator.load(run, "best", beam_size=4, batch_size=8)
    saved_model = kt.export.export_saved_model(translator, "exports/en_de", num_results=4)
    kt.export.export_litert(translator, "exports/en_de_litert", precision="int8")
    with kt.TranslationClient("http://localhost:8501", saved_model.parent.name) as client:
        return client.translate("one").strip()
