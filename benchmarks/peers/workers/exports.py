"""Writes an export of a model with random weights for an engine."""

import argparse
import json
from typing import Any

from benchmarks.peers.workers.search_inputs import ALPHA, FIRST_TOKEN


def export(
    kind: str,
    directory: str,
    precision: Any,  # each type uses its own names
    preset: str,
    vocabulary_size: int,
    beam_size: int,
    length: int,
    tokenizer: str | None,
) -> None:
    """Write an export.

    Args:
        kind: "saved_model", "litert" or "ctranslate2".
        directory: output directory.
        precision: number format of the weights.
        preset, vocabulary_size, beam_size: see `Row`.
        length: number of output tokens for a source of `length` - 1 tokens.
        tokenizer: vocabulary file; None for an invented vocabulary.
    """
    import keras

    from keras_transformer import export as exports
    from keras_transformer.inference.translator import Translator
    from keras_transformer.models import build_transformer
    from keras_transformer.text import SentencePieceTokenizer

    keras.utils.set_random_seed(0)
    translator = Translator(
        build_transformer(preset, vocabulary_size=vocabulary_size),
        SentencePieceTokenizer.load(tokenizer)
        if tokenizer
        else SentencePieceTokenizer(invented_vocabulary(vocabulary_size)),
        beam_size=beam_size,
        alpha=ALPHA,
        min_length=length,
        extra_length=1,
        num_results=1,
    )
    if kind == "saved_model":  # version 1 in a directory of versions
        versions = f"{directory}-versions"
        exports.export_saved_model(translator, versions, precision=precision).rename(directory)
    elif kind == "litert":
        exports.export_litert(translator, directory, precision=precision)
    else:
        exports.export_ctranslate2(translator, directory, precision=precision)


def invented_vocabulary(size: int) -> bytes:
    """Return a serialized SentencePiece model with numbered pieces."""
    from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

    model = ModelProto()
    trainer = model.trainer_spec
    trainer.pad_id, trainer.bos_id, trainer.eos_id, trainer.unk_id = 0, 1, 2, 3
    trainer.vocab_size = size
    kind = ModelProto.SentencePiece
    for piece in ("<pad>", "<s>", "</s>"):
        model.pieces.add(piece=piece, score=0.0, type=kind.CONTROL)
    model.pieces.add(piece="<unk>", score=0.0, type=kind.UNKNOWN)
    for token in range(FIRST_TOKEN, size):
        model.pieces.add(piece=f"t{token}", score=-float(token), type=kind.NORMAL)
    return model.SerializeToString()


def main() -> None:
    """Write an export. The command line contains the arguments of `export` as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("request", help="arguments of `export` as JSON")
    export(**json.loads(parser.parse_args().request))


if __name__ == "__main__":
    main()
