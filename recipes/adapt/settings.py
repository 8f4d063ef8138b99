"""Settings for adaptation: a short training run with a low learning rate."""

import dataclasses

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings

# Adapters need a higher learning rate than complete matrices: docs/lab/lora.md.
ADAPTERS_RATE = 1.0


@dataclasses.dataclass(frozen=True)
class AdaptSettings(TranslationSettings):
    """Settings that differ from the initial run, each with its reason.

    These fields keep their defaults. All other settings are inherited from the initial run.
    """

    general_share: float = setting(
        0.5,
        "share of general text in each epoch, before filtering",
        minimum=0.01,
        below=1,
    )
    freeze: str | None = setting(
        None,
        "parts to freeze: encoder, decoder, embeddings, or names such as decoder_layer_*; none: "
        "nothing",
    )
    lora_rank: int | None = setting(
        None, "train only LoRA adapters of this rank, such as 8; none: all weights"
    )
    lora_alpha: float | None = setting(
        None, "scale the adapters by lora-alpha / lora-rank; none: same as lora-rank"
    )
    optimizer: str = setting("adam", "adam, which also works for adapters; muon does not")
    batch_tokens: int | None = setting(
        2048, "maximum number of tokens per step, on each side; small, so there are many steps"
    )
    steps: int | None = setting(1000, "number of updates; enough for a few thousand pairs")
    warmup_steps: int | None = setting(100, "number of updates with an increasing learning rate")
    learning_rate_scale: float = setting(
        0.1,
        "multiple of the paper's learning rate; more would overwrite what the model has learned; "
        f"not given: 0.1, with lora-rank {ADAPTERS_RATE:g}",
    )
    cooldown: float = setting(
        0.4, "final share of training with a linear decay of the learning rate to 0"
    )
    save_every: int = setting(
        100, "number of updates between validations; each also saves a checkpoint"
    )
    bleu_every: int = setting(
        5, "number of validations between measurements of BLEU with greedy decoding; 0: never"
    )
    average: int | None = setting(
        5, "maximum number of best checkpoints to average; validation determines how many"
    )
    average_of: str = setting("best", "best, because the model soon overfits a small text")
    tune_alpha: bool = setting(
        False, "choose --alpha by BLEU on the dev text; not given: the initial run's search"
    )
