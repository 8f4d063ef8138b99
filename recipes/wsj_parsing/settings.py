"""Settings for training a parser on 3,400 trees for an hour on 2 cores, each with its reason.

`paper.toml` in this folder contains the paper's settings.
"""

import dataclasses
import typing
from typing import Any

from keras_transformer import training
from keras_transformer.settings import setting
from keras_transformer.text import SentencePieceTokenizer


@dataclasses.dataclass(frozen=True)
class ParsingSettings(training.TrainingSettings):
    """Settings for a parser. The defaults are for a tenth of the Penn Treebank."""

    may_change: typing.ClassVar[tuple[str, ...]] = (
        *training.TrainingSettings.may_change,
        "average",
    )

    # Data
    vocabulary_size: int = setting(
        2000,
        "number of subwords, including 256 bytes; rare words are split into frequent parts",
        minimum=1,
        below=2**31,
    )
    subword_sampling: float = setting(
        0.0, "share of BPE merges to drop at random, to vary the subwords", minimum=0, below=1
    )
    phrase_swaps: int = setting(
        5,
        "number of new trees to create from each tree of --data by swapping phrases",
        minimum=0,
    )
    average: int = setting(
        5, "number of last checkpoints to average, as for the paper's base model", minimum=1
    )

    # Model settings with different defaults
    precision: str = setting("float32", "dtype policy of the layers, as in the published results")
    num_layers: int = setting(3, "number of layers in each stack; the paper's 4 need more trees")
    hidden_dim: int = setting(128, "d_model; small, because there are few trees")
    intermediate_dim: int = setting(512, "d_ff; four times hidden-dim, as in the paper")
    num_heads: int = setting(4, "number of attention heads, with width 32; divides hidden-dim")
    dropout: float = setting(
        0.2, "dropout rate for sublayers and embeddings; phrase swaps regularize, too"
    )
    attention_dropout: float = setting(0.0, "dropout rate for attention weights")
    activation_dropout: float = setting(0.0, "dropout rate after the ReLU; not used in the paper")
    normalize_first: bool = setting(True, "pre-norm, which avoids an initial plateau")
    positions: str = setting(
        "words",
        "type of positions; with words, a bracket has the position of the next word, which helps "
        "attention find the word",
    )
    max_length: int | None = setting(
        None, "number of learned positions; none: batch-tokens, the maximum sentence length"
    )

    # Training
    batch_tokens: int = setting(
        2048, "maximum number of tokens per step, on each side; small, so there are many steps"
    )
    label_smoothing: float = setting(
        0.1, "probability moved from the correct token to all other tokens, as in the paper"
    )
    steps: int = setting(40_000, "number of updates; `--minutes` usually ends training")
    warmup_steps: int = setting(800, "number of updates with an increasing learning rate")
    learning_rate_scale: float = setting(
        0.7, "multiple of the paper's learning rate, for a peak of 2.2e-3"
    )
    save_every: int = setting(
        500, "number of updates between validations; each also saves a checkpoint"
    )

    # Search
    beam_size: int = setting(21, "beam size, as in the paper")
    alpha: float = setting(0.3, "exponent of the length penalty, as in the paper")
    extra_length: int = setting(
        300,
        "maximum number of output tokens beyond the length of the input, as in the paper",
        minimum=2,
    )

    def training_options(self) -> training.TrainingKeywords:
        """Return the fields of `training.TrainingOptions` that these settings determine."""
        return {**super().training_options(), "keep_last": self.average}

    def model_options(
        self,
        source_tokenizer: SentencePieceTokenizer | None = None,
        tokenizer: SentencePieceTokenizer | None = None,
    ) -> dict[str, Any]:
        """Return the arguments of `build_transformer`, including the vocabulary sizes.

        Args:
            source_tokenizer, tokenizer: tokenizers for words and trees.
        """
        options = {
            "max_length": self.batch_tokens,
            **super().model_options(source_tokenizer, tokenizer),
        }
        if source_tokenizer is not None and tokenizer is not None:
            options["vocabulary_size"] = tokenizer.vocabulary_size
            options["source_vocabulary_size"] = source_tokenizer.vocabulary_size
        return options
