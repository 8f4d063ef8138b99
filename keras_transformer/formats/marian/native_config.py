"""The configuration that Marian keeps within model.npz, and its decoder.yml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_transformer.formats.marian.architecture import (
    ALWAYS,
    EOS,
    Architecture,
    activation,
    imported_search,
    refuse,
)

# What Marian's configuration must say where it says anything.
_NATIVE = {
    "type": "transformer",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-train-position-embeddings": "false",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-ffn-depth": "2",
    "transformer-no-projection": "false",
    "transformer-tied-layers": [],
    "layer-normalization": "false",
    "right-left": "false",
    "ulr-dim-emb": "0",
    "lemma-dim-emb": "0",
}


def read_native(
    path: Path,
    config: Mapping[str, Any],
    decoder: Mapping[str, Any],
    source_pieces: Mapping[str, int],
    pieces: Mapping[str, int],
) -> Architecture:
    """The architecture in the configuration that Marian keeps within model.npz.

    The id of padding, which Marian lacks, comes after the target's pieces on both sides.

    Args:
        path: the file, for errors.
        config: the configuration, values as texts.
        decoder: the content of decoder.yml, values as texts; empty without one.
        source_pieces, pieces: the ids of the pieces of both sides, the end of a sentence among
            them.
    """
    decoder_path = path.parent / "decoder.yml"
    _check_native(path, config, decoder_path, decoder)
    tied = [
        name for name in ("tied-embeddings-all", "tied-embeddings-src") if _is_true(config, name)
    ]
    if tied and source_pieces != pieces:
        refuse(path, tied[0], "false with two vocabularies", config[tied[0]])
    pad, source_eos = len(pieces), source_pieces[EOS]
    return Architecture(
        options={
            "vocabulary_size": pad + 1,
            "source_vocabulary_size": None if tied else max(pad, len(source_pieces)) + 1,
            "num_encoder_layers": _integer(path, config, "enc-depth", 6),
            "num_decoder_layers": _integer(path, config, "dec-depth", 6),
            "hidden_dim": _integer(path, config, "dim-emb", 512),
            "intermediate_dim": _integer(path, config, "transformer-dim-ffn", 2048),
            "num_heads": _integer(path, config, "transformer-heads", 8),
            "dropout": 0.1,
            "activation": activation(
                path,
                "transformer-ffn-activation",
                str(config.get("transformer-ffn-activation", "swish")),
            ),
            "tie_weights": "tied-embeddings-all" in tied or _is_true(config, "tied-embeddings"),
            "padding_id": pad,
            **ALWAYS,
        },
        pad=pad,
        start=pad,
        eos=pieces[EOS],
        source_eos=source_eos + (source_eos >= pad),  # padding lies before it
        source_rows=len(source_pieces),
        target_rows=len(pieces),
        search=imported_search(
            dict.fromkeys(("beam-size", "normalize"), decoder_path),
            # Without decoder.yml, as OPUS-MT's releases have it; else Marian's own defaults.
            beam_size=(
                "beam-size",
                _integer(decoder_path, decoder, "beam-size", 12 if decoder else 6),
            ),
            alpha=(
                "normalize",
                _number(decoder_path, decoder, "normalize", 0.0 if decoder else 1.0),
            ),
            renormalize=("", True),  # Marian has no padding
            min_length=("", 0),
            no_repeat_ngram=("", 0),
            ending=("", "transformers"),
            max_source_length=("", 512),
        ),
    )


def _check_native(
    path: Path, config: Mapping[str, Any], decoder_path: Path, decoder: Mapping[str, Any]
) -> None:
    for name, expected in _NATIVE.items():
        if str(config.get(name, expected)).lower() != str(expected):
            refuse(path, name, repr(expected), config[name])
    if _number(decoder_path, decoder, "word-penalty", 0) != 0:
        refuse(decoder_path, "word-penalty", "0", decoder["word-penalty"])


def _is_true(config: Mapping[str, Any], name: str) -> bool:
    return str(config.get(name, "false")).lower() == "true"


def _integer(path: Path, config: Mapping[str, Any], name: str, default: int) -> int:
    number = _number(path, config, name, default)
    if not number.is_integer() or number < 1:
        refuse(path, name, "a positive integer", config[name])
    return int(number)


def _number(path: Path, config: Mapping[str, Any], name: str, default: float) -> float:
    try:
        return float(config.get(name, default))
    except (TypeError, ValueError, OverflowError):
        refuse(path, name, "a number", config[name])
        raise
