"""The paper's settings for English into German: sections 5.1 to 5.4 and 6.1."""

import dataclasses
from typing import Any

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings

CHECKPOINT_SECONDS = 600  # between two of the paper's checkpoints


@dataclasses.dataclass(frozen=True)
class WMT14EnDeSettings(TranslationSettings):
    """Differences from the defaults of `TranslationSettings`, with their reasons.

    The preset determines the rest: 100,000 steps, dropout 0.1 and the mean of the last 5
    checkpoints for base; 300,000, 0.3 and 20 for big; a single checkpoint for the rows of Table 3.
    """

    source_language: str | None = setting("en", "English")
    target_language: str | None = setting("de", "German")
    vocabulary_size: int = setting(37_000, "number of shared subwords, as in the paper")
    symbols: str = setting("", "tags that are always a single token; use <BT> for back-translation")
    max_ratio: float | None = setting(
        None, "drop pairs if a side is this many times longer; the paper mentions no filter"
    )
    drop_duplicates: bool = setting(False, "drop repeated pairs; the paper mentions no filter")
    drop_copies: bool = setting(
        False, "drop pairs whose sides are equal; the paper mentions no filter"
    )
    save_every: int | None = setting(  # type: ignore[assignment]  # None becomes the preset's
        None,
        "number of updates between checkpoints; none: the paper's 10 minutes, 1,500 (big: 600)",
    )
    choose_average: bool = setting(False, "average exactly `average` checkpoints, as in the paper")
    language: str | None = setting(
        "de",
        "target language for which to also report BLEU on Moses tokens with split compounds, "
        "probably the paper's metric",
    )

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        seconds = 1.0 if name == "big" else 0.4  # of the paper's step, on 8 P100 GPUs
        return {**super().preset_values(name), "save_every": round(CHECKPOINT_SECONDS / seconds)}
