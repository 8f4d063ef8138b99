"""Settings of a student: those of Multi30k's model, but for its depths and what it reads."""

import dataclasses

from keras_transformer.settings import setting
from recipes.multi30k_en_de.settings import Multi30kSettings

BEST, BY_BLEU = "best", "sentence-bleu"  # of the teacher's n best translations


@dataclasses.dataclass(frozen=True)
class DistilledSettings(Multi30kSettings):
    """What differs from the settings of `multi30k_en_de`, with its reason."""

    # What the student reads
    teacher_beam_size: int | None = setting(
        None,
        "hypotheses of the teacher's search, which are its n best; none: as its run translates",
        minimum=1,
    )
    from_nbest: str = setting(
        BEST,
        "which of them the student learns: best, the best by the teacher's search; sentence-bleu, "
        "the nearest to the reference; both, each once an epoch",
        choices=(BEST, BY_BLEU, "both"),
    )
    mix_original: float = setting(
        0.0,
        "times an epoch reads the original pairs too; 0: never, as in Kim and Rush's plain form",
        minimum=0,
        below=1e6,
    )

    # The student
    num_encoder_layers: int | None = setting(
        6, "deeper than the teacher's 4: an encoder reads all positions at once", minimum=1
    )
    num_decoder_layers: int | None = setting(
        1, "the decoder runs once for every token: its layers take the time", minimum=1
    )
    dropout: float | None = setting(
        0.1,
        "rate on sub-layers and embeddings: a third of the teacher's, as its translations are more "
        "regular than people's",
    )

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways in which translations are chosen, each of which makes a text."""
        return (BEST, BY_BLEU) if self.from_nbest == "both" else (self.from_nbest,)
