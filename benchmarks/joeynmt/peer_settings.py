"""JoeyNMT's settings and the configuration file that contains them."""

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
    """JoeyNMT's settings that can be tuned on the dev text; its sizes are those of our settings.

    Args:
        learning_rate: the peak, at the end of the warm-up.
        warmup_steps: updates with a rising learning rate, which then falls as 1 / sqrt(update).
        batch_tokens: tokens of the longer side of a batch, including padding.
        dropout: dropout rate of sub-layers, embeddings and attention.
        label_smoothing: share of the target that is not on the label.
        num_layers: number of layers in the encoder, and in the decoder.
        seed: seed of the weights and of the order of the text.
        validate_every: updates between two checkpoints.
        dev_sentences: number of sentences for the validation before each checkpoint, drawn from the
            dev text. A few are enough: JoeyNMT only writes a checkpoint after a validation.
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
    """JoeyNMT's configuration file for training or decoding.

    Args:
        prepared: the text.
        model_directory: where JoeyNMT writes checkpoints and logs.
        settings: the settings that can be tuned.
        max_tokens: longer training sentences are dropped.
        checkpoint: checkpoint to decode with; None: training.
        beam_size: beam size in decoding.
        alpha: exponent of the length penalty; 0: none.
        return_prob: `"ref"` scores the references instead of decoding.
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
        # YAML reads 1e-05 as a string, because it has no decimal point.
        "learning_rate": f"{settings.learning_rate:.8f}",
        # Without smoothing, the reported perplexity follows the usual definition.
        "label_smoothing": 0.0 if return_prob == "ref" else settings.label_smoothing,
    }
    return string.Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(values)
