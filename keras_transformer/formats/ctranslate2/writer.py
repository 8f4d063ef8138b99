"""Export a translator for CTranslate2, a fast C++ engine for CPUs and GPUs."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import UserInputError, reject
from keras_transformer.formats.ctranslate2 import CTRANSLATE2, Precision
from keras_transformer.formats.ctranslate2.tensors import ACTIVATIONS
from keras_transformer.formats.imported_models import activation_name, check_layers
from keras_transformer.formats.model_card import TranslationModel, write_model_card
from keras_transformer.installation import requiring
from keras_transformer.layers.positions import PositionsInAttention
from keras_transformer.models import Transformer
from keras_transformer.runs.checksums import write_checked_directory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_tokenizer import save_tokenizers
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from ctranslate2.specs.transformer_spec import TransformerSpec

# Size of CTranslate2's position table for models without a length limit.
NUM_POSITIONS = 2048


def export_ctranslate2(
    translator: TranslationModel,
    directory: PathLike,
    *,
    precision: Precision = "float32",
) -> Path:
    """Export a translator's model to CTranslate2, with its tokenizers and a model card.

    `ctranslate2.Translator(directory)` loads the export and translates lists of SentencePiece
    pieces from `tokenizer.model`, without EOS. Pass search options and limits to the methods of
    CTranslate2; see docs/ctranslate2.md.

    Args:
        translator: translator with a single model, on any backend.
        directory: output directory; must not exist, or must be empty and not the current directory.
        precision: number format of the weights. `"int8"` and `"int16"` store matrices and
            embeddings as integers with one scale per row (`"int8"`) or matrix (`"int16"`).

    Returns:
        The path of the output directory.

    Raises:
        ValueError: `precision` is unknown.
        UserInputError: CTranslate2 does not support the model, `ctranslate2` is not installed, or
            the directory is not empty.

    Example:

    ```python
    translator = Translator.load("runs/en_de")
    export_ctranslate2(translator, "ctranslate2/en_de", precision="int8")
    ```

    Reference: https://opennmt.net/CTranslate2/
    """
    check_one_of("precision", precision, CTRANSLATE2.precisions)
    with requiring("ctranslate2", "The export needs the ctranslate2 package"):
        from keras_transformer.formats.ctranslate2.spec import transformer_spec
    model = _exportable_model(translator)

    never: list[int] = []
    if translator.search_options.renormalize:
        tokenizer = translator.tokenizer
        never = tokenizer.special_tokens.never(tokenizer.vocabulary_size, model.vocabulary_size)

    def write(path: Path) -> None:
        spec = transformer_spec(model, NUM_POSITIONS, never)
        _add_vocabularies(spec, translator, model)
        spec.validate()
        spec.optimize(precision)
        spec.save(str(path))
        save_tokenizers(path, translator.source_tokenizer, translator.tokenizer)
        write_model_card(
            path,
            translator,
            kind=CTRANSLATE2.kind,
            options={"max_positions": model.max_length or NUM_POSITIONS},
            precision=precision,
        )

    return write_checked_directory(directory, write)


def _exportable_model(translator: TranslationModel) -> Transformer:
    """Return the only model. Raise a UserInputError if CTranslate2 does not support it."""
    if len(translator.models) > 1:
        raise UserInputError(
            "CTranslate2 has no ensembles: export one model, or the average of checkpoints. "
            f"Received: {len(translator.models)} models"
        )
    if translator.tokenizer.right_to_left or translator.source_tokenizer.right_to_left:
        raise UserInputError("CTranslate2 does not support right-to-left models.")
    model = translator.models[0]
    embedding = model.target_embedding
    positions, zero_id = embedding.positions, model.options.zero_id
    if embedding.kind.reads_tokens:
        reject(
            "CTranslate2 does not support positions that depend on the tokens", positions=positions
        )
    if isinstance(embedding.kind, PositionsInAttention) and positions != "rotary":
        fault = "The CTranslate2 export supports only rotary positions inside attention"
        reject(fault, positions=positions)
    start = translator.tokenizer.special_tokens.bos
    if zero_id not in (None, start):
        reject(
            "CTranslate2 can only replace the decoder's first input by a zero vector: `zero_id` "
            f"must be {start} or None",
            zero_id=zero_id,
        )
    activation = activation_name(model)
    if activation not in ACTIVATIONS:
        reject(
            f"CTranslate2 supports the activations {', '.join(ACTIVATIONS)}", activation=activation
        )
    attention = model.encoder_layers[0].attention
    check_layers(model, "CTranslate2")
    if attention.key_dim != attention.value_dim:
        reject(
            "CTranslate2 needs heads whose `key_dim` and `value_dim` are equal",
            key_dim=attention.key_dim,
            value_dim=attention.value_dim,
        )
    return model


def _add_vocabularies(
    spec: "TransformerSpec", translator: TranslationModel, model: Transformer
) -> None:
    """Set the tokens of both sides in id order and the special tokens."""
    tokens = translator.tokenizer.special_tokens
    special = translator.tokenizer.pieces([tokens.bos, tokens.eos, tokens.unk])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = special
    spec.config.decoder_start_token = spec.config.bos_token
    spec.register_source_vocabulary(
        _vocabulary(translator.source_tokenizer, model.source_vocabulary_size, special)
    )
    spec.register_target_vocabulary(
        _vocabulary(translator.tokenizer, model.vocabulary_size, special)
    )


def _vocabulary(tokenizer: SentencePieceTokenizer, size: int, special: Sequence[str]) -> list[str]:
    """Return the names of one side's tokens in id order, including padding.

    `special` contains the names of BOS, EOS and the unknown token, which both sides share.
    """
    names = tokenizer.pieces(range(tokenizer.vocabulary_size))
    tokens = tokenizer.special_tokens
    for place, name in zip((tokens.bos, tokens.eos, tokens.unk), special, strict=True):
        names[place] = name
    for name in special:
        if names.count(name) > 1:
            raise UserInputError(
                "In CTranslate2, the target's special tokens must not be other tokens of the "
                f"source. Received: {name}"
            )
    taken = set(names)
    number = 0
    while len(names) < size:
        name = f"<padding_{number}>"
        number += 1
        if name not in taken:
            names.append(name)
    return names
