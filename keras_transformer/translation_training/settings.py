"""Settings of a translation training, each with its reason."""

import dataclasses
import typing

from keras_transformer.errors import UserInputError
from keras_transformer.models import PRESETS
from keras_transformer.settings import setting
from keras_transformer.text.sentencepiece_tokenizer import check_symbols
from keras_transformer.training.training_settings import TrainingSettings

# What a training that starts from a run takes from there, with the model and the tokenizers.
OF_ORIGIN = (
    "preset",
    "num_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "key_dim",
    "value_dim",
    "use_bias",
    "normalize_first",
    "positions",
    "max_length",
    "precision",
    "tokenizer",
    "source_tokenizer",
    "separate_vocabularies",
    "vocabulary_size",
    "vocabulary_type",
    "byte_fallback",
    "normalization",
    "symbols",
)


@dataclasses.dataclass(frozen=True)
class TranslationSettings(TrainingSettings):
    """What can be set; each reason is what `--help` shows. A recipe's settings derive from it."""

    may_change: typing.ClassVar[tuple] = (
        *TrainingSettings.may_change,
        "patience",
        "log_every",
        "tensorboard",
        "average",
        "average_of",
        "choose_average",
        "bleu_tokenize",
        "language",
    )

    preset: str = setting(
        "base",
        "the paper's base; small and tiny suit some 100,000 and 10,000 pairs, and a CPU",
        choices=tuple(PRESETS),
    )

    # Text
    tokenizer: str | None = setting(
        None, "SentencePiece model (of the target) to use instead of training one on the text"
    )
    source_tokenizer: str | None = setting(None, "the same for a source vocabulary of its own")
    separate_vocabularies: bool = setting(
        False, "one for each side; sharing is better where the alphabets are the same"
    )
    vocabulary_size: int = setting(
        16_000, "subwords; the paper's 37,000 suit millions of pairs", minimum=1
    )
    vocabulary_type: str = setting(
        "bpe", "as in the paper; unigram samples more widely", choices=("bpe", "unigram")
    )
    byte_fallback: bool = setting(
        True, "spell unknown characters in bytes, at the price of 256 ids, and lose none"
    )
    normalization: str = setting(
        "nmt_nfkc",
        "joins forms of the same character; identity keeps every character as it is",
        choices=("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"),
    )
    symbols: str = setting("<BT>", "tags that are always one token, separated by spaces")
    vocabulary_lines: int = setting(
        2_000_000, "most lines a vocabulary is trained on: a sample of a larger text", minimum=1
    )
    subword_sampling: float = setting(
        0.0,
        "of training text: 0.1 drops BPE merges, 0.2 smooths unigram; for little text",
        minimum=0,
        below=1,
    )

    # Filters of the training text
    max_tokens: int | None = setting(
        256, "drop pairs with a longer side: they cost memory, and few are good", minimum=1
    )
    max_ratio: float | None = setting(
        4.0, "drop pairs with one side so many times longer: seldom translations", minimum=1
    )
    drop_duplicates: bool = setting(True, "drop pairs that came before")
    drop_copies: bool = setting(True, "drop pairs of equal sides: they teach to copy")

    # Training
    freeze: str | None = setting(
        None, "parts that do not train: encoder, decoder, embeddings or names like decoder_layer_*"
    )
    ema: bool = setting(False, "validate and keep a moving average of the weights")
    ema_momentum: float = setting(
        0.999, "of the moving average: over the last thousand updates", minimum=0, below=1
    )
    log_every: int = setting(50, "updates between two rows of metrics.csv", minimum=1)
    bleu_every: int = setting(
        1, "validations between two measurements of BLEU (greedy search); 0: none", minimum=0
    )
    bleu_sentences: int = setting(
        500, "most dev sentences for that BLEU, spread over the dev text", minimum=1
    )
    best_by: str = setting(
        "perplexity",
        "what ranks checkpoints: perplexity is steadier, bleu nearer to the aim",
        choices=("perplexity", "bleu"),
    )
    patience: int | None = setting(
        None, "end after so many validations without a better value; none: never", minimum=1
    )
    average: int | None = setting(
        None, "checkpoints whose mean translates; none: the preset's", minimum=1
    )
    average_of: str = setting(
        "last", "average the last checkpoints, as the paper, or the best", choices=("last", "best")
    )
    choose_average: bool = setting(
        True, "try fewer checkpoints too and keep the mean with the least dev perplexity"
    )
    tensorboard: bool = setting(True, "write event files for TensorBoard")
    held_out: int = setting(
        1000, "training pairs for validation where no dev text is given", minimum=1
    )

    # Evaluation
    bleu_tokenize: str = setting(
        "13a", "sacrebleu's tokenizer: 13a for plain text, none for tokenized"
    )
    language: str | None = setting(
        None,
        "of the target, such as de: BLEU on Moses tokens with compounds split too; none: without",
    )

    def __post_init__(self):
        super().__post_init__()
        check_symbols("symbols", self.symbols.split())
        if self.best_by == "bleu" and not self.bleu_every:
            raise UserInputError(
                "`best_by` can be bleu only where BLEU is measured. Received: best_by='bleu', "
                "bleu_every=0"
            )
        if self.source_tokenizer and not self.tokenizer:
            raise UserInputError(
                "`source_tokenizer` needs `tokenizer`, that of the target. Received: "
                f"source_tokenizer={self.source_tokenizer!r}, tokenizer=None"
            )
        if self.positions == "words" and not (self.separate_vocabularies or self.source_tokenizer):
            raise UserInputError(
                "`positions` can be words only with `separate_vocabularies`. Received: "
                "positions='words', separate_vocabularies=False"
            )

    @classmethod
    def merge(cls, lower, upper):
        """Values of which `upper` outranks `lower`.

        A preset of `upper` brings its own training values along: what `lower` has only because of
        its preset gives way.
        """
        old = lower.get("preset")
        if old in PRESETS and upper.get("preset", old) != old:
            given_by_preset = cls.preset_values(old).items()
            lower = dict(item for item in lower.items() if item not in given_by_preset)
        return {**lower, **upper}

    @classmethod
    def preset_values(cls, name):
        return {**super().preset_values(name), "average": PRESETS[name].averaged_checkpoints}

    def optimizer_options(self):
        ema = {"use_ema": True, "ema_momentum": self.ema_momentum} if self.ema else {}
        return {**super().optimizer_options(), **ema}

    def check_origin(self, origin):
        """Refuse a setting that the run to start from decides.

        Args:
            origin: the `RunDirectory`. What an older one does not name it did not have.

        Raises:
            UserInputError: a setting of `OF_ORIGIN` is another one there.
        """
        absent = {name: default for name, default in self.defaults().items() if not default}
        values = {**absent, **origin.settings()}
        for name in OF_ORIGIN:
            if getattr(self, name) != values.get(name, getattr(self, name)):
                raise UserInputError(
                    f"A training that starts from {origin.path} has its model and tokenizers: "
                    f"`{name}` must be {values[name]!r}. Received: {name}={getattr(self, name)!r}"
                )

    def frozen_layers(self):
        """The names that `training.freeze` takes."""
        return (self.freeze or "").split()

    @property
    def monitor(self):
        """The validation value that ranks checkpoints."""
        return f"val_{self.best_by}"

    @property
    def mode(self):
        """Whether the least or the most of it is best."""
        return "max" if self.best_by == "bleu" else "min"

    @property
    def keep_last(self):
        """How many of the last checkpoints are kept."""
        return self.average

    @property
    def keep_best(self):
        """How many of the best checkpoints are kept besides."""
        return self.average if self.average_of == "best" else 1
