"""The paper's settings for English to German: sections 5.1 to 5.4 and 6.1."""

import dataclasses
from typing import Any

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings

CHECKPOINT_SECONDS = 600  # time between checkpoints in the paper


@dataclasses.dataclass(frozen=True)
class WMT14EnDeSettings(TranslationSettings):
    """Settings that differ from the defaults of `TranslationSettings`, each with its reason.

    The preset determines the rest. `base` uses 100,000 steps, dropout 0.1 and the mean of the last
    5 checkpoints; `big` uses 300,000, 0.3 and 20. Rows of Table 3 use a single checkpoint.
    """

    source_language: str | None = setting("en", "English")
    target_language: str | None = setting("de", "German")
    vocabulary_size: int = setting(37_000, "number of shared subwords, as in the paper")
    symbols: str = setting(
        "", "space-separated tags that are always single tokens; use <BT> for back-translation"
    )
    max_ratio: float | None = setting(
        None, "drop pairs if one side is this many times longer; the paper mentions no filter"
    )
    drop_duplicates: bool = setting(False, "drop repeated pairs; the paper mentions no filter")
    drop_copies: bool = setting(
        False, "drop pairs with identical sides; the paper mentions no filter"
    )
    save_every: int | None = setting(  # type: ignore[assignment]  # None becomes the preset's
        None,
        "number of updates between validations; each also saves a checkpoint; none: 10 minutes on "
        "the paper's machine, 1,500 (big: 600)",
    )
    choose_average: bool = setting(
        False,
        "also try fewer checkpoints, and keep the average with the lowest dev perplexity; not used "
        "in the paper",
    )
    language: str | None = setting(
        "de",
        "target language, such as de, to also report BLEU on Moses tokens with split compounds, "
        "probably the paper's metric",
    )

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        seconds = 1.0 if name == "big" else 0.4  # per step in the paper, on 8 P100 GPUs
        return {**super().preset_values(name), "save_every": round(CHECKPOINT_SECONDS / seconds)}
