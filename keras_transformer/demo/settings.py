"""Settings of the demo, each with its reason."""

import dataclasses

from keras_transformer import training
from keras_transformer.settings import setting


@dataclasses.dataclass(frozen=True)
class NumberWordsSettings(training.TrainingSettings):
    """English number words into German, in about a minute on two cores."""

    preset = "tiny"
    may_change = (*training.TrainingSettings.may_change, "patience")

    numbers: int = setting(
        10_000, "0 to 9,999, which German writes without spaces", minimum=20, below=10**7 + 1
    )
    held_out: int = setting(
        1000, "numbers to score; a wrong one costs 0.1 % of exact match", minimum=1
    )
    validation: int = setting(200, "training numbers that choose the best checkpoint", minimum=1)
    vocabulary_size: int = setting(230, "about one piece per number word", minimum=5, below=2**31)

    # What differs from the settings of every training
    seed: int = setting(1, "decides the held-out numbers, the weights and the batches")
    num_layers: int = setting(2, "encoder and decoder layers: enough for four digits")
    hidden_dim: int = setting(128, "the preset tiny's")
    intermediate_dim: int = setting(256, "the preset tiny's")
    num_heads: int = setting(4, "the preset tiny's; divides hidden_dim")
    dropout: float = setting(0.1, "9,000 pairs without noise need little")
    positions: str | None = setting(
        None, "none: the preset tiny's, sinusoidal", choices=("sinusoidal", "learned")
    )
    label_smoothing: float = setting(0.0, "a number has one translation: nothing to hedge")
    precision: str = setting(
        "float32", "dtype policy of the layers; gives the same words on every machine"
    )
    steps: int = setting(1000, "weight updates; validation perplexity is flat by then")
    batch_tokens: int = setting(
        1024, "about 110 numbers per update; twice as many would need about as many updates"
    )
    warmup_steps: int = setting(150, "a seventh of the training")
    learning_rate_scale: float = setting(
        0.18, "a peak of 1.3e-3; at twice that, the last checkpoints differ a lot"
    )
    save_every: int = setting(50, "updates between validations, each with a checkpoint")
    patience: int | None = setting(
        3, "end after this many validations without a better one; none: never", minimum=1
    )
    alpha: float = setting(0.6, "length penalty, the paper's")
    deterministic: bool = setting(True, "the same seed gives bit-equal losses")
