"""What an import of another toolkit's model gives."""

import dataclasses
from typing import Any

from keras_transformer.formats.preset_files import save_preset
from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.types import PathLike

_SETTINGS = (
    *("num_encoder_layers", "num_decoder_layers", "hidden_dim", "intermediate_dim", "num_heads"),
    *("key_dim", "dropout", "activation", "tie_weights", "layer_norm_epsilon", "normalize_first"),
    *("final_norm", "positions", "max_length", "use_bias", "use_logits_bias", "decoder_unit"),
    "zero_id",
)


@dataclasses.dataclass(frozen=True)
class ImportedModel:
    """A model with its tokenizers, as `Translator` and `RunDirectory` take them.

    Attributes:
        model: the model.
        source_tokenizer, tokenizer: the tokenizers; one object if both sides have the same.
        search: fields of `SearchOptions`, the model's own defaults.
        settings: names and values of the settings of a training that has this architecture.
        shortlist: the model's shortlist, or None.
    """

    model: Transformer
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    search: dict[str, Any]
    settings: dict[str, Any]
    shortlist: Shortlist | None = None


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model as settings of a training, whose names are the same."""
    return {"preset": "base", **{name: options[name] for name in _SETTINGS if name in options}}


def write_run(imported: ImportedModel, run_directory: PathLike, origin: PathLike) -> RunDirectory:
    """Write an imported model as a run; it appears complete or not at all."""
    save_preset(
        run_directory,
        model=imported.model,
        source_tokenizer=imported.source_tokenizer,
        tokenizer=imported.tokenizer,
        search=imported.search,
        settings=imported.settings,
        origin=origin,
        shortlist=imported.shortlist,
    )
    return RunDirectory(run_directory)
