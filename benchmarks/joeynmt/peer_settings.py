"""JoeyNMT's settings, and its configuration file with them."""

import dataclasses
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.joeynmt.prepare import PreparedText

LOG_EVERY = 50
MOST_OUTPUT_TOKENS = 100
_TEMPLATE = Path(__file__).with_name("config.yaml")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PeerSettings:
    """JoeyNMT's settings that may be tried on the dev text; its sizes are those of our settings.

    Args:
        learning_rate: the highest, at the end of the warm-up.
        warmup_steps: updates with a rising learning rate, which then falls as 1 / sqrt(update).
        batch_tokens: tokens of a batch with their padding, on the longer of its two sides.
        dropout: of sub-layers, embeddings and attention.
        label_smoothing: share of the target off the right token.
        num_layers: of the encoder and of the decoder.
        seed: of the weights and of the order of the text.
        validate_every: updates between two checkpoints.
        dev_sentences: of the validation before each checkpoint, drawn from the dev text. Few: it
            is there because JoeyNMT writes no checkpoint without one.
    """

    learning_rate: float = 1e-3
    warmup_steps: int = 400
    batch_tokens: int = 1024
    dropout: float = 0.1
    label_smoothing: float = 0.1
    num_layers: int = 3
    seed: int = 1
    validate_every: int = 100
    dev_sentences: int = 20


def config_text(
    prepared: "PreparedText",
    model_directory: Path,
    settings: PeerSettings,
    max_tokens: int | None,
    *,
    checkpoint: Path | None = None,
    beam_size: int = 1,
    alpha: float = 0.0,
    return_prob: str = "none",
) -> str:
    """JoeyNMT's configuration file, for a training or a search.

    Args:
        prepared: the text.
        model_directory: where JoeyNMT writes checkpoints and logs.
        settings: what may be tried.
        max_tokens: longer training sentences are dropped.
        checkpoint: what to search with. None: a training.
        beam_size: of the search.
        alpha: exponent of the search's length penalty; 0: none.
        return_prob: `"ref"` scores the references instead of searching.
    """
    values: dict[str, Any] = {
        **dataclasses.asdict(settings),
        "name": model_directory.name,
        "model_directory": model_directory,
        "text": prepared.directory,
        "tokenizer": prepared.tokenizer,
        "vocabulary": prepared.vocabulary,
        "max_tokens": -1 if max_tokens is None else max_tokens,
        "log_every": settings.validate_every if settings.validate_every % LOG_EVERY else LOG_EVERY,
        "checkpoint": "null" if checkpoint is None else f'"{checkpoint}"',
        "max_output_length": MOST_OUTPUT_TOKENS,
        "beam_size": beam_size,
        "alpha": alpha,
        "return_prob": return_prob,
        "return_attention": return_prob == "ref",
        # A number such as 1e-05 is a string in YAML: it wants a point.
        "learning_rate": f"{settings.learning_rate:.8f}",
        # What is scored without smoothing has the perplexity as everybody defines it.
        "label_smoothing": 0.0 if return_prob == "ref" else settings.label_smoothing,
    }
    return string.Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)
