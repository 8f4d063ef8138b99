"""Settings of a student: those of the Multi30k model, except for its depths and its text."""

import dataclasses

from keras_transformer.search_options import END_OF_ALPHA
from keras_transformer.settings import setting
from recipes.multi30k_en_de.settings import Multi30kSettings

BEST, BY_BLEU = "best", "sentence-bleu"  # choices among the teacher's n best translations


@dataclasses.dataclass(frozen=True)
class DistilledSettings(Multi30kSettings):
    """Differences from the settings of `multi30k_en_de`, with their reasons."""

    # What the student reads
    teacher_beam_size: int | None = setting(
        None,
        "beam size of the teacher, which gives its n best translations; none: as for its first run",
        minimum=1,
    )
    teacher_alpha: float | None = setting(
        None,
        "exponent of the length penalty in that search; none: as for its first run",
        minimum=0,
        below=END_OF_ALPHA,
    )
    teacher_extra_length: int | None = setting(
        None,
        "maximum number of tokens in a translation beyond the length of its source in that search; "
        "none: as for its first run",
        minimum=1,
    )
    from_nbest: str = setting(
        BEST,
        "translation from which the student learns: best, the best one by the teacher's search; "
        "sentence-bleu, the one closest to the reference; both, each once per epoch",
        choices=(BEST, BY_BLEU, "both"),
    )
    mix_original: float = setting(
        0.0,
        "how often an epoch also reads the original pairs; 0: never, as in Kim and Rush's plain "
        "form",
        minimum=0,
        below=1e6,
    )

    # Filters and scoring: from the teacher's first run, see `student_options.OF_TEACHER`
    max_tokens: int | None = setting(
        None, "drop pairs with more tokens on a side; not given: the teacher's value"
    )
    max_ratio: float | None = setting(
        None, "drop pairs if a side is this many times longer; not given: the teacher's value"
    )
    drop_duplicates: bool = setting(False, "drop repeated pairs; not given: the teacher's value")
    drop_copies: bool = setting(
        False, "drop pairs whose sides are equal; not given: the teacher's value"
    )
    bleu_tokenize: str = setting("none", "sacrebleu's tokenizer; not given: the teacher's value")
    language: str | None = setting(
        None,
        "target language for BLEU with split compounds; not given: the teacher's value",
    )

    # The student
    num_encoder_layers: int | None = setting(
        6, "deeper than the teacher's 4: an encoder reads all positions in parallel", minimum=1
    )
    num_decoder_layers: int | None = setting(
        1, "the decoder runs once per token, so its layers take most of the time", minimum=1
    )

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways in which translations are chosen; each one produces a text."""
        return (BEST, BY_BLEU) if self.from_nbest == "both" else (self.from_nbest,)
