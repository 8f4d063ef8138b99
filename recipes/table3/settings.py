"""Settings shared by all rows, and each row's changes."""

import dataclasses
from collections.abc import Collection
from typing import Any

from keras_transformer.errors import UserInputError, refuse
from keras_transformer.models import PRESETS
from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings
from recipes.table3.rows import ROWS

# Fields of a preset that a row may change, in addition to the sizes.
_OTHERS = ("dropout", "label_smoothing", "positions")


@dataclasses.dataclass(frozen=True)
class Table3Settings(TranslationSettings):
    """Settings for the base row. Other rows differ from base as in the paper."""

    preset: str = setting("base", "base; all rows are derived from base", choices=("base",))
    num_layers: int | None = setting(
        None, "number of layers in each stack of base; scaled by 1/3 to 4/3 for C1 to C3; none: 6"
    )
    hidden_dim: int | None = setting(
        None, "d_model of base; halved for C4, doubled for C5 and big; none: 512"
    )
    intermediate_dim: int | None = setting(
        None, "d_ff of base; halved for C6, doubled for C7 and big; none: 2048"
    )
    num_heads: int | None = setting(
        None, "number of heads of base; scaled by 1/8, 1/2, 2 and 4 for A1 to A4; none: 8"
    )
    average: int | None = setting(
        1, "number of checkpoints to average; 1, because the paper's Table 3 uses no averaging"
    )
    bleu_every: int = setting(
        0,
        "number of validations between measurements of BLEU with greedy decoding; 0: never, to "
        "save time",
    )

    def check_given(self, names: Collection[str]) -> None:
        super().check_given(set(names) - {"max_length"})  # used for row E

    def row(self, name: str) -> "Table3Settings":
        """Return the settings of a row: the settings of base with the paper's changes.

        Sizes keep the paper's ratios to base. Changed dropout and label smoothing rates and
        position types are the same as in the paper.

        Args:
            name: name of the row in `ROWS`.

        Raises:
            UserInputError: the row does not exist, or a size would not be a whole number.
        """
        if name not in ROWS:
            raise UserInputError(f"There is no row `{name}`. Rows: {', '.join(ROWS)}")
        base, sizes = PRESETS["base"], ROWS[name].sizes
        of_base = self._sizes_of_base()
        changed: dict[str, Any] = {
            size: _ratio(name, size, value, getattr(sizes, size), getattr(base, size))
            for size, value in of_base.items()
        }
        if sizes.key_dim is not None:
            head = of_base["hidden_dim"] // of_base["num_heads"]
            paper = base.hidden_dim // base.num_heads
            changed["key_dim"] = _ratio(name, "key_dim", head, sizes.key_dim, paper)
            changed["value_dim"] = head
        for field in _OTHERS:
            if getattr(sizes, field) != getattr(base, field):
                changed[field] = getattr(sizes, field)
        return dataclasses.replace(self, num_layers=None, **changed)

    def _sizes_of_base(self) -> dict[str, int]:
        """Return the sizes of base that rows may change."""
        for size in ("key_dim", "value_dim"):
            if getattr(self, size) is not None:
                rule = "be none: a head of base has hidden_dim / num_heads"
                refuse(size, rule, getattr(self, size))
        given = {
            "num_encoder_layers": self.num_encoder_layers or self.num_layers,
            "num_decoder_layers": self.num_decoder_layers or self.num_layers,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
        }
        return {size: value or getattr(PRESETS["base"], size) for size, value in given.items()}


def _ratio(row: str, size: str, value: int, of_row: int, of_base: int) -> int:
    """Return `value` times the paper's ratio of a row to base."""
    scaled, rest = divmod(value * of_row, of_base)
    if rest or not scaled:
        raise UserInputError(
            f"Row {row} has {of_row} / {of_base} times the `{size}` of base, which must be a whole "
            f"number. Received for base: {size}={value}"
        )
    return scaled
