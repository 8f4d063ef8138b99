"""Invented captions that a small model learns in seconds."""

import itertools

from tests.translation_training.number_text import flags

WORDS = {"a": "ein", "dog": "hund", "man": "mann", "runs": "läuft", "sits": "sitzt", "here": "hier"}
SMALL = flags(
    vocabulary_size=40,
    batch_tokens=300,
    save_every=2,
    log_every=4,
    num_layers=1,
    hidden_dim=32,
    intermediate_dim=64,
    num_heads=2,
    bleu_sentences=4,
    tensorboard=False,
)


def captions(number):
    sources = [" ".join(words) for words in itertools.product(WORDS, repeat=4)][:number]
    return sources, [" ".join(WORDS[word] for word in source.split()) for source in sources]
