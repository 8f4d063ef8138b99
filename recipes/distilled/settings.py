"""Settings for a student: the Multi30k settings with different depths and text."""

import dataclasses
from typing import Self

from keras_transformer.search_options import END_OF_ALPHA
from keras_transformer.settings import setting
from recipes.multi30k_en_de.settings import Multi30kSettings

BEST, BY_BLEU = "best", "sentence-bleu"  # ways to choose among the teacher's n-best translations


@dataclasses.dataclass(frozen=True)
class DistilledSettings(Multi30kSettings):
    """Settings that differ from those of `multi30k_en_de`, each with its reason."""

    # What the student reads
    teacher_beam_size: int | None = setting(
        None,
        "the teacher's beam size, and the number of translations it returns; none: its first run's",
        minimum=1,
    )
    teacher_alpha: float | None = setting(
        None,
        "exponent of the teacher's length penalty; none: its first run's",
        minimum=0,
        below=END_OF_ALPHA,
    )
    teacher_extra_length: int | None = setting(
        None,
        "maximum number of tokens in the teacher's translation beyond the length of its source; "
        "none: its first run's",
        minimum=1,
    )
    from_nbest: str = setting(
        BEST,
        "translation to learn from: best for the teacher's best translation; sentence-bleu for the "
        "one closest to the reference; both to read each of them once per epoch",
        choices=(BEST, BY_BLEU, "both"),
    )
    mix_original: float = setting(
        0.0,
        "how often each epoch also reads the original pairs; 0: never, as in Kim and Rush's basic "
        "method",
        minimum=0,
        below=1e6,
    )

    # Filters and scoring: by default, as in the teacher's first run; see `OF_TEACHER`
    max_tokens: int | None = setting(
        None, "drop pairs with more tokens on a side; not given: the teacher's value"
    )
    max_ratio: float | None = setting(
        None, "drop pairs if one side is this many times longer; not given: the teacher's value"
    )
    drop_duplicates: bool = setting(False, "drop repeated pairs; not given: the teacher's value")
    drop_copies: bool = setting(
        False, "drop pairs with identical sides; not given: the teacher's value"
    )
    bleu_tokenize: str = setting("none", "sacrebleu tokenizer; not given: the teacher's value")
    language: str | None = setting(
        None,
        "target language, such as de, to also report BLEU on Moses tokens with split compounds; "
        "not given: the teacher's value",
    )

    # The student
    num_encoder_layers: int | None = setting(
        6, "deeper than the teacher's 4, because an encoder runs in parallel", minimum=1
    )
    num_decoder_layers: int | None = setting(
        1, "only one, because the decoder runs once per token and takes most of the time", minimum=1
    )

    # The end
    int8_steps: int = setting(
        0,
        "number of updates with matrices rounded to int8, in a second run that starts from the "
        "student; 0: none",
        minimum=0,
        below=2**31,
    )

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways to choose translations. Each of them produces a text."""
        return (BEST, BY_BLEU) if self.from_nbest == "both" else (self.from_nbest,)

    def for_int8(self) -> Self:
        """Return the settings of the second run: a tenth of the learning rate, falling to 0."""
        warmup_steps = -(-self.int8_steps // 10)
        usual = self.warmup_steps or 1
        return dataclasses.replace(
            self,
            quantization_aware=True,
            steps=self.int8_steps,
            warmup_steps=warmup_steps,
            learning_rate_scale=self.learning_rate_scale / 10 * (warmup_steps / usual) ** 0.5,
            cooldown=0.9,
        )
