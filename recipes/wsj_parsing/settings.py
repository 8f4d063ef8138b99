"""Settings for training the parser, each with its reason: for 3,400 trees, an hour on 2 cores.

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
    """Sentences into linearized trees; the defaults are for a tenth of the Penn Treebank."""

    may_change: typing.ClassVar[tuple[str, ...]] = (
        *training.TrainingSettings.may_change,
        "average",
    )

    # Data
    vocabulary_size: int = setting(
        2000,
        "subwords of the words, 256 of them bytes; rare words are split into frequent parts",
        minimum=1,
        below=2**31,
    )
    subword_sampling: float = setting(
        0.0, "share of BPE merges dropped at random, to split words differently", minimum=0, below=1
    )
    phrase_swaps: int = setting(
        5,
        "number of new trees made from each tree of --data by swapping phrases: 3,400 are few",
        minimum=0,
    )
    average: int = setting(
        5, "number of last checkpoints to average, as for the paper's base", minimum=1
    )

    # Differences from the settings of every training run: the model
    precision: str = setting("float32", "dtype policy of the layers, as in the published results")
    num_layers: int = setting(3, "layers in each stack; the paper's 4 need more trees")
    hidden_dim: int = setting(128, "d_model; small, because there are few trees")
    intermediate_dim: int = setting(512, "d_ff; four times hidden_dim, as in the paper")
    num_heads: int = setting(4, "number of attention heads, of width 32; divides hidden_dim")
    dropout: float = setting(
        0.2, "rate for sub-layers and embeddings; phrase_swaps regularizes too"
    )
    attention_dropout: float = setting(0.0, "rate for attention weights")
    activation_dropout: float = setting(0.0, "rate after the ReLU; the paper has none")
    normalize_first: bool = setting(True, "pre-norm: no plateau at the start of short training")
    positions: str = setting(
        "words",
        "words: a bracket has the position of the next word, so that attention finds that word",
    )
    max_length: int | None = setting(
        None, "number of learned positions; none: batch-tokens, because no sentence is longer"
    )

    # Training
    batch_tokens: int = setting(
        2048, "maximum number of source and of target tokens in a step; small, for many updates"
    )
    label_smoothing: float = setting(0.1, "probability moved to all other tokens, as in the paper")
    steps: int = setting(40_000, "number of updates; `--minutes` usually ends training")
    warmup_steps: int = setting(800, "number of updates in which the learning rate rises")
    learning_rate_scale: float = setting(0.7, "factor on the paper's rate: a peak of 2.2e-3")
    save_every: int = setting(500, "number of updates between validations, each with a checkpoint")

    # Search
    beam_size: int = setting(21, "beam size, as in the paper")
    alpha: float = setting(0.3, "exponent of the length penalty, as in the paper")
    extra_length: int = setting(
        300, "maximum number of output tokens beyond the input, as in the paper", minimum=2
    )

    def training_options(self) -> training.TrainingKeywords:
        """The fields of `training.TrainingOptions` that these settings determine."""
        return {**super().training_options(), "keep_last": self.average}

    def model_options(
        self,
        source_tokenizer: SentencePieceTokenizer | None = None,
        tokenizer: SentencePieceTokenizer | None = None,
    ) -> dict[str, Any]:
        """The arguments of `build_transformer`, with the vocabulary sizes.

        Args:
            source_tokenizer, tokenizer: tokenizers of the words and of the trees.
        """
        options = {
            "max_length": self.batch_tokens,
            **super().model_options(source_tokenizer, tokenizer),
        }
        if source_tokenizer is not None and tokenizer is not None:
            options["vocabulary_size"] = tokenizer.vocabulary_size
            options["source_vocabulary_size"] = source_tokenizer.vocabulary_size
        return options
