"""Settings for Multi30k, tuned on the validation set for two hours of training on two cores."""

import dataclasses

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings


@dataclasses.dataclass(frozen=True)
class Multi30kSettings(TranslationSettings):
    """Settings that differ from the defaults of `TranslationSettings`, each with its reason."""

    preset: str = setting("tiny", "model size; 29,000 captions are too few for a larger model")
    source_language: str | None = setting("en", "English")
    target_language: str | None = setting("de", "German")
    vocabulary_size: int = setting(
        10_000,
        "number of subwords; steps take a sixth longer than with 6,000, but are more effective",
    )
    byte_fallback: bool = setting(
        False, "represent unknown characters as bytes; uses 256 ids; not needed for the captions"
    )
    symbols: str = setting("", "space-separated tags that are always single tokens; not used here")
    max_tokens: int | None = setting(None, "drop longer pairs; not needed for clean captions")
    max_ratio: float | None = setting(None, "drop unbalanced pairs; not needed for clean captions")
    drop_duplicates: bool = setting(False, "drop repeated pairs; published scores use all captions")
    drop_copies: bool = setting(
        False, "drop pairs with identical sides; published scores use all captions"
    )
    dropout: float | None = setting(
        0.2,
        "dropout rate for sublayers and embeddings; as good as 0.3 after an hour, better before",
    )
    residual_connection: str | None = setting(
        "deepnorm", "post-norm without plateaus; the paper's form stalls with some seeds"
    )
    batch_tokens: int | None = setting(
        4096, "maximum number of tokens per step, on each side; small, so there are many steps"
    )
    optimizer: str = setting("muon", "better than Adam after the same time, with fewer updates")
    steps: int | None = setting(20_000, "number of updates; `--minutes` usually ends training")
    warmup_steps: int | None = setting(1000, "number of updates with an increasing learning rate")
    learning_rate_scale: float = setting(
        0.75, "multiple of the paper's learning rate, for a peak of 2.1e-3; low for small batches"
    )
    cooldown: float = setting(
        0.3,
        "final share of training with a linear decay of the learning rate to 0, because Muon's "
        "full rate is too high at the end",
    )
    precision: str = setting(
        "float32",
        "dtype policy of the layers, as in the published results; such a small model gains little "
        "from bfloat16",
    )
    save_every: int = setting(
        200,
        "number of updates between validations, about 1.6 epochs; each also saves a checkpoint",
    )
    bleu_every: int = setting(
        5, "number of validations between measurements of BLEU with greedy decoding; 0: never"
    )
    average: int | None = setting(
        10, "maximum number of last checkpoints to average; validation determines how many"
    )
    beam_size: int = setting(5, "beam size for scoring")
    tune_alpha: bool = setting(
        True, "choose alpha by BLEU on val; after short training, outputs are too short with 0.6"
    )
    bleu_tokenize: str = setting(
        "none", "sacrebleu tokenizer: none for tokenized files, 13a for raw files"
    )
