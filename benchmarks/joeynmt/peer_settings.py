"""JoeyNMT's settings and its configuration file."""

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
    """JoeyNMT settings that can be tuned on the dev text. The sizes match our settings.

    Args:
        learning_rate: peak learning rate, at the end of the warm-up.
        warmup_steps: number of updates with an increasing learning rate, which then decays as
            1 / sqrt(update).
        batch_tokens: tokens on the longer side of a batch, including padding.
        dropout: dropout rate for sublayers, embeddings and attention.
        label_smoothing: probability moved from the correct token to all other tokens.
        num_layers: number of layers in the encoder and in the decoder.
        seed: random seed for weights and batch order.
        validate_every: number of updates between checkpoints.
        dev_sentences: number of dev sentences for the validation before each checkpoint. A few are
            enough, because validations only serve to write checkpoints.
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
    """Return JoeyNMT's configuration file for training or decoding.

    Args:
        prepared: the prepared text.
        model_directory: directory for JoeyNMT's checkpoints and logs.
        settings: tunable settings.
        max_tokens: maximum length of training sentences; longer sentences are dropped.
        checkpoint: checkpoint to decode with; None for training.
        beam_size: beam size for decoding.
        alpha: exponent of the length penalty; 0 for none.
        return_prob: `"ref"` to score the references instead of decoding.
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
        # YAML parses 1e-05 as a string because it lacks a decimal point.
        "learning_rate": f"{settings.learning_rate:.8f}",
        # Without label smoothing, the reported perplexity follows the usual definition.
        "label_smoothing": 0.0 if return_prob == "ref" else settings.label_smoothing,
    }
    return string.Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)
