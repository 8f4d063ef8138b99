"""The paper's settings for English to French: sections 5.1 to 5.4 and 6.1."""

import dataclasses
from typing import Any

from keras_transformer.settings import setting
from recipes.wmt14_en_de.settings import WMT14EnDeSettings


@dataclasses.dataclass(frozen=True)
class WMT14EnFrSettings(WMT14EnDeSettings):
    """Settings that differ from English-German, each with its reason."""

    target_language: str | None = setting("fr", "French")
    vocabulary_size: int = setting(
        32_000, "number of subwords; as many as the paper's word pieces, but with BPE"
    )
    dropout: float | None = setting(
        None,
        "dropout rate for sublayers and embeddings; none: the preset's, but 0.1 for big, because "
        "36 million pairs need less dropout",
    )
    language: str | None = setting(
        None,
        "target language, such as fr, to also report BLEU on Moses tokens with split compounds, as "
        "in the paper for German",
    )

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        dropout = {"dropout": 0.1} if name == "big" else {}
        return {**super().preset_values(name), **dropout}
