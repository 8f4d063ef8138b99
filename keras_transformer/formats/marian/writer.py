"""Export a translator for Marian or for Hugging Face's `MarianMTModel`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell, whole_file, write_bytes, write_json
from keras_transformer.formats.imported_models import activation_name, check_layers
from keras_transformer.formats.marian.configurations import (
    ACTIVATIONS,
    CONFIG_FIXED,
    CONFIG_NAMES,
    NATIVE_SIZES,
    write_yaml,
)
from keras_transformer.formats.marian.layout import MODEL_YML
from keras_transformer.formats.marian.tensors import (
    HEAD,
    LOGITS_BIAS,
    SHARED,
    SOURCE,
    TARGET,
    written,
)
from keras_transformer.formats.marian.vocabulary import spm_pieces
from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.installation import requiring
from keras_transformer.models import Transformer
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.search_options import names_in
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_model import PieceVocabulary
from keras_transformer.types import DECODER_UNITS, PathLike, SpecialTokens

_PROGRAM = "Marian"
_EPSILON = 1e-6  # for Marian's layer normalization


def exportable_model(translator: TranslationModel, *, native: bool = False) -> Transformer:
    """Return the only model. Raise a UserInputError if Marian does not support it.

    Args:
        translator: translator to export.
        native: whether to export for Marian itself instead of `MarianMTModel`.
    """
    if len(translator.models) > 1:
        raise UserInputError(
            f"A Marian folder contains one model. Received: an ensemble of {len(translator.models)}"
        )
    tokenizer = translator.tokenizer
    if tokenizer.right_to_left != translator.source_tokenizer.right_to_left:
        raise UserInputError("Marian reads and writes both sides in one direction.")
    if tokenizer.right_to_left and not native:
        raise UserInputError(
            "`MarianMTModel` does not support right-to-left models: export this model with "
            "`--native`."
        )
    model = translator.models[0]
    options, start = model.options, translator.tokenizer.special_tokens.bos
    epsilon, key_dim = options.layer_norm_epsilon, model.encoder_layers[0].attention.key_dim
    for name, value, allowed in (
        ("positions", options.positions, ["sinusoidal_t2t" if native else "sinusoidal"]),
        ("decoder_unit", options.decoder_unit, DECODER_UNITS if native else ["attention"]),
        ("zero_id", options.zero_id, [start if native else None]),
        ("hidden_source_id", options.hidden_source_id, [None]),
        ("layer_norm_epsilon", epsilon, [_EPSILON if native else epsilon]),
        ("normalize_first", options.normalize_first, [False, True] if native else [False]),
        ("final_norm", options.final_norm, [False, True] if native else [False]),
        ("activation", activation_name(model), sorted(ACTIVATIONS)),
        ("value_dim", options.value_dim or key_dim, [key_dim]),
        ("num_heads x key_dim", options.num_heads * key_dim, [model.hidden_dim]),
        ("hidden_dim % 2", model.hidden_dim % 2, [0]),
    ):
        if value not in allowed:
            raise UserInputError(
                f"Marian's models have no counterpart of `{name}={value!r}`: it must be "
                f"{' or '.join(map(repr, allowed))}."
            )
    check_layers(model, _PROGRAM, ("decoder_unit",))
    return model


def export_hugging_face(translator: TranslationModel, directory: PathLike) -> Path:
    """Export a translator's model for `MarianMTModel`. See `export_marian`."""
    with requiring("interop", "The export needs the safetensors package"):
        from safetensors.numpy import save
    model = exportable_model(translator)
    tensors = {name: tensor for (name, _), tensor in written(model)}

    def write(path: Path) -> None:
        # Transformers reads only files with this metadata.
        write_bytes(path / "model.safetensors", save(tensors, {"format": "pt"}))
        write_json(path / "config.json", _config(translator, model))
        write_json(path / "generation_config.json", _generation(translator, model))
        _write_tokenizers(path, translator)

    return write_checked_directory(directory, write)


def _positions(translator: TranslationModel) -> int:
    """Return the size of `MarianMTModel`'s position table, which limits sources and outputs."""
    return min(max(translator.search_options.max_source_length, 512), 4096)


def _config(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    options = model.options
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": model.source_vocabulary_size,
        "decoder_vocab_size": model.vocabulary_size,
        **{name: getattr(options, ours) for ours, name in CONFIG_NAMES.items()},
        "decoder_attention_heads": options.num_heads,
        "decoder_ffn_dim": options.intermediate_dim,
        "activation_function": ACTIVATIONS[activation_name(model)],
        "max_position_embeddings": _positions(translator),
        **CONFIG_FIXED,
        "share_encoder_decoder_embeddings": options.source_vocabulary_size is None,
        **_special_ids(translator.tokenizer.special_tokens),
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
        "min_length": search.min_length + 1,  # includes the decoder's first input
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
    pieces = [each.pieces(range(each.vocabulary_size)) for each in (source, target)]
    has_two = pieces[0] != pieces[1]
    for name, tokenizer, own, vocabulary in (
        ("source.spm", source, pieces[0], "vocab.json"),
        ("target.spm", target, pieces[1], "target_vocab.json" if has_two else ""),
    ):
        write_bytes(path / name, PieceVocabulary.left_out(tokenizer.model_bytes))
        if vocabulary:
            ids = {piece: number for number, piece in enumerate(own)}
            write_bytes(path / vocabulary, json.dumps(ids, ensure_ascii=False).encode())
    tokens = target.special_tokens
    special = target.pieces((tokens.pad, tokens.eos, tokens.unk))
    write_json(
        path / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": has_two,
            "model_max_length": _positions(translator),
            **dict(zip(("pad_token", "eos_token", "unk_token"), special, strict=True)),
        },
    )


def export_native(translator: TranslationModel, directory: PathLike) -> Path:
    """Export a translator's model for Marian. See `export_marian` with `native=True`."""
    model = native_model(translator)
    if model.options.normalize_first and model.options.decoder_unit == "attention":
        tell(
            "warning: Marian trains and scores such a pre-norm model as it is, but its decoder "
            "(as of 1.12) leaves keys and values of earlier tokens without normalization."
        )

    def write(path: Path) -> None:
        names = ("vocab.spm", "source.spm", "target.spm")
        vocabularies = write_vocabularies(path, translator, names)
        config = decoder(translator, "model.npz", vocabularies)
        arrays = native_arrays(translator, model)
        with whole_file(path / "model.npz") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no tensor is named allow_pickle
        write_bytes(path / "decoder.yml", write_yaml(config))

    return write_checked_directory(directory, write)


def native_model(translator: TranslationModel) -> Transformer:
    """Return the only model. Raise a UserInputError if Marian does not support it or its ids."""
    model = exportable_model(translator, native=True)
    for tokenizer in (translator.source_tokenizer, translator.tokenizer):
        own, pieces = tokenizer.pieces(range(tokenizer.vocabulary_size)), native_pieces(tokenizer)
        if list(own[: len(pieces)]) != pieces or len(own) > len(pieces) + 1:
            raise UserInputError(
                f"{_PROGRAM} numbers the pieces like their SentencePiece model, but this model has "
                "separate ids, like OPUS-MT models: export it with `export marian`."
            )
    return model


def native_pieces(tokenizer: SentencePieceTokenizer) -> list[str]:
    """Return the pieces of the SentencePiece model that Marian reads, in the order of their ids."""
    return spm_pieces(PieceVocabulary.left_out(tokenizer.model_bytes))


def native_arrays(translator: TranslationModel, model: Transformer) -> dict[str, np.ndarray]:
    """Return the tensors keyed by Marian's names, with zeros for missing biases.

    They include Marian's configuration as bytes.
    """
    source_size, size = (
        len(native_pieces(each)) for each in (translator.source_tokenizer, translator.tokenizer)
    )
    tensors: dict[str, np.ndarray] = {}
    for (name, own), tensor in written(model):
        if name in (SHARED, SOURCE, TARGET, HEAD):
            tensor = tensor[: source_size if name == SOURCE else size]
        elif name == LOGITS_BIAS:
            tensor = tensor[:, :size]
        else:
            tensor = tensor.T if tensor.ndim == 2 else tensor[None]
        tensors[own] = np.ascontiguousarray(tensor)
    config = write_yaml(native_config(translator, model)) + b"\0"
    tensors[MODEL_YML] = np.frombuffer(config, "int8")
    return tensors


def native_config(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    """Return Marian's configuration as stored with the weights."""
    options = model.options
    is_shared, is_tied = options.source_vocabulary_size is None, options.tie_weights
    has_ssru = options.decoder_unit == "ssru"
    sizes = [len(native_pieces(t)) for t in (translator.source_tokenizer, translator.tokenizer)]
    return {
        "type": "transformer",
        "version": "v1.12.0",
        "dim-vocabs": sizes,
        **{name: getattr(options, ours) for ours, (name, _) in NATIVE_SIZES.items()},
        "dim-rnn": 1024,
        "enc-cell": "gru",
        "enc-cell-depth": 1,
        "enc-type": "bidirectional",
        "dec-cell": "ssru" if has_ssru else "gru",
        "dec-cell-base-depth": 2,
        "dec-cell-high-depth": 1,
        "input-types": [],
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "output-omit-bias": False,
        "right-left": translator.tokenizer.right_to_left,
        "skip": False,
        "tied-embeddings": is_tied and not is_shared,
        "tied-embeddings-all": is_tied and is_shared,
        "tied-embeddings-src": is_shared and not is_tied,
        "transformer-aan-activation": "swish",
        "transformer-aan-depth": 2,
        "transformer-aan-nogate": False,
        "transformer-decoder-autoreg": "rnn" if has_ssru else "self-attention",
        "transformer-dim-aan": 2048,
        "transformer-ffn-activation": ACTIVATIONS[activation_name(model)],
        "transformer-ffn-depth": 2,
        "transformer-guided-alignment-layer": "last",
        "transformer-no-projection": False,
        "transformer-postprocess": "da" if options.normalize_first else "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "n" if options.final_norm else "",
        "transformer-preprocess": "n" if options.normalize_first else "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "ulr": False,
        "ulr-dim-emb": 0,
        "ulr-trainable-transformation": False,
    }


def write_vocabularies(path: Path, translator: TranslationModel, names: Sequence[str]) -> list[str]:
    """Write the SentencePiece models and return their file names, with the source first.

    `names` contains one name for a shared model or two names for the source and the target.
    """
    source, target = (
        PieceVocabulary.left_out(tokenizer.model_bytes)
        for tokenizer in (translator.source_tokenizer, translator.tokenizer)
    )
    found = [names[0]] * 2 if source == target else [*names[1:]]
    for name, content in zip(found, (source, target), strict=True):
        write_bytes(path / name, content)
    return found


def decoder(translator: TranslationModel, model: str, vocabularies: list[str]) -> dict[str, Any]:
    """Return the contents of decoder.yml. `model` and `vocabularies` are file names."""
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
    """Export a translator's model and tokenizers for `transformers.MarianMTModel`.

    The logits are equal, except that `MarianMTModel` always uses a layer-normalization epsilon of
    1e-5. Its `generate` method divides scores by the length to the power of `alpha` and uses its
    own stopping rule. The options `length_penalty="power", ending="transformers"` produce the same
    search here, except that `MarianMTModel` limits sources and outputs to this translator's
    source limit (at least 512 and at most 4,096 tokens).

    Args:
        translator: translator with a single model, on any backend.
        directory: output directory; must not exist or must be empty.
        native: whether to export for Marian itself, for decoding and further training, as
            model.npz, vocab.spm (or source.spm and target.spm) and decoder.yml. Marian's decoder
            starts with a zero vector, uses tensor2tensor's position frequencies and uses
            SentencePiece's ids. Your own model therefore needs `zero_id=1`, the id of BOS, and
            `positions="sinusoidal_t2t"`. Pre-norm models are also supported. Marian trains and
            scores them in the same way, but its translations match only for models with SSRUs.

    Returns:
        The path of the output directory.

    Raises:
        UserInputError: Marian does not support an option of the model, safetensors is not
            installed, or the directory is not empty.

    Example:

    ```python
    export_marian(Translator.load("runs/en_de"), "marian/en_de")
    model = transformers.MarianMTModel.from_pretrained("marian/en_de")
    ```
    """
    write = export_native if native else export_hugging_face
    return write(translator, directory)
