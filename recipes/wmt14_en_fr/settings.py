"""The paper's settings for English into French: sections 5.1 to 5.4 and 6.1."""

import dataclasses
from typing import Any

from keras_transformer.settings import setting
from recipes.wmt14_en_de.settings import WMT14EnDeSettings


@dataclasses.dataclass(frozen=True)
class WMT14EnFrSettings(WMT14EnDeSettings):
    """Differences from English into German, with their reasons."""

    target_language: str | None = setting("fr", "French")
    vocabulary_size: int = setting(
        32_000, "the paper's number of word pieces, with BPE in their place"
    )
    dropout: float | None = setting(
        None, "the preset's, but 0.1 for big: 36 million pairs need less dropout"
    )
    language: str | None = setting(
        None,
        "target language for which to also report BLEU on Moses tokens with split compounds; the "
        "paper does so for German",
    )

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        dropout = {"dropout": 0.1} if name == "big" else {}
        return {**super().preset_values(name), **dropout}
