"""Configurations of Marian models, which may be hostile: YAML, JSON, architectures."""

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

MOST_BYTES = 1 << 22  # a vocabulary of 60,000 pieces has less than 2 million
MOST_PIECES = 250_000
_MOST_EVENTS = 600_000  # of the parser: two for each piece
_DEEPEST = 20  # collections within each other
_TAGS = re.compile("^%TAG|[\n\r\x85\u2028\u2029]%TAG")  # after each line break of YAML


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; values are text, or lists and mappings of text.

    Raises:
        UserInputError: the file is missing, damaged, too large, or contains anything else.
    """
    return parse_yaml(path, read_input(path, MOST_BYTES))


def parse_yaml(path: Path, content: bytes) -> dict[str, Any]:
    """Like `read_yaml`, from the content of a file or of a part of it."""
    yaml = _yaml()
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        text = content.decode("utf-8-sig")  # PyYAML would also accept UTF-16
        if _TAGS.search(text):  # PyYAML copies all of them for each document
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
    """The events of a document that does not grow."""
    depth = 0
    for count, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        # Deep nesting crashes PyYAML, and a few lines of aliases can expand to a billion values.
        if depth > _DEEPEST or isinstance(event, yaml.AliasEvent):
            raise ValueError("it has aliases, or is nested too deep")
        if count > _MOST_EVENTS:
            raise ValueError(f"it has more than {_MOST_EVENTS:,} values")
        yield event


def _value_of(yaml: Any, event: Any, events: Iterator[Any]) -> Any:
    """The value that starts with an event: text, or a list or dict of text.

    PyYAML's own loader builds a graph of nodes, which takes several times the memory.
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
    """The bytes of a YAML file with these names and values."""
    return _yaml().safe_dump(dict(content), sort_keys=False, allow_unicode=True).encode()


def _yaml() -> Any:
    with requiring("interop", "Marian's files need the package PyYAML"):
        import yaml
    return yaml


EOS, PAD = "</s>", "<pad>"
# The names of activations: Hugging Face's and Keras's -> ours, which Marian accepts too.
ACTIVATIONS = {"swish": "swish", "silu": "swish", "gelu": "gelu", "relu": "relu"}
# The options of all Hugging Face models, and of most Marian models.
USUAL = {
    "normalize_first": False,
    "use_bias": True,
    "use_logits_bias": True,
}
# Options of the model -> their names in config.json.
CONFIG_NAMES = {
    "hidden_dim": "d_model",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "num_heads": "encoder_attention_heads",
    "intermediate_dim": "encoder_ffn_dim",
    "dropout": "dropout",
    "tie_weights": "tie_word_embeddings",
}
# The required values in config.json.
CONFIG_FIXED = {
    "scale_embedding": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
}
# Options of the model -> their names in Marian's configuration, and its defaults.
NATIVE_SIZES = {
    "hidden_dim": ("dim-emb", 512),
    "num_encoder_layers": ("enc-depth", 6),
    "num_decoder_layers": ("dec-depth", 6),
    "intermediate_dim": ("transformer-dim-ffn", 2048),
    "num_heads": ("transformer-heads", 8),
}
_LARGEST_BEAM = 1000  # in an untrusted file; a larger beam would run for hours


class Architecture(msgspec.Struct, kw_only=True):
    """A Marian model in the terms of `build_transformer`.

    Attributes:
        options: arguments of `build_transformer`.
        pad, start, eos: ids of padding, the decoder's first input and the end of a sentence.
        source_eos: id of the end of a source sentence.
        source_rows, target_rows: numbers of rows of the embedding tables in the file.
        tied_layers: for each decoder layer, counted from 1, the layer whose weights it uses; empty
            if every layer has its own weights.
        search: fields of `SearchOptions`, the model's own defaults.
        right_to_left: whether sentences of both sides start with their last token.
        banned, banned_path: ids that the file's search must never produce, and the file.
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
    """Check and return fields of `SearchOptions`.

    Args:
        origins: the file of each key.
        **given: field -> its key, for errors, and value.
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
    """Raise the `UserInputError` for an option that this package does not support.

    Args:
        path: the file with the option.
        name: the option's key.
        rule: what the value must be.
        value: the value.
    """
    received = f"{name}={repr(value)[:100]}"
    raise cannot_import(path, f"`{name}` must be {rule}. Received: {received}")


def activation(path: Path, name: str, value: str) -> str:
    """Return the Keras name of a Marian activation; the arguments are as in `refuse`."""
    if value not in ACTIVATIONS:
        refuse(path, name, f"one of {sorted(ACTIVATIONS)}", value)
    return ACTIVATIONS[value]


class GenerationConfig(msgspec.Struct, kw_only=True):
    """The part of generation_config.json that is used; older folders have it in config.json.

    The defaults are the same as in `GenerationConfig` of Transformers.
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
    """config.json of a Hugging Face folder; the defaults are the same as in `MarianConfig`."""

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
    """Read the architecture in config.json, and the search in generation_config.json if it exists.

    Raises:
        UserInputError: a file is damaged, the model is not a Marian model, or it has an option that
            this package does not support.
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
    # `MarianMTModel` ignores the target's vocabulary size if both sides share a table.
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
    """Whether banned tokens get no probability.

    If no file tells, banned tokens get no probability in folders without generation_config.json,
    which may be older than the option. Marian does the same.
    """
    if config.renormalize_logits is None:
        return not (directory / "generation_config.json").exists()
    return config.renormalize_logits


def _tell_left_out(config: HuggingFaceConfig, origins: Mapping[str, Path]) -> None:
    """Print the options that our search does not support to stderr."""
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
    """Read the values of both files; generation_config.json takes precedence.

    Returns:
        The values, and for each name the file with its value.
    """
    path = directory / "config.json"
    values = _without_none(read_record(path, dict[str, Any]))
    search_path, fields = directory / "generation_config.json", GenerationConfig.__struct_fields__
    generation: dict[str, Any] = {}
    if search_path.exists():
        found = _without_none(read_record(search_path, dict[str, Any]))
        to_record(search_path, found, GenerationConfig)
        generation = {name: value for name, value in found.items() if name in fields}
        # `generate` then uses only these values, and its defaults for the others.
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


# The values that Marian's configuration must have for these keys, if they exist.
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
# Steps around sub-layers: n normalizes, a adds the inputs; d, dropout, is for training.
_PRE_NORM, _POST_NORM = ("n", "a"), ("", "an")
_MOST_TIED = 64  # decoder layers that share weights; more could be far larger than their file


def read_native(
    path: Path,
    config: Mapping[str, Any],
    decoder_path: Path,
    decoder: Mapping[str, Any],
    source_pieces: Mapping[str, int],
    pieces: Mapping[str, int],
) -> Architecture:
    """Read the architecture from the configuration that Marian stores in model.npz.

    Marian has no id for padding. On both sides, it comes after the target's pieces, unless there is
    a piece with that name, as in models from this package.

    Args:
        path: the file, for errors.
        config: the configuration, values as texts.
        decoder_path: the file of the decoder's configuration, for errors.
        decoder: its content, values as texts; empty without one.
        source_pieces, pieces: the ids of the pieces of both sides, including the end of a sentence.
    """
    for name, expected in _NATIVE.items():
        if str(config.get(name, expected)).lower() != expected:
            refuse(path, name, repr(expected), config[name])
    # Without decoder.yml, the values of OPUS-MT releases; otherwise Marian's own defaults.
    beam_size = _integer(decoder_path, decoder, "beam-size", 12 if decoder else 6)
    alpha = _number(decoder_path, decoder, "normalize", 0.0 if decoder else 1.0)
    # Divided by the length, the penalty is the same for all outputs.
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
            # Files do not contain it. Student models, which have SSRUs, are trained without
            # dropout, and their loss is several times higher with dropout.
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
        # Padding that is not in the files may come before it.
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
    """The places of normalization, as our options."""

    def steps(place: str, default: str) -> str:
        return str(config.get(f"transformer-{place}", default)).replace("d", "")

    around = steps("preprocess", ""), steps("postprocess", "dan")
    if around not in (_PRE_NORM, _POST_NORM):
        rule = "'n' with `transformer-postprocess` 'da', or '' with 'dan'"
        refuse(path, "transformer-preprocess", rule, " and ".join(map(repr, around)))
    if around == _PRE_NORM and "transformer-postprocess-top" not in config:
        # Without this key, keys and values were not normalized.
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
