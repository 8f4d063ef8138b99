"""Exports opened by CTranslate2 itself."""

import ctranslate2

from keras_transformer.formats.ctranslate2.writer import export_ctranslate2


def opened(translator, directory, precision="float32"):
    """Export a `Translator` and open the result as a `ctranslate2.Translator`."""
    path = export_ctranslate2(translator, directory, precision=precision)
    return ctranslate2.Translator(str(path), intra_threads=1)


def pieces_of(tokenizer, sentences):
    """The pieces of sentences: rows of strings."""
    return [tokenizer.pieces(row) for row in tokenizer.encode(sentences)]


def scores_of(exported, translator, sources, targets):
    """The log-probabilities that `Translator.score` gives, by CTranslate2."""
    found = exported.score_batch(
        pieces_of(translator.source_tokenizer, sources), pieces_of(translator.tokenizer, targets)
    )
    return [sum(result.log_probs) for result in found]


def translations_of(exported, translator, sentences, **options):
    """CTranslate2's best translation of each sentence, as text."""
    options = {"min_decoding_length": 0, "max_batch_size": 32} | options
    results = exported.translate_batch(pieces_of(translator.source_tokenizer, sentences), **options)
    names = translator.tokenizer.pieces(range(translator.tokenizer.vocabulary_size))
    ids = {name: i for i, name in enumerate(names)}
    return translator.tokenizer.decode(
        [[ids[piece] for piece in result.hypotheses[0]] for result in results]
    )
