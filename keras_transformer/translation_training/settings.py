"""Settings of a translation training, each with its reason."""

import dataclasses

from keras_transformer.errors import UserInputError
from keras_transformer.models.presets import PRESETS
from keras_transformer.settings import setting
from keras_transformer.text.sentencepiece_tokenizer import check_symbols
from keras_transformer.training.device_settings import (
    DEVICE_SETTINGS_THAT_MAY_CHANGE,
    DeviceSettings,
)

# Fields that shape the model. Where a training starts from another run, that run's model decides.
_MODEL_SIZES = {
    "num_layers": ("num_encoder_layers", "num_decoder_layers"),
    "hidden_dim": ("hidden_dim",),
    "intermediate_dim": ("intermediate_dim",),
    "num_heads": ("num_heads",),
}
# What a training that starts from a run takes from there, with the model and the tokenizers.
OF_ORIGIN = (
    "preset",
    *_MODEL_SIZES,
    "normalize_first",
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
# What a training that is resumed may have otherwise: it does not change the updates.
MAY_CHANGE = (
    *DEVICE_SETTINGS_THAT_MAY_CHANGE,
    "steps",
    "patience",
    "log_every",
    "tensorboard",
    "average",
    "average_of",
    "choose_average",
    "beam_size",
    "alpha",
    "bleu_tokenize",
)
# Fields whose default is the preset's: setting -> field of `models.presets.Preset`.
_OF_PRESET = {
    "dropout": "dropout",
    "label_smoothing": "label_smoothing",
    "batch_tokens": "batch_tokens",
    "steps": "training_steps",
    "warmup_steps": "warmup_steps",
    "average": "averaged_checkpoints",
}


@dataclasses.dataclass(frozen=True)
class TranslationSettings(DeviceSettings):
    """What can be set; each reason is what `--help` shows. A recipe's settings derive from it."""

    # Model
    preset: str = setting(
        "base",
        "the paper's base; small and tiny suit some 100,000 and 10,000 pairs, and a CPU",
        choices=tuple(PRESETS),
    )
    num_layers: int | None = setting(None, "of each stack; none: the preset's", minimum=1)
    hidden_dim: int | None = setting(None, "d_model; none: the preset's", minimum=2)
    intermediate_dim: int | None = setting(None, "d_ff; none: the preset's", minimum=1)
    num_heads: int | None = setting(None, "attention heads; none: the preset's", minimum=1)
    dropout: float | None = setting(
        None,
        "rate on sub-layers and embeddings; none: the preset's; more for less text",
        minimum=0,
        below=1,
    )
    attention_dropout: float = setting(0.0, "the paper has none", minimum=0, below=1)
    activation_dropout: float = setting(
        0.0, "behind the ReLU: the paper has none", minimum=0, below=1
    )
    normalize_first: bool = setting(
        False, "pre-norm: steadier in deep stacks than the paper's order"
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
    batch_tokens: int | None = setting(
        None, "most source and most target tokens a step; none: the preset's", minimum=1
    )
    label_smoothing: float | None = setting(
        None, "share of the target off the right token; none: the preset's", minimum=0, below=1
    )
    steps: int | None = setting(None, "weight updates; none: the preset's", minimum=1)
    warmup_steps: int | None = setting(
        None, "updates with a rising learning rate; none: the preset's", minimum=1
    )
    learning_rate_scale: float = setting(
        1.0, "factor of the paper's schedule; less for small batches", minimum=1e-6
    )
    freeze: str | None = setting(
        None, "parts that do not train: encoder, decoder, embeddings or names like decoder_layer_*"
    )
    ema: bool = setting(False, "validate and keep a moving average of the weights")
    ema_momentum: float = setting(
        0.999, "of the moving average: over the last thousand updates", minimum=0, below=1
    )
    save_every: int = setting(1000, "updates between two validations and checkpoints", minimum=1)
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
    seed: int = setting(
        1, "of the weights, the dropout and the order of the batches", minimum=0, below=2**32
    )

    # Evaluation
    beam_size: int = setting(4, "the paper's", minimum=1)
    alpha: float = setting(0.6, "exponent of the length penalty, the paper's", minimum=0, below=10)
    bleu_tokenize: str = setting(
        "13a", "sacrebleu's tokenizer: 13a for plain text, none for tokenized"
    )

    def __post_init__(self):
        super().__post_init__()
        preset = PRESETS[self.preset]
        for name, field in _OF_PRESET.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, getattr(preset, field))
        self._check_sizes()
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

    def _check_sizes(self):
        sizes = dataclasses.replace(PRESETS[self.preset], **self.size_options())
        if sizes.hidden_dim % sizes.num_heads and None in (sizes.key_dim, sizes.value_dim):
            raise UserInputError(
                "`hidden_dim` must be a multiple of `num_heads`. "
                f"Received: hidden_dim={sizes.hidden_dim}, num_heads={sizes.num_heads}"
            )

    @classmethod
    def merge(cls, lower, upper):
        """Values of which `upper` outranks `lower`.

        A preset of `upper` brings its own training values along: what `lower` has only because of
        its preset gives way.
        """
        old = PRESETS.get(lower.get("preset"))
        if old is not None and upper.get("preset", lower["preset"]) != lower["preset"]:
            lower = {
                name: value
                for name, value in lower.items()
                if name not in _OF_PRESET or value != getattr(old, _OF_PRESET[name])
            }
        return {**lower, **upper}

    def size_options(self):
        """The sizes that differ from the preset's, as arguments of `build_transformer`."""
        return {
            argument: getattr(self, name)
            for name, arguments in _MODEL_SIZES.items()
            for argument in arguments
            if getattr(self, name) is not None
        }

    def dropout_rates(self):
        """The rates of dropout, as arguments of `build_transformer` and of its layers."""
        names = ("dropout", "attention_dropout", "activation_dropout")
        return {name: getattr(self, name) for name in names}

    def model_options(self):
        """The arguments of `build_transformer` besides the preset and the vocabularies."""
        return {
            **self.size_options(),
            **self.dropout_rates(),
            "normalize_first": self.normalize_first,
            "dtype": self.precision,
        }

    @property
    def monitor(self):
        """The validation value that ranks checkpoints, and whether the least or the most wins."""
        return ("val_bleu", "max") if self.best_by == "bleu" else ("val_perplexity", "min")
