"""Model sizes and their training values: the paper's base and big, and the rows of its Table 3.

`tiny` and `small` are for tens and hundreds of thousands of sentence pairs.

Each row of Table 3 states only what differs from base, as in the table; its scores are for a single
checkpoint.

Reference: Vaswani et al. (2017), sections 5 and 6.2, Table 3.
"""

import dataclasses
from collections.abc import Collection
from typing import Any, TypeVar

from keras_transformer.layers.positions import POSITIONS

_T = TypeVar("_T")


def option(
    default: _T,
    reason: str,
    *,
    choices: Collection[str] | None = None,
    minimum: float | None = None,
    below: float | None = None,
) -> _T:
    """A field with a setting and a flag in training, `TrainingSettings`, with these rules.

    If the default is not None, False or 0, the setting's default is None, which stands for it.
    """
    rules = {"reason": reason, "choices": choices, "minimum": minimum, "below": below}
    given = {name: rule for name, rule in rules.items() if rule is not None}
    return dataclasses.field(default=default, metadata=given)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What a preset decides about a model; `ModelOptions` explains the fields."""

    num_encoder_layers: int = option(6, "layers in the encoder; none: --num-layers", minimum=1)
    num_decoder_layers: int = option(6, "layers in the decoder; none: --num-layers", minimum=1)
    hidden_dim: int = option(512, "width of the model, d_model; none: the preset's", minimum=2)
    intermediate_dim: int = option(
        2048, "width of the feed-forward networks, d_ff; none: the preset's", minimum=1
    )
    num_heads: int = option(8, "number of attention heads; none: the preset's", minimum=1)
    key_dim: int | None = option(
        None,
        "width of a head's queries and keys; none: the preset's, or hidden-dim / num-heads",
        minimum=1,
    )
    value_dim: int | None = option(
        None, "width of a head's values; none: the preset's, or --key-dim", minimum=1
    )
    dropout: float = option(
        0.1,
        "dropout rate on sub-layers and embeddings, more for less text; none: the preset's",
        minimum=0,
        below=1,
    )
    positions: str = option(
        "sinusoidal",
        "kind of positions; words counts words, for separate vocabularies; none: the preset's",
        choices=tuple(POSITIONS),
    )


@dataclasses.dataclass(frozen=True)
class Preset(Sizes):
    """One model and how it is trained; `ModelOptions` explains its sizes.

    Args:
        label_smoothing: share of the target distribution that is not on the gold token.
        training_steps: number of weight updates.
        warmup_steps: number of updates with a rising learning rate.
        batch_tokens: maximum number of source tokens, and of target tokens, in one update.
        averaged_checkpoints: number of last checkpoints whose average is used for translation.
    """

    label_smoothing: float = 0.1
    training_steps: int = 100_000
    warmup_steps: int = 4000
    batch_tokens: int = 25_000
    averaged_checkpoints: int = 5


def _row(**differences: Any) -> Preset:
    return Preset(averaged_checkpoints=1, **differences)


PRESETS = {
    "tiny": Preset(
        num_encoder_layers=4,
        num_decoder_layers=4,
        hidden_dim=128,
        intermediate_dim=256,
        num_heads=4,
        dropout=0.3,
        training_steps=8000,
        warmup_steps=2000,
        batch_tokens=4096,
        averaged_checkpoints=10,
    ),
    "small": Preset(
        num_encoder_layers=3,
        num_decoder_layers=3,
        hidden_dim=256,
        intermediate_dim=1024,
        num_heads=4,
        training_steps=30_000,
        warmup_steps=2000,
        batch_tokens=8192,
        averaged_checkpoints=10,
    ),
    "base": Preset(),
    "big": Preset(
        hidden_dim=1024,
        intermediate_dim=4096,
        num_heads=16,
        dropout=0.3,
        training_steps=300_000,
        averaged_checkpoints=20,
    ),
    "A-h1": _row(num_heads=1),
    "A-h4": _row(num_heads=4),
    "A-h16": _row(num_heads=16),
    "A-h32": _row(num_heads=32),
    "B-dk16": _row(key_dim=16, value_dim=64),
    "B-dk32": _row(key_dim=32, value_dim=64),
    "C-N2": _row(num_encoder_layers=2, num_decoder_layers=2),
    "C-N4": _row(num_encoder_layers=4, num_decoder_layers=4),
    "C-N8": _row(num_encoder_layers=8, num_decoder_layers=8),
    "C-d256": _row(hidden_dim=256),
    "C-d1024": _row(hidden_dim=1024),
    "C-ff1024": _row(intermediate_dim=1024),
    "C-ff4096": _row(intermediate_dim=4096),
    "D-drop0": _row(dropout=0.0),
    "D-drop2": _row(dropout=0.2),
    "D-ls0": _row(label_smoothing=0.0),
    "D-ls2": _row(label_smoothing=0.2),
    "E-learned": _row(positions="learned"),
}
