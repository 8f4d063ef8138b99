"""Rows of the paper's Table 3: the preset and the paper's scores for each row.

Reference: Vaswani et al. (2017), Table 3: newstest2013, perplexity per subword.
"""

from typing import NamedTuple

from keras_transformer.models import PRESETS, Preset


class Row(NamedTuple):
    """A row of Table 3.

    Args:
        preset: name of the preset in `models.PRESETS`.
        perplexity: perplexity on the dev text, as printed.
        bleu: BLEU on the dev text, as printed.
        parameters: weights in millions, as printed. None means an empty cell: the same as base.
    """

    preset: str
    perplexity: float
    bleu: float
    parameters: int | None = None

    @property
    def sizes(self) -> Preset:
        """The sizes of the model and its training hyperparameters."""
        return PRESETS[self.preset]


ROWS = {
    "base": Row("base", 4.92, 25.8, 65),
    "A1": Row("A-h1", 5.29, 24.9),
    "A2": Row("A-h4", 5.00, 25.5),
    "A3": Row("A-h16", 4.91, 25.8),
    "A4": Row("A-h32", 5.01, 25.4),
    "B1": Row("B-dk16", 5.16, 25.1, 58),
    "B2": Row("B-dk32", 5.01, 25.4, 60),
    "C1": Row("C-N2", 6.11, 23.7, 36),
    "C2": Row("C-N4", 5.19, 25.3, 50),
    "C3": Row("C-N8", 4.88, 25.5, 80),
    "C4": Row("C-d256", 5.75, 24.5, 28),
    "C5": Row("C-d1024", 4.66, 26.0, 168),
    "C6": Row("C-ff1024", 5.12, 25.4, 53),
    "C7": Row("C-ff4096", 4.75, 26.2, 90),
    "D1": Row("D-drop0", 5.77, 24.6),
    "D2": Row("D-drop2", 4.95, 25.5),
    "D3": Row("D-ls0", 4.67, 25.3),
    "D4": Row("D-ls2", 5.47, 25.7),
    "E": Row("E-learned", 4.92, 25.7),
    "big": Row("big", 4.33, 26.4, 213),
}
