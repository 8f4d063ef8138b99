"""Exports a translator for Marian, or for Hugging Face's `MarianMTModel`."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell, whole_file, write_bytes, write_json
from keras_transformer.formats.imported_models import ResidualScales
from keras_transformer.formats.marian.configurations import ACTIVATIONS, write_yaml
from keras_transformer.formats.marian.layout import MODEL_YML
from keras_transformer.formats.marian.tensors import (
    HEAD,
    LOGITS_BIAS,
    SHARED,
    SOURCE,
    TARGET,
    native_name,
    written,
)
from keras_transformer.formats.marian.vocabulary import spm_pieces
from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.installation import requiring
from keras_transformer.layers.transformer_layers import DECODER_UNITS, TransformerLayer
from keras_transformer.models import Transformer
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.search_options import names_in
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.types import PathLike, SpecialTokens

_EPSILON = 1e-6  # of Marian's layer normalizations


def exportable_model(translator: TranslationModel, *, native: bool = False) -> Transformer:
    """Return the only model; UserInputError if Marian has no counterpart of it.

    Args:
        translator: the translator.
        native: whether the model is for Marian itself, not for `MarianMTModel`.
    """
    if len(translator.models) > 1:
        raise UserInputError(
            f"Marian's folder has one model. Received: an ensemble of {len(translator.models)}"
        )
    tokenizer = translator.tokenizer
    if tokenizer.right_to_left != translator.source_tokenizer.right_to_left:
        raise UserInputError("Marian reads and writes both sides in one direction.")
    if tokenizer.right_to_left and not native:
        raise UserInputError(
            "`MarianMTModel` has no right-to-left models: export this one with `--native`."
        )
    model = translator.models[0]
    first, embedding = model.encoder_layers[0], model.target_embedding
    attention = first.attention
    epsilon, start = first.layer_norm_epsilon, translator.tokenizer.special_tokens.bos
    width = attention.num_heads * attention.key_dim
    for name, value, allowed in (
        ("positions", embedding.positions, ["sinusoidal_t2t" if native else "sinusoidal"]),
        (
            "decoder_unit",
            model.decoder_layers[0].decoder_unit,
            DECODER_UNITS if native else ["attention"],
        ),
        ("zero_id", embedding.zero_id, [start if native else None]),
        ("hidden_source_id", model.options.hidden_source_id, [None]),
        ("layer_norm_epsilon", epsilon, [_EPSILON if native else epsilon]),
        ("normalize_first", first.normalize_first, [False, native]),
        ("final_norm", model.encoder_norm is not None, [False, native]),
        ("activation", keras.activations.serialize(first.activation), sorted(ACTIVATIONS)),
        ("value_dim", attention.value_dim, [attention.key_dim]),
        ("num_heads x key_dim", width, [model.hidden_dim]),
        ("hidden_dim % 2", model.hidden_dim % 2, [0]),
    ):
        if value not in allowed:
            raise UserInputError(
                f"Marian's models have no counterpart of `{name}={value!r}`: it must be "
                f"{' or '.join(map(repr, allowed))}."
            )
    ResidualScales(model, "Marian", ("decoder_unit",))  # refuses what it cannot make plain
    return model


def activation_name(layer: TransformerLayer) -> str:
    """Marian's name of a layer's activation."""
    activation = keras.activations.serialize(layer.activation)
    return {"silu": "swish"}.get(activation, activation)


def export_hugging_face(translator: TranslationModel, directory: PathLike) -> Path:
    """Write a translator's model for `MarianMTModel`; see `export_marian`."""
    with requiring("interop", "The export needs the package safetensors"):
        from safetensors.numpy import save
    model = exportable_model(translator)

    def write(path: Path) -> None:
        # Transformers reads only files with this metadata.
        write_bytes(path / "model.safetensors", save(_tensors(model), {"format": "pt"}))
        write_json(path / "config.json", _config(translator, model))
        write_json(path / "generation_config.json", _generation(translator, model))
        _write_tokenizers(path, translator)

    return write_checked_directory(directory, write)


def _tensors(model: Transformer) -> dict[str, np.ndarray]:
    """Return the tensors by Hugging Face's names, with zeros for biases that the model lacks."""
    tensors = dict(written(model, ResidualScales(model, "Marian")))
    for name in list(tensors):
        bias = name.removesuffix("weight") + "bias"
        if name.endswith("_proj.weight") and bias not in tensors:
            tensors[bias] = np.zeros(len(tensors[name]), "float32")
    tensors.setdefault(LOGITS_BIAS, np.zeros((1, model.vocabulary_size), "float32"))
    return tensors


def _positions(translator: TranslationModel) -> int:
    """Return the size of `MarianMTModel`'s position table, its limit for sources and outputs."""
    return min(max(translator.search_options.max_source_length, 512), 4096)


def _config(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    first, tokens = model.encoder_layers[0], translator.tokenizer.special_tokens
    heads, inner_dim = first.num_heads, first.intermediate_dim
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": model.source_vocabulary_size,
        "decoder_vocab_size": model.vocabulary_size,
        "d_model": model.hidden_dim,
        "encoder_layers": len(model.encoder_layers),
        "decoder_layers": len(model.decoder_layers),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner_dim,
        "decoder_ffn_dim": inner_dim,
        "activation_function": activation_name(first),
        "dropout": first.dropout,
        "max_position_embeddings": _positions(translator),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "share_encoder_decoder_embeddings": model.source_embedding is model.target_embedding,
        "tie_word_embeddings": model.target_embedding.tie_weights,
        **_special_ids(tokens),
        "is_encoder_decoder": True,
        "dtype": "float32",
    }


def _generation(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    tokens, search = translator.tokenizer.special_tokens, translator.search_options
    never = tokens.never(translator.tokenizer.vocabulary_size, model.vocabulary_size)
    return {
        **{name: getattr(search, ours) for ours, name in names_in("transformers").items()},
        "early_stopping": {"transformers": False, "any": "never"}.get(search.ending, True),
        "max_length": _positions(translator),
        "min_length": search.min_length + 1,  # counts the decoder's first input
        "renormalize_logits": search.renormalize,
        "bad_words_ids": [[number] for number in never],
        **_special_ids(tokens),
    }


def _special_ids(tokens: SpecialTokens) -> dict[str, int]:
    return {
        "pad_token_id": tokens.pad,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "decoder_start_token_id": tokens.bos,
        "forced_eos_token_id": tokens.eos,
    }


def _write_tokenizers(path: Path, translator: TranslationModel) -> None:
    source, target = translator.source_tokenizer, translator.tokenizer
    for tokenizer, name in ((source, "source.spm"), (target, "target.spm")):
        write_bytes(path / name, PieceVocabulary.left_out(tokenizer.model_bytes))
    pieces = _vocabulary_pieces(source), _vocabulary_pieces(target)
    has_two = pieces[0] != pieces[1]
    for vocabulary, name in zip(pieces, ("vocab.json", "target_vocab.json"), strict=True):
        if name == "vocab.json" or has_two:
            content = json.dumps(vocabulary, ensure_ascii=False)
            write_bytes(path / name, content.encode())
    special = target.pieces(
        (target.special_tokens.pad, target.special_tokens.eos, target.special_tokens.unk)
    )
    write_json(
        path / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": has_two,
            "model_max_length": _positions(translator),
            **dict(zip(("pad_token", "eos_token", "unk_token"), special, strict=True)),
        },
    )


def _vocabulary_pieces(tokenizer: SentencePieceTokenizer) -> dict[str, int]:
    """Return the ids of a tokenizer's pieces."""
    numbers = range(tokenizer.vocabulary_size)
    return dict(zip(tokenizer.pieces(numbers), numbers, strict=True))


_PROGRAM = "Marian"
_TABLES = (SHARED, SOURCE, TARGET, HEAD)


class VocabularyNames(NamedTuple):
    """Names of files: of one vocabulary for both sides, or of one for each."""

    shared: str
    source: str
    target: str


NAMES = VocabularyNames("vocab.spm", "source.spm", "target.spm")


def export_native(translator: TranslationModel, directory: PathLike) -> Path:
    """Write a translator's model for Marian; see `export_marian` with `native=True`."""
    model = native_model(translator)
    if model.options.normalize_first and model.options.decoder_unit == "attention":
        tell(
            "warning: Marian trains and scores such a pre-norm model as it is, but its decoder "
            "(as of 1.12) leaves keys and values of earlier tokens without normalization."
        )

    def write(path: Path) -> None:
        vocabularies = write_vocabularies(path, translator, NAMES)
        config = decoder(translator, "model.npz", vocabularies)
        arrays = native_arrays(translator, model)
        with whole_file(path / "model.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no tensor is named allow_pickle
        write_bytes(path / "decoder.yml", write_yaml(config))

    return write_checked_directory(directory, write)


def native_model(translator: TranslationModel) -> Transformer:
    """The only model; UserInputError if Marian has no counterpart of it or of its ids."""
    model = exportable_model(translator, native=True)
    for tokenizer in (translator.source_tokenizer, translator.tokenizer):
        _check_ids(tokenizer)
    return model


def _check_ids(tokenizer: SentencePieceTokenizer) -> None:
    """Refuse ids that are not those of the SentencePiece model."""
    own = tokenizer.pieces(range(tokenizer.vocabulary_size))
    pieces = _pieces(tokenizer)
    if list(own[: len(pieces)]) != pieces or len(own) > len(pieces) + 1:
        raise UserInputError(
            f"{_PROGRAM} numbers the pieces as their SentencePiece model does, and this model has "
            "ids of its own, as models of OPUS-MT have: export it with `export marian`."
        )


def _pieces(tokenizer: SentencePieceTokenizer) -> list[str]:
    return spm_pieces(PieceVocabulary.left_out(tokenizer.model_bytes))


def native_arrays(translator: TranslationModel, model: Transformer) -> dict[str, np.ndarray]:
    """The tensors by Marian's names, with zeros for biases that the model lacks.

    Marian's configuration is among them, as bytes.
    """
    scales = ResidualScales(model, _PROGRAM, ("decoder_unit",))
    sizes = dict.fromkeys(_TABLES, len(_pieces(translator.tokenizer)))
    sizes[SOURCE] = len(_pieces(translator.source_tokenizer))
    own_name = functools.partial(
        native_name,
        tied_all=model.source_embedding is model.target_embedding,
        pre_norm=model.options.normalize_first,
    )
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in written(model, scales):
        if name in sizes:
            tensor = tensor[: sizes[name]]
        elif name == LOGITS_BIAS:
            tensor = tensor[:, : sizes[TARGET]]
        else:
            tensor = tensor.T if tensor.ndim == 2 else tensor[None]
        own = own_name(name) + ("t" if name == HEAD else "")
        tensors[own] = np.ascontiguousarray(tensor)
    for own in list(tensors):
        side, _, letters = own.rpartition("_W")
        bias = f"{side}_b{letters}"
        if letters in ("q", "k", "v", "o") and bias not in tensors:
            tensors[bias] = np.zeros((1, tensors[own].shape[1]), "float32")
    bias = own_name(LOGITS_BIAS)
    tensors.setdefault(bias, np.zeros((1, sizes[TARGET]), "float32"))
    config = write_yaml(native_config(translator, model)) + b"\0"
    tensors[MODEL_YML] = np.frombuffer(config, "int8")
    return tensors


def native_config(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    """Marian's configuration, as it keeps it with the weights."""
    first, embedding = model.encoder_layers[0], model.target_embedding
    is_shared = model.source_embedding is embedding
    sizes = [len(_pieces(t)) for t in (translator.source_tokenizer, translator.tokenizer)]
    return {
        "type": "transformer",
        "version": "v1.12.0",
        "dim-vocabs": sizes,
        "dim-emb": model.hidden_dim,
        "dim-rnn": 1024,
        "enc-depth": len(model.encoder_layers),
        "dec-depth": len(model.decoder_layers),
        "enc-cell": "gru",
        "enc-cell-depth": 1,
        "enc-type": "bidirectional",
        "dec-cell": "ssru" if model.options.decoder_unit == "ssru" else "gru",
        "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1,
        "input-types": [],
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "output-omit-bias": False,
        "right-left": translator.tokenizer.right_to_left,
        "skip": False,
        "tied-embeddings": embedding.tie_weights and not is_shared,
        "tied-embeddings-all": embedding.tie_weights and is_shared,
        "tied-embeddings-src": is_shared and not embedding.tie_weights,
        "transformer-aan-activation": "swish",
        "transformer-aan-depth": 2,
        "transformer-aan-nogate": False,
        "transformer-decoder-autoreg": (
            "rnn" if model.options.decoder_unit == "ssru" else "self-attention"
        ),
        "transformer-dim-aan": 2048,
        "transformer-dim-ffn": first.intermediate_dim,
        "transformer-ffn-activation": activation_name(first),
        "transformer-ffn-depth": 2,
        "transformer-guided-alignment-layer": "last",
        "transformer-heads": first.num_heads,
        "transformer-no-projection": False,
        "transformer-postprocess": "da" if first.normalize_first else "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "" if model.encoder_norm is None else "n",
        "transformer-preprocess": "n" if first.normalize_first else "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "ulr": False,
        "ulr-dim-emb": 0,
        "ulr-trainable-transformation": False,
    }


def write_vocabularies(
    path: Path, translator: TranslationModel, names: VocabularyNames
) -> list[str]:
    """Write the SentencePiece models; return the names of their files, the source's first."""
    source, target = (
        PieceVocabulary.left_out(tokenizer.model_bytes)
        for tokenizer in (translator.source_tokenizer, translator.tokenizer)
    )
    found = [names.shared] * 2 if source == target else [names.source, names.target]
    for name, content in zip(found, (source, target), strict=True):
        write_bytes(path / name, content)
    return found


def decoder(translator: TranslationModel, model: str, vocabularies: list[str]) -> dict[str, Any]:
    """The content of decoder.yml; `model` and `vocabularies` are names of files."""
    return {
        "relative-paths": True,
        "models": [model],
        "vocabs": vocabularies,
        "beam-size": translator.search_options.beam_size,
        "normalize": translator.search_options.alpha,
        "word-penalty": 0,
        "mini-batch": 16,
        "maxi-batch": 100,
        "maxi-batch-sort": "src",
    }


def export_marian(
    translator: TranslationModel, directory: PathLike, *, native: bool = False
) -> Path:
    """Write a translator's model for `transformers.MarianMTModel`, with its tokenizers.

    The logits are equal, except that `MarianMTModel` always uses 1e-5 as the epsilon of its layer
    normalizations. Its `generate` divides a score by the length to the power of `alpha`, and ends
    the search in its own way. With `length_penalty="power", ending="transformers"`, the search here
    is the same, but there the limit of tokens for sources and outputs is this translator's limit
    for sources, from 512 to 4,096.

    Args:
        translator: a translator of one model, on any backend.
        directory: directory to write; it must not exist, or be empty.
        native: whether the folder is for Marian itself, which decodes with it and trains it
            further: model.npz, vocab.spm (or source.spm and target.spm) and decoder.yml. Marian's
            decoder begins with a zero vector, spaces the frequencies of positions as tensor2tensor
            does, and takes SentencePiece's ids. So a model of your own needs `zero_id=1`, the id
            of BOS, and `positions="sinusoidal_t2t"`. Pre-norm models are written too: Marian trains
            and scores them as here, but its decoder computes only those with SSRUs alike.

    Returns:
        The path of the directory.

    Raises:
        UserInputError: Marian has no counterpart for an option of the model, the package
            safetensors is not installed, or the directory is not empty.

    Example:

    ```python
    export_marian(Translator.load("runs/en_de"), "marian/en_de")
    model = transformers.MarianMTModel.from_pretrained("marian/en_de")
    ```
    """
    write = export_native if native else export_hugging_face
    return write(translator, directory)
