"""Reading the configurations of Marian models, which may be malicious."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell
from keras_transformer.formats.format import cannot_import
from keras_transformer.input_files import read_input, read_record, to_record
from keras_transformer.installation import requiring
from keras_transformer.search_options import SearchOptions, names_in

MOST_BYTES = 1 << 22  # a vocabulary of 60,000 pieces takes less than 2 million
MOST_PIECES = 250_000
_MOST_EVENTS = 600_000  # limit of parser events, two per piece
_DEEPEST = 20  # limit of nested collections
_TAGS = re.compile("^%TAG|[\n\r\x85\u2028\u2029]%TAG")  # after each YAML line break


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file. Values are strings, or lists and mappings of strings.

    Raises:
        UserInputError: the file is missing, damaged or too large, or contains other types.
    """
    return parse_yaml(path, read_input(path, MOST_BYTES))


def parse_yaml(path: Path, content: bytes) -> dict[str, Any]:
    """Like `read_yaml`, but parses the contents of a file or a part of them."""
    yaml = _yaml()
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        text = content.decode("utf-8-sig")  # PyYAML would also accept UTF-16
        if _TAGS.search(text):  # PyYAML copies all tags for each document
            raise ValueError("it has %TAG directives")
        events = _checked(yaml, yaml.parse(text, Loader=loader))
        nodes = (event for event in events if isinstance(event, yaml.NodeEvent))
        documents = [_value_of(yaml, event, events) for event in nodes]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = "".join(filter(str.isprintable, " ".join(str(error).split())))[:100]
        raise UserInputError(f"{path} is damaged: its YAML cannot be read: {reason}.") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise UserInputError(f"{path} is damaged: it must contain names and values.")
    return documents[0]


def _checked(yaml: Any, events: Iterable[Any]) -> Iterator[Any]:
    """Yield parser events, rejecting documents with aliases or excessive nesting."""
    depth = 0
    for count, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        # Deep nesting crashes PyYAML, and a few lines with aliases can expand to a billion values.
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            raise ValueError("it has aliases, or is nested too deep")
        if count > _MOST_EVENTS:
            raise ValueError(f"it has more than {_MOST_EVENTS:,} values")
        yield event


def _value_of(yaml: Any, event: Any, events: Iterator[Any]) -> Any:
    """Build the value that starts with an event: a string, or a list or dict of strings.

    PyYAML's own loader builds a node graph, which takes several times as much memory.
    """
    if isinstance(event, yaml.ScalarEvent):
        return event.value
    values = []
    while not isinstance(each := next(events), yaml.CollectionEndEvent):
        values.append(_value_of(yaml, each, events))
    if isinstance(event, yaml.SequenceStartEvent):
        return values
    names = values[::2]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a name is not text")
    return dict(zip(names, values[1::2], strict=True))


def write_yaml(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a YAML file with these names and values."""
    return _yaml().safe_dump(dict(content), sort_keys=False, allow_unicode=True).encode()


def _yaml() -> Any:
    with requiring("interop", "Marian's files need the package PyYAML"):
        import yaml
    return yaml


EOS, PAD = "</s>", "<pad>"
# Activations: Hugging Face and Keras names -> our names, which Marian also accepts.
ACTIVATIONS = {"swish": "swish", "silu": "swish", "gelu": "gelu", "relu": "relu"}
# Options of all Hugging Face models and most Marian models.
USUAL = {
    "normalize_first": False,
    "use_bias": True,
    "use_logits_bias": True,
}
# Model options -> names in config.json.
CONFIG_NAMES = {
    "hidden_dim": "d_model",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_heads": "encoder_attention_heads",
    "intermediate_dim": "encoder_ffn_dim",
    "dropout": "dropout",
    "tie_weights": "tie_word_embeddings",
}
# Required values in config.json.
CONFIG_FIXED = {
    "scale_embedding": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
}
# Model options -> names and defaults in Marian's configuration.
NATIVE_SIZES = {
    "hidden_dim": ("dim-emb", 512),
    "num_encoder_layers": ("enc-depth", 6),
    "num_decoder_layers": ("dec-depth", 6),
    "intermediate_dim": ("transformer-dim-ffn", 2048),
    "num_heads": ("transformer-heads", 8),
}
_LARGEST_BEAM = 1000  # limit for untrusted files; a larger beam would run for hours


class Architecture(msgspec.Struct, kw_only=True):
    """A Marian model described by arguments of `build_transformer`.

    Attributes:
        options: arguments for `build_transformer`.
        pad, start, eos: ids of padding, the decoder's first input and EOS.
        source_eos: id of EOS in the source vocabulary.
        source_rows, target_rows: numbers of rows in the file's embedding tables.
        tied_layers: for each decoder layer, counted from 1, the layer whose weights it shares;
            empty if no weights are shared.
        search: the model's default values for fields of `SearchOptions`.
        right_to_left: whether both sides are processed in reverse order.
        banned, banned_path: ids that the search must never produce, and the file that lists them.
    """

    options: dict[str, Any]
    pad: int
    start: int
    eos: int
    source_eos: int
    source_rows: int
    target_rows: int
    search: dict[str, Any]
    tied_layers: list[int] = []
    right_to_left: bool = False
    banned: list[list[int]] = []
    banned_path: Path = Path()


def imported_search(origins: Mapping[str, Path], **given: tuple[str, Any]) -> dict[str, Any]:
    """Validate and return fields of `SearchOptions`.

    Args:
        origins: file that defines each key.
        **given: fields mapped to their keys (for error messages) and values.
    """
    rules = {"length_penalty": "power"}
    for field, (key, value) in given.items():
        try:
            SearchOptions(**rules, **{field: value})  # type: ignore[arg-type]
        except ValueError as error:
            reason = str(error).replace(field, key)
            raise cannot_import(origins[key], reason) from error
        if field == "beam_size" and value > _LARGEST_BEAM:
            refuse(origins[key], key, f"at most {_LARGEST_BEAM:,}", value)
    return {field: value for field, (_, value) in given.items()} | rules


def refuse(path: Path, name: str, rule: str, value: Any) -> NoReturn:
    """Raise a `UserInputError` for an option that this package does not support.

    Args:
        path: file that contains the option.
        name: key of the option.
        rule: requirement for the value.
        value: actual value.
    """
    received = f"{name}={repr(value)[:100]}"
    raise cannot_import(path, f"`{name}` must be {rule}. Received: {received}")


def activation(path: Path, name: str, value: str) -> str:
    """Return the Keras name of a Marian activation. See `refuse` for the arguments."""
    if value not in ACTIVATIONS:
        refuse(path, name, f"one of {sorted(ACTIVATIONS)}", value)
    return ACTIVATIONS[value]


class GenerationConfig(msgspec.Struct, kw_only=True):
    """The fields of generation_config.json that are used. Older folders keep them in config.json.

    The defaults match `transformers.GenerationConfig`.
    """

    num_beams: int = 1
    length_penalty: float = 1.0
    renormalize_logits: bool | None = None
    min_length: int = 0
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    early_stopping: bool | str = False
    num_beam_groups: int = 1
    do_sample: bool = False
    bad_words_ids: list[list[int]] | None = None


class HuggingFaceConfig(GenerationConfig, kw_only=True):
    """config.json of a Hugging Face folder. The defaults match `transformers.MarianConfig`."""

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


def read_hugging_face(directory: Path) -> Architecture:
    """Read the architecture from config.json and any search options in generation_config.json.

    Raises:
        UserInputError: a file is damaged, the model is not a Marian model, or the model uses an
            option that this package does not support.
    """
    config, origins = _read_configs(directory)
    path = directory / "config.json"
    required = CONFIG_FIXED | {
        "decoder_attention_heads": config.encoder_attention_heads,
        "decoder_ffn_dim": config.encoder_ffn_dim,
    }
    for name, value in required.items():
        if getattr(config, name) != value:
            refuse(path, name, repr(value), getattr(config, name))
    if config.decoder_start_token_id == config.eos_token_id:
        refuse(path, "decoder_start_token_id", "another id", config.decoder_start_token_id)
    _tell_left_out(config, origins)
    is_shared = config.share_encoder_decoder_embeddings
    # `MarianMTModel` ignores the target vocabulary size if both sides share a table.
    target_size = (not is_shared and config.decoder_vocab_size) or config.vocab_size
    return Architecture(
        options={
            "vocabulary_size": target_size,
            "source_vocabulary_size": None if is_shared else config.vocab_size,
            **{ours: getattr(config, name) for ours, name in CONFIG_NAMES.items()},
            "activation": activation(path, "activation_function", config.activation_function),
            "padding_id": config.pad_token_id,
            "layer_norm_epsilon": 1e-5,  # PyTorch's default
            "positions": "sinusoidal",
            **USUAL,
        },
        pad=config.pad_token_id,
        start=config.decoder_start_token_id,
        eos=config.eos_token_id,
        source_eos=config.eos_token_id,
        source_rows=config.vocab_size,
        target_rows=target_size,
        banned=config.bad_words_ids or [],
        banned_path=origins["bad_words_ids"],
        search=imported_search(
            origins,
            **{ours: (key, getattr(config, key)) for ours, key in names_in("transformers").items()},
            renormalize=("renormalize_logits", _renormalizes(directory, config)),
            ending=(
                "early_stopping",
                {"never": "any", True: "first"}.get(config.early_stopping, "transformers"),
            ),
            # Transformers counts the decoder's first input.
            min_length=("min_length", max(0, config.min_length - 1)),
            max_source_length=("max_position_embeddings", config.max_position_embeddings),
        ),
    )


def _renormalizes(directory: Path, config: HuggingFaceConfig) -> bool:
    """Return whether banned tokens get zero probability.

    If the files do not specify this, the result is true for folders without generation_config.json,
    which may predate the option. Marian does the same.
    """
    if config.renormalize_logits is None:
        return not (directory / "generation_config.json").exists()
    return config.renormalize_logits


def _tell_left_out(config: HuggingFaceConfig, origins: Mapping[str, Path]) -> None:
    """Print a warning to stderr for each option that our search does not support."""
    usual = GenerationConfig()
    read = {*names_in("transformers").values(), "renormalize_logits", "min_length", "bad_words_ids"}
    for name in GenerationConfig.__struct_fields__:
        value = getattr(config, name)
        ours = (False, True, "never") if name == "early_stopping" else (getattr(usual, name),)
        if name not in read and value not in ours:
            tell(
                f"warning: {origins[name]}: this package's search has no counterpart of "
                f"{name}={repr(value)[:100]}: the run ignores it."
            )


def _read_configs(directory: Path) -> tuple[HuggingFaceConfig, dict[str, Path]]:
    """Read the values of both files, with generation_config.json taking precedence.

    Returns:
        The values, and the file in which each name is defined.
    """
    path = directory / "config.json"
    values = _without_none(read_record(path, dict[str, Any]))
    search_path, fields = directory / "generation_config.json", GenerationConfig.__struct_fields__
    generation: dict[str, Any] = {}
    if search_path.exists():
        found = _without_none(read_record(search_path, dict[str, Any]))
        to_record(search_path, found, GenerationConfig)
        generation = {name: value for name, value in found.items() if name in fields}
        # `generate` then uses only these values, and defaults for all others.
        values = {k: v for k, v in values.items() if k not in fields} | generation
    origins = dict.fromkeys(HuggingFaceConfig.__struct_fields__, path)
    origins |= dict.fromkeys(generation, search_path)
    if values.get("model_type") != "marian":
        raise UserInputError(
            f"{path} must describe a Marian model, such as OPUS-MT's. Received: "
            f"model_type={str(values.get('model_type'))[:100]!r}"
        )
    return to_record(path, values, HuggingFaceConfig), origins


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# Required values of these keys, if Marian's configuration contains them.
_NATIVE = {
    "type": "transformer",
    "transformer-rnn-projection": "false",
    "transformer-ffn-depth": "2",
    "transformer-decoder-ffn-depth": "0",
    "transformer-decoder-dim-ffn": "0",
    "transformer-no-projection": "false",
    "transformer-no-bias": "false",
    "transformer-no-affine": "false",
    "transformer-pool": "false",
    "transformer-attention-mask": "default",
    "transformer-disable-position-embeddings": "false",
    "layer-normalization": "false",
    "ulr-dim-emb": "0",
    "lemma-dim-emb": "0",
}
# Steps around sub-layers: n normalizes, a adds the inputs, d is dropout (only in training).
_PRE_NORM, _POST_NORM = ("n", "a"), ("", "an")
_MOST_TIED = 64  # limit of decoder layers that share weights; more could far exceed the file size


def read_native(
    path: Path,
    config: Mapping[str, Any],
    decoder_path: Path,
    decoder: Mapping[str, Any],
    source_pieces: Mapping[str, int],
    pieces: Mapping[str, int],
) -> Architecture:
    """Read the architecture from the Marian configuration stored in model.npz.

    Marian does not define a padding id. On both sides, padding follows the target's pieces, unless
    a piece with that name exists, as in models exported by this package.

    Args:
        path: model file, for error messages.
        config: configuration with string values.
        decoder_path: file of the decoder configuration, for error messages.
        decoder: decoder configuration with string values; empty if there is no such file.
        source_pieces, pieces: piece ids of the two sides, including EOS.
    """
    for name, expected in _NATIVE.items():
        if str(config.get(name, expected)).lower() != expected:
            refuse(path, name, repr(expected), config[name])
    # Without decoder.yml, use the values of OPUS-MT releases; otherwise use Marian's defaults.
    beam_size = _integer(decoder_path, decoder, "beam-size", 12 if decoder else 6)
    alpha = _number(decoder_path, decoder, "normalize", 0.0 if decoder else 1.0)
    # When divided by the length, the penalty is the same for all outputs.
    if alpha != 1 and _number(decoder_path, decoder, "word-penalty", 0) != 0:
        rule = "0 unless `normalize` is 1"
        refuse(decoder_path, "word-penalty", rule, decoder["word-penalty"])
    tied = [
        name for name in ("tied-embeddings-all", "tied-embeddings-src") if _is_true(config, name)
    ]
    if tied and source_pieces != pieces:
        refuse(path, tied[0], "false with two vocabularies", config[tied[0]])
    source_eos = source_pieces[EOS]
    pad = pieces.get(PAD, len(pieces))
    has_pad = pad < len(pieces)
    if source_pieces.get(PAD, pad) != pad or (PAD in source_pieces) != has_pad:
        refuse(path, PAD, "one id in both vocabularies", source_pieces.get(PAD))
    unit = _decoder_unit(path, config)
    return Architecture(
        options={
            "vocabulary_size": len(pieces) + (not has_pad),
            "source_vocabulary_size": (
                None if tied else max(pad, len(source_pieces) - has_pad) + 1
            ),
            **{
                ours: _integer(path, config, name, default)
                for ours, (name, default) in NATIVE_SIZES.items()
            },
            # The files do not store dropout. Student models, which use SSRUs, are trained without
            # dropout, and dropout would increase their loss several times.
            "dropout": 0.0 if unit == "ssru" else 0.1,
            "activation": activation(
                path,
                "transformer-ffn-activation",
                str(config.get("transformer-ffn-activation", "swish")),
            ),
            "tie_weights": "tied-embeddings-all" in tied or _is_true(config, "tied-embeddings"),
            "padding_id": pad,
            "layer_norm_epsilon": 1e-6,
            "positions": "sinusoidal_t2t",
            "zero_id": pad,
            "decoder_unit": unit,
            **USUAL,
            **_normalizations(path, config),
            "use_logits_bias": not _is_true(config, "output-omit-bias"),
        },
        pad=pad,
        start=pad,
        eos=pieces[EOS],
        # Padding that is not in the files may precede EOS.
        source_eos=source_eos + (source_eos >= pad and not has_pad),
        source_rows=len(source_pieces),
        target_rows=len(pieces),
        tied_layers=_tied_layers(path, config),
        right_to_left=_is_true(config, "right-left"),
        search=imported_search(
            dict.fromkeys(("beam-size", "normalize"), decoder_path),
            beam_size=("beam-size", beam_size),
            alpha=("normalize", alpha),
            renormalize=("", not has_pad),
            allow_unknown=("", _is_true(decoder, "allow-unk")),
            min_length=("", 0),
            no_repeat_ngram=("", 0),
            ending=("", "marian"),
            max_source_length=("", 512),
        ),
    )


def _normalizations(path: Path, config: Mapping[str, Any]) -> dict[str, bool]:
    """Return our options for the placement of normalization."""

    def steps(place: str, default: str) -> str:
        return str(config.get(f"transformer-{place}", default)).replace("d", "")

    around = steps("preprocess", ""), steps("postprocess", "dan")
    if around not in (_PRE_NORM, _POST_NORM):
        rule = "'n' with `transformer-postprocess` 'da', or '' with 'dan'"
        refuse(path, "transformer-preprocess", rule, " and ".join(map(repr, around)))
    if around == _PRE_NORM and "transformer-postprocess-top" not in config:
        # Versions without this key did not normalize keys and values.
        refuse(path, "version", "1.10 or newer with pre-norm", config.get("version"))
    top = steps("postprocess-top", "")
    for place, found, allowed in (
        ("postprocess-emb", steps("postprocess-emb", "d"), ("",)),
        ("postprocess-top", top, ("", "n")),
    ):
        if found not in allowed:
            name, rule = f"transformer-{place}", " or ".join(repr(f"d{each}") for each in allowed)
            refuse(path, name, rule, config[name])
    return {"normalize_first": around == _PRE_NORM, "final_norm": top == "n"}


def _tied_layers(path: Path, config: Mapping[str, Any]) -> list[int]:
    name = "transformer-tied-layers"
    given = config.get(name) or []
    depth = _integer(path, config, "dec-depth", 6)
    numbers = [str(number) for number in range(1, min(depth, _MOST_TIED) + 1)]
    if given and (
        not isinstance(given, list)
        or len(given) != depth
        or depth > _MOST_TIED
        or not all(each in numbers for each in given)
    ):
        rule = f"a number of a decoder layer for each, of at most {_MOST_TIED} layers"
        refuse(path, name, rule, given)
    return [int(each) for each in given]


def _decoder_unit(path: Path, config: Mapping[str, Any]) -> str:
    unit = str(config.get("transformer-decoder-autoreg", "self-attention"))
    if unit == "self-attention":
        return "attention"
    if unit != "rnn":
        refuse(path, "transformer-decoder-autoreg", "'self-attention' or 'rnn'", unit)
    cell = str(config.get("dec-cell", "gru"))
    if cell != "ssru":
        refuse(path, "dec-cell", "'ssru'", cell)
    return cell


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
