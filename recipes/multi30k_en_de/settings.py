"""Settings of the Multi30k training, chosen on the validation set for two hours on two cores."""

import dataclasses

from keras_transformer.models import PRESETS
from keras_transformer.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class Multi30kSettings(Settings):
    """What can be set; each reason is what `--help` shows."""

    preset: str = setting(
        "tiny",
        "size of the model; 29,000 captions do not feed a larger one",
        choices=tuple(PRESETS),
    )
    tokenizer: str | None = setting(
        None, "SentencePiece model to use instead of training one on the training text"
    )
    vocabulary_size: int = setting(
        6000,
        "shared subwords: 6 % more tokens than with 10,000, and logits that cost 40 % less",
        minimum=1,
    )
    byte_fallback: bool = setting(
        False, "spell unknown characters in bytes; the captions have none, and it takes 256 ids"
    )
    dropout: float = setting(
        0.3,
        "rate on sub-layers and embeddings: high, as the text is read 90 times",
        minimum=0,
        below=1,
    )
    label_smoothing: float = setting(0.1, "the paper's", minimum=0, below=1)
    normalize_first: bool = setting(False, "pre-norm instead of the paper's post-norm")
    batch_tokens: int = setting(
        4096,
        "most source and most target tokens a step: small, for many steps in little time",
        minimum=1,
    )
    steps: int = setting(20_000, "weight updates; `--minutes` usually ends the training", minimum=1)
    warmup_steps: int = setting(1000, "updates with a rising learning rate", minimum=1)
    learning_rate_scale: float = setting(
        0.75, "factor of the paper's schedule: a peak of 2.1e-3 here; small steps want a low one"
    )
    precision: str = setting(
        "float32",
        "dtype policy of the layers",
        choices=("float32", "mixed_bfloat16", "mixed_float16"),
    )
    save_every: int = setting(
        200, "updates between two validations and checkpoints, about 1.6 epochs", minimum=1
    )
    average: int = setting(
        10, "most last checkpoints whose mean translates; validation decides how many", minimum=1
    )
    log_every: int = setting(50, "updates between two rows of metrics.csv", minimum=1)
    beam_size: int = setting(5, "hypotheses of the search that is scored", minimum=1)
    alpha: float = setting(0.6, "exponent of the length penalty, the paper's", minimum=0)
    bleu_tokenize: str = setting(
        "none", "sacrebleu's tokenizer: none for tokenized files, 13a for raw ones"
    )
    seed: int = setting(1, "of the weights, the dropout and the order of the batches", minimum=0)
    deterministic: bool = setting(
        False,
        "bit-equal losses of two trainings with one seed; costs a third of the speed on a CPU",
    )

    def model_options(self):
        """The arguments of `build_transformer` besides the preset and the vocabulary."""
        return {
            "dropout": self.dropout,
            "normalize_first": self.normalize_first,
            "dtype": self.precision,
        }
