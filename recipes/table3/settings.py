"""Settings that all rows share, and how each row changes them."""

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
    """The settings of the row base; the other rows differ from it as in the paper."""

    preset: str = setting("base", "the rows are those of the paper", choices=("base",))
    num_layers: int | None = setting(
        None, "layers in each stack of base; none: 6; C1 to C3 have 1/3, 2/3 and 4/3 times as many"
    )
    hidden_dim: int | None = setting(
        None, "d_model of base; none: 512; C4 has half of it, C5 and big twice"
    )
    intermediate_dim: int | None = setting(
        None, "d_ff of base; none: 2048; C6 has half of it, C7 and big twice"
    )
    num_heads: int | None = setting(
        None, "heads of base; none: 8; A1 to A4 have 1/8, 1/2, 2 and 4 times as many"
    )
    average: int | None = setting(
        1, "number of checkpoints to average: the paper's Table 3 averages none"
    )
    bleu_every: int = setting(
        0, "number of validations between measurements of BLEU; 0: never, to save time"
    )

    def check_given(self, names: Collection[str]) -> None:
        super().check_given(set(names) - {"max_length"})  # which is for the row E

    def row(self, name: str) -> "Table3Settings":
        """The settings of a row: the settings of base, changed as in the paper's row.

        The size of a row has the paper's ratio to the size of base; the rates and the positions
        that a row changes are the same as in the paper.

        Args:
            name: name of the row in `ROWS`.

        Raises:
            UserInputError: there is no such row, or a size would not be a whole number.
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
        """The sizes of the row base that rows may change."""
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
    """`value` times the paper's ratio of a row to base."""
    scaled, rest = divmod(value * of_row, of_base)
    if rest or not scaled:
        raise UserInputError(
            f"Row {row} has {of_row} / {of_base} times the `{size}` of base, which must be a whole "
            f"number. Received for base: {size}={value}"
        )
    return scaled
