"""What a Marian model is made of: its configuration in both forms, as arguments of ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_record, to_record
from keras_transformer.search_options import SearchOptions

LAYER_NORM_EPSILON = 1e-5  # PyTorch's default, which both forms rest on
# The names of activations: theirs -> ours, which Keras takes.
ACTIVATIONS = {"swish": "swish", "silu": "swish", "gelu": "gelu", "relu": "relu"}


class HuggingFaceConfig(msgspec.Struct, kw_only=True):
    """config.json of a Hugging Face folder; the defaults are those of `MarianConfig`."""

    model_type: str
    pad_token_id: int = 58100
    eos_token_id: int = 0
    decoder_start_token_id: int = 58100
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    d_model: int = 1024
    encoder_layers: int = 12
    decoder_layers: int = 12
    encoder_attention_heads: int = 16
    decoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    decoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    dropout: float = 0.1
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    static_position_embeddings: bool = True
    normalize_before: bool = False
    normalize_embedding: bool = False
    add_final_layer_norm: bool = False
    num_beams: int | None = None
    length_penalty: float | None = None
    bad_words_ids: list[list[int]] | None = None


class Architecture(msgspec.Struct, kw_only=True):
    """A Marian model in the words of `build_transformer`.

    Attributes:
        options: arguments of `build_transformer`.
        pad, start, eos: ids of padding, of the decoder's first input and of the end of a sentence.
        search: fields of `SearchOptions`, the model's own defaults.
    """

    options: dict[str, Any]
    pad: int
    start: int
    eos: int
    search: dict[str, Any]


def read_hugging_face(directory: Path) -> Architecture:
    """The architecture in config.json, with the search in generation_config.json if it is there.

    Raises:
        UserInputError: a file is damaged, or the model is no Marian model or one with an option
            that this package lacks.
    """
    path = directory / "config.json"
    values = _without_none(read_record(path, dict[str, Any]))
    search_path = directory / "generation_config.json"
    if search_path.exists():
        generation = _without_none(read_record(search_path, dict[str, Any]))
        names = ("num_beams", "length_penalty", "bad_words_ids")
        values |= {name: generation[name] for name in names if name in generation}
    if values.get("model_type") != "marian":
        raise UserInputError(
            f"{path} must be of a Marian model, such as OPUS-MT's. Received: "
            f"model_type={str(values.get('model_type'))[:100]!r}"
        )
    config = to_record(path, values, HuggingFaceConfig)
    _require(
        path,
        config,
        scale_embedding=True,
        static_position_embeddings=True,
        normalize_before=False,
        normalize_embedding=False,
        add_final_layer_norm=False,
        decoder_attention_heads=config.encoder_attention_heads,
        decoder_ffn_dim=config.encoder_ffn_dim,
    )
    never = [[config.pad_token_id], [config.decoder_start_token_id]]  # what our search never gives
    if any(ids not in never for ids in config.bad_words_ids or []):
        _refuse(path, "bad_words_ids", never, config.bad_words_ids)
    if config.decoder_start_token_id == config.eos_token_id:
        _refuse(path, "decoder_start_token_id", "another id", config.decoder_start_token_id)
    return Architecture(
        options={
            "vocabulary_size": config.decoder_vocab_size or config.vocab_size,
            "source_vocabulary_size": None
            if config.share_encoder_decoder_embeddings
            else config.vocab_size,
            "num_encoder_layers": config.encoder_layers,
            "num_decoder_layers": config.decoder_layers,
            "hidden_dim": config.d_model,
            "intermediate_dim": config.encoder_ffn_dim,
            "num_heads": config.encoder_attention_heads,
            "dropout": config.dropout,
            "activation": _activation(path, "activation_function", config.activation_function),
            "tie_weights": config.tie_word_embeddings,
            "padding_id": config.pad_token_id,
            **_ALWAYS,
        },
        pad=config.pad_token_id,
        start=config.decoder_start_token_id,
        eos=config.eos_token_id,
        search=_search(
            path,
            beam_size=config.num_beams or 4,
            alpha=1.0 if config.length_penalty is None else config.length_penalty,
            max_source_length=config.max_position_embeddings,
        ),
    )


# What every Marian model has.
_ALWAYS = {
    "layer_norm_epsilon": LAYER_NORM_EPSILON,
    "normalize_first": False,
    "positions": "sinusoidal",
    "use_bias": True,
    "use_logits_bias": True,
}
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
    path: Path, config: Mapping[str, Any], decoder: Mapping[str, Any], num_pieces: int, eos: int
) -> Architecture:
    """The architecture in the configuration that Marian keeps within model.npz.

    Args:
        path: the file, for errors.
        config: the configuration, values as texts.
        decoder: the content of decoder.yml, values as texts; empty without one.
        num_pieces: number of the vocabulary's pieces; padding comes after them.
        eos: id of the end of a sentence.
    """
    for name, expected in _NATIVE.items():
        if str(config.get(name, expected)).lower() != str(expected):
            _refuse(path, name, expected, config[name])
    decoder_path = path.parent / "decoder.yml"
    tied_all = _is_true(config, "tied-embeddings-all")
    return Architecture(
        options={
            "vocabulary_size": num_pieces + 1,
            "source_vocabulary_size": None
            if tied_all or _is_true(config, "tied-embeddings-src")
            else num_pieces + 1,
            "num_encoder_layers": _integer(path, config, "enc-depth", 6),
            "num_decoder_layers": _integer(path, config, "dec-depth", 6),
            "hidden_dim": _integer(path, config, "dim-emb", 512),
            "intermediate_dim": _integer(path, config, "transformer-dim-ffn", 2048),
            "num_heads": _integer(path, config, "transformer-heads", 8),
            "dropout": 0.1,
            "activation": _activation(
                path,
                "transformer-ffn-activation",
                str(config.get("transformer-ffn-activation", "swish")),
            ),
            "tie_weights": tied_all or _is_true(config, "tied-embeddings"),
            "padding_id": num_pieces,
            **_ALWAYS,
        },
        pad=num_pieces,
        start=num_pieces,
        eos=eos,
        search=_search(
            decoder_path,
            beam_size=_integer(decoder_path, decoder, "beam-size", 6),
            alpha=_number(decoder_path, decoder, "normalize", 1.0),
            max_source_length=512,
        ),
    )


def _search(path: Path, **search: Any) -> dict[str, Any]:
    """Fields of `SearchOptions`, after their checks."""
    search |= {"length_penalty": "power", "ending": "transformers"}
    try:
        SearchOptions(**search)
    except ValueError as error:
        raise UserInputError(f"The model of {path} cannot be imported: {error}") from error
    return search


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _require(path: Path, config: HuggingFaceConfig, **expected: Any) -> None:
    for name, value in expected.items():
        if getattr(config, name) != value:
            _refuse(path, name, value, getattr(config, name))


def _refuse(path: Path, name: str, expected: Any, value: Any) -> None:
    raise UserInputError(
        f"The model of {path} cannot be imported: `{name}` must be {expected!r}. "
        f"Received: {name}={repr(value)[:100]}"
    )


def _activation(path: Path, name: str, value: str) -> str:
    if value not in ACTIVATIONS:
        _refuse(path, name, sorted(ACTIVATIONS), value)
    return ACTIVATIONS[value]


def _is_true(config: Mapping[str, Any], name: str) -> bool:
    return str(config.get(name, "false")).lower() == "true"


def _integer(path: Path, config: Mapping[str, Any], name: str, default: int) -> int:
    number = _number(path, config, name, default)
    if not number.is_integer() or number < 1:
        _refuse(path, name, "a positive integer", config[name])
    return int(number)


def _number(path: Path, config: Mapping[str, Any], name: str, default: float) -> float:
    try:
        return float(config.get(name, default))
    except (TypeError, ValueError, OverflowError):
        _refuse(path, name, "a number", config[name])
        raise
