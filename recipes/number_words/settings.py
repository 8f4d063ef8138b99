"""Settings of the demo, each with its reason."""

import dataclasses

from keras_transformer.errors import UserInputError
from keras_transformer.settings import setting
from keras_transformer.training.device_settings import (
    DEVICE_SETTINGS_THAT_MAY_CHANGE,
    DeviceSettings,
)

# What a training that is resumed may have otherwise: it does not change the updates.
MAY_CHANGE = (*DEVICE_SETTINGS_THAT_MAY_CHANGE, "steps", "beam_size", "alpha")


@dataclasses.dataclass(frozen=True)
class NumberWordsSettings(DeviceSettings):
    """English number words into German, in about a minute and a half on two cores."""

    seed: int = setting(1, "decides the held-out numbers, the weights and the batches", minimum=0)
    deterministic: bool = setting(True, "the same seed gives the same losses, bit by bit")
    numbers: int = setting(10_000, "0 to 9,999: German has no spaces there", minimum=20)
    held_out: int = setting(1000, "a wrong one costs 0.1 % of exact match", minimum=1)
    validation: int = setting(200, "training numbers that choose the best checkpoint", minimum=1)
    vocabulary_size: int = setting(200, "about one piece a number word", minimum=5)
    num_layers: int = setting(2, "encoder and decoder layers: enough for four digits", minimum=1)
    hidden_dim: int = setting(128, "the preset tiny's", minimum=2)
    intermediate_dim: int = setting(256, "the preset tiny's", minimum=1)
    num_heads: int = setting(4, "the preset tiny's; divides hidden_dim", minimum=1)
    dropout: float = setting(0.1, "9,000 pairs without noise need little", minimum=0, below=1)
    label_smoothing: float = setting(
        0.0, "a number has one translation: nothing to hedge", minimum=0, below=1
    )
    steps: int = setting(1000, "weight updates; validation perplexity is flat by then", minimum=1)
    batch_tokens: int = setting(2048, "about 220 numbers an update", minimum=1)
    warmup_steps: int = setting(200, "a fifth of the training", minimum=1)
    learning_rate_scale: float = setting(
        0.25, "peak 1.6e-3; at twice that the last checkpoints differ much", minimum=1e-3
    )
    save_every: int = setting(50, "updates between two validations and checkpoints", minimum=1)
    beam_size: int = setting(4, "the paper's", minimum=1)
    alpha: float = setting(0.6, "length penalty, the paper's", minimum=0, below=10)

    def __post_init__(self):
        super().__post_init__()
        if self.hidden_dim % 2 or self.hidden_dim % self.num_heads:
            raise UserInputError(
                "`hidden_dim` must be even and a multiple of `num_heads`. "
                f"Received: hidden_dim={self.hidden_dim}, num_heads={self.num_heads}"
            )

    def model_options(self):
        """The arguments of `build_transformer` that differ from the preset tiny."""
        return {
            "num_encoder_layers": self.num_layers,
            "num_decoder_layers": self.num_layers,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "dtype": self.precision,
        }
