"""Exports a translator for Hugging Face's `MarianMTModel` and `MarianTokenizer`."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.files.checksum_list import write_checksums
from keras_transformer.files.whole_directories import write_new_directory
from keras_transformer.files.whole_files import write_bytes, write_json
from keras_transformer.formats.marian.tensors import LOGITS_BIAS, written
from keras_transformer.formats.marian.writer.exportable import activation_name, exportable_model
from keras_transformer.formats.residual_scales import ResidualScales
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.models import Transformer
from keras_transformer.search_options import names_in
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.piece_vocabulary import PieceVocabulary
from keras_transformer.types import PathLike


def export_hugging_face(translator: TranslationModel, directory: PathLike) -> Path:
    """Write a translator's model for `MarianMTModel`; see `export_marian`."""
    if importlib.util.find_spec("safetensors") is None:
        raise UserInputError(f"The export needs the package safetensors: {pip_install('interop')}")
    model = exportable_model(translator)

    def write(path: Path) -> None:
        from safetensors.numpy import save

        # Transformers reads only files with this metadata.
        write_bytes(path / "model.safetensors", save(_tensors(model), {"format": "pt"}))
        write_json(path / "config.json", _config(translator, model))
        write_json(path / "generation_config.json", _generation(translator, model))
        _write_tokenizers(path, translator)
        write_checksums(path)

    return write_new_directory(directory, write)


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
        "pad_token_id": tokens.pad,
        "bos_token_id": tokens.bos,
        "eos_token_id": tokens.eos,
        "decoder_start_token_id": tokens.bos,
        "forced_eos_token_id": tokens.eos,
        "is_encoder_decoder": True,
        "dtype": "float32",
    }


def _generation(translator: TranslationModel, model: Transformer) -> dict[str, Any]:
    tokens, search = translator.tokenizer.special_tokens, translator.search_options
    # A padded vocabulary has rows that no piece uses.
    never = {tokens.pad, tokens.bos}
    never |= {*range(translator.tokenizer.vocabulary_size, model.vocabulary_size)}
    return {
        **{name: getattr(search, ours) for ours, name in names_in("transformers").items()},
        "early_stopping": {"transformers": False, "any": "never"}.get(search.ending, True),
        "max_length": _positions(translator),
        "min_length": search.min_length + 1,  # counts the decoder's first input
        "renormalize_logits": search.renormalize,
        "bad_words_ids": [[number] for number in sorted(never)],
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
    pieces = _pieces(source), _pieces(target)
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


def _pieces(tokenizer: SentencePieceTokenizer) -> dict[str, int]:
    """Return the ids of a tokenizer's pieces."""
    numbers = range(tokenizer.vocabulary_size)
    return dict(zip(tokenizer.pieces(numbers), numbers, strict=True))
