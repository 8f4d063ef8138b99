"""Settings of an adaptation: short training with a low learning rate."""

import dataclasses

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings

# Adapters need a higher learning rate than complete matrices: docs/lab/lora.md.
ADAPTERS_RATE = 1.0


@dataclasses.dataclass(frozen=True)
class AdaptSettings(TranslationSettings):
    """Differences from the run to adapt, with their reasons.

    These fields keep their defaults whatever that run's settings are; all others are taken from it.
    """

    general_share: float = setting(
        0.5,
        "share of general text among the pairs of an epoch, before filtering",
        minimum=0.01,
        below=1,
    )
    freeze: str | None = setting(
        None, "parts to freeze, such as embeddings or encoder; none: nothing"
    )
    lora_rank: int | None = setting(
        None, "train only LoRA adapters of this rank, such as 8; none: all weights"
    )
    lora_alpha: float | None = setting(
        None, "scale the adapters by lora-alpha / lora-rank; none: the same as lora-rank"
    )
    optimizer: str = setting("adam", "adam suits adapters too; muon trains complete matrices")
    batch_tokens: int | None = setting(
        2048, "maximum number of source and of target tokens in a step; small, for many steps"
    )
    steps: int | None = setting(1000, "number of updates; thousands of pairs need no more")
    warmup_steps: int | None = setting(100, "number of updates in which the learning rate rises")
    learning_rate_scale: float = setting(
        0.1,
        "factor on the paper's learning rate; more would overwrite what the model has learned; not "
        f"given: 0.1, with lora-rank {ADAPTERS_RATE:g}",
    )
    cooldown: float = setting(
        0.4, "final share of training in which the learning rate falls linearly to 0"
    )
    save_every: int = setting(100, "number of updates between validations, each with a checkpoint")
    bleu_every: int = setting(
        5, "number of validations between measurements of BLEU with greedy decoding; 0: never"
    )
    average: int | None = setting(
        5, "maximum number of best checkpoints to average; validation decides how many"
    )
    average_of: str = setting("best", "a small text is soon overfitted: the last may not be best")
    tune_alpha: bool = setting(
        False, "choose --alpha by BLEU on the dev text; not given: the search of the run to adapt"
    )
