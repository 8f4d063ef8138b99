"""Settings for Multi30k, chosen on the validation set for two hours on two cores."""

import dataclasses

from keras_transformer.settings import setting
from keras_transformer.translation_training import TranslationSettings


@dataclasses.dataclass(frozen=True)
class Multi30kSettings(TranslationSettings):
    """Differences from the defaults of `TranslationSettings`, with their reasons."""

    preset: str = setting("tiny", "size of the model; 29,000 captions are too few for a larger one")
    source_language: str | None = setting("en", "English")
    target_language: str | None = setting("de", "German")
    vocabulary_size: int = setting(
        10_000,
        "shared subwords; a step takes a sixth longer than with 6,000, but each step teaches more",
    )
    byte_fallback: bool = setting(
        False, "represent unknown characters as bytes, which takes 256 ids; the captions have none"
    )
    symbols: str = setting("", "tags that are always a single token; the captions have none")
    max_tokens: int | None = setting(None, "the captions are clean: all are kept")
    max_ratio: float | None = setting(None, "the captions are clean: all are kept")
    drop_duplicates: bool = setting(False, "published scores use all captions")
    drop_copies: bool = setting(False, "published scores use all captions")
    dropout: float | None = setting(
        0.2, "rate for sub-layers and embeddings: as good as 0.3 after an hour, better before"
    )
    residual_connection: str | None = setting(
        "deepnorm", "post-norm that learns from the start; the paper's form stalls with some seeds"
    )
    batch_tokens: int | None = setting(
        4096, "maximum number of source and of target tokens in a step; small, for many steps"
    )
    optimizer: str = setting("muon", "better than Adam after as many minutes, with fewer updates")
    steps: int | None = setting(20_000, "number of updates; `--minutes` usually ends training")
    warmup_steps: int | None = setting(1000, "number of updates in which the learning rate rises")
    learning_rate_scale: float = setting(
        0.75, "factor on the paper's learning rate: a peak of 2.1e-3; small batches need a low one"
    )
    cooldown: float = setting(
        0.3,
        "final share of training in which the learning rate falls linearly to 0: Muon's full rate "
        "is too high for a model that has learned",
    )
    precision: str = setting(
        "float32",
        "dtype policy of the layers, as in the published results; such a small model gains little "
        "from bfloat16",
    )
    save_every: int = setting(
        200, "number of updates between validations, each with a checkpoint; about 1.6 epochs"
    )
    bleu_every: int = setting(
        5, "number of validations between measurements of BLEU with greedy decoding; 0: never"
    )
    average: int | None = setting(
        10, "maximum number of last checkpoints to average; validation decides how many"
    )
    beam_size: int = setting(5, "beam size for scoring")
    tune_alpha: bool = setting(
        True, "choose alpha by BLEU on val; after short training, outputs are too short with 0.6"
    )
    bleu_tokenize: str = setting(
        "none", "sacrebleu's tokenizer: none for tokenized files, 13a for raw files"
    )
