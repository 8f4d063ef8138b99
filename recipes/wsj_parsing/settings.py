"""Settings of the parser's training, each with its reason: for 3,400 trees and an hour on 2 cores.

`paper.toml` beside this file has those of the paper.
"""

import dataclasses

from keras_transformer.errors import UserInputError
from keras_transformer.settings import setting
from keras_transformer.training.device_settings import (
    DEVICE_SETTINGS_THAT_MAY_CHANGE,
    DeviceSettings,
)

# What a training that is resumed may have otherwise: it does not change the updates.
MAY_CHANGE = (
    *DEVICE_SETTINGS_THAT_MAY_CHANGE,
    "steps",
    "average",
    "beam_size",
    "alpha",
    "extra_length",
)


@dataclasses.dataclass(frozen=True)
class ParsingSettings(DeviceSettings):
    """Sentences into linearised trees; the defaults are for a tenth of the Penn Treebank."""

    seed: int = setting(
        1, "of the weights, the dropout and the order of the batches", minimum=0, below=2**32
    )

    # Model
    num_layers: int = setting(3, "of each stack; the paper's 4 need more trees", minimum=1)
    hidden_dim: int = setting(128, "d_model: small, as the trees are few", minimum=2)
    intermediate_dim: int = setting(512, "d_ff, four times hidden_dim as in the paper", minimum=1)
    num_heads: int = setting(4, "attention heads of 32; divides hidden_dim", minimum=1)
    dropout: float = setting(
        0.2,
        "rate on sub-layers and embeddings; phrase_swaps is a protection too",
        minimum=0,
        below=1,
    )
    attention_dropout: float = setting(0.0, "rate on attention weights", minimum=0, below=1)
    activation_dropout: float = setting(
        0.0, "rate behind the ReLU: the paper has none", minimum=0, below=1
    )
    normalize_first: bool = setting(True, "pre-norm: no plateau at the start of a short training")
    positions: str = setting(
        "words",
        "words: a bracket has the number of the word that comes next, so attention finds that word",
        choices=("words", "sinusoidal", "learned"),
    )

    # Data
    vocabulary_size: int = setting(
        2000, "subwords of the words, 256 of them bytes: rare words in parts seen often", minimum=1
    )
    subword_sampling: float = setting(
        0.0, "share of BPE merges dropped at random: rare words in many parts", minimum=0, below=1
    )
    phrase_swaps: int = setting(
        5,
        "new trees made of each one of --data by swapping phrases of one kind: 3,400 trees are few",
        minimum=0,
    )
    batch_tokens: int = setting(
        2048, "most source and most target tokens a step: many updates in an hour", minimum=1
    )

    # Training
    steps: int = setting(40_000, "weight updates; `--minutes` usually ends the training", minimum=1)
    warmup_steps: int = setting(800, "updates with a rising learning rate", minimum=1)
    learning_rate_scale: float = setting(
        0.7, "factor of the paper's schedule: a peak of 2.2e-3", minimum=1e-6
    )
    label_smoothing: float = setting(
        0.1, "share of the target off the right token, the paper's", minimum=0, below=1
    )
    save_every: int = setting(500, "updates between two validations and checkpoints", minimum=1)
    average: int = setting(5, "last checkpoints whose mean parses, as the paper's base", minimum=1)

    # Search
    beam_size: int = setting(21, "the paper's", minimum=1)
    alpha: float = setting(0.3, "exponent of the length penalty, the paper's", minimum=0, below=10)
    extra_length: int = setting(
        300, "most output tokens beyond the input's own, the paper's", minimum=2
    )

    def __post_init__(self):
        super().__post_init__()
        if self.hidden_dim % self.num_heads:
            raise UserInputError(
                "`hidden_dim` must be a multiple of `num_heads`. "
                f"Received: hidden_dim={self.hidden_dim}, num_heads={self.num_heads}"
            )

    def model_options(self, source_tokenizer, tokenizer):
        """The arguments of `build_transformer` for the vocabularies of words and of trees.

        Args:
            source_tokenizer: the `SentencePieceTokenizer` of the words.
            tokenizer: the `TreeTokenizer`.
        """
        options = {
            "num_encoder_layers": self.num_layers,
            "num_decoder_layers": self.num_layers,
            "hidden_dim": self.hidden_dim,
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "normalize_first": self.normalize_first,
            "positions": self.positions,
            "dtype": self.precision,
            "vocabulary_size": tokenizer.vocabulary_size,
            "source_vocabulary_size": source_tokenizer.vocabulary_size,
        }
        if self.positions == "words":
            options["source_word_starts"] = source_tokenizer.word_starts
            options["target_word_starts"] = tokenizer.word_starts
        if self.positions == "learned":
            options["max_length"] = self.batch_tokens  # a longer sentence is in no batch
        return options
