"""A translator as a folder for Marian itself: model.npz, vocab.spm and decoder.yml."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.checksum_list import write_checksums
from keras_transformer.files.standard_streams import tell
from keras_transformer.files.whole_directories import write_new_directory
from keras_transformer.files.whole_files import whole_file, write_bytes
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
from keras_transformer.formats.marian.writer.exportable import activation_name, exportable_model
from keras_transformer.formats.marian.yaml_texts import write_yaml
from keras_transformer.formats.residual_scales import ResidualScales
from keras_transformer.formats.translation_model import TranslationModel
from keras_transformer.models import Transformer
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.piece_vocabulary import PieceVocabulary
from keras_transformer.types import PathLike

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
        write_checksums(path)

    return write_new_directory(directory, write)


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
