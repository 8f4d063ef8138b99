"""Training of PyTorch's `nn.Transformer` with Adam, tied embeddings, sinusoids and post-norm."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.training_inputs import (
    ADAM,
    DROPOUT,
    LABEL_SMOOTHING,
    LEARNING_RATE,
    read_batch,
)


class Translation(nn.Module):
    """A Transformer that maps source and target ids to logits.

    Args:
        sizes: fields of a preset's sizes.
        vocabulary_size: number of tokens in the shared vocabulary.
        length: number of positions.
    """

    def __init__(self, sizes: Mapping[str, Any], vocabulary_size: int, length: int) -> None:
        super().__init__()
        hidden_dim = sizes["hidden_dim"]
        self.scale = math.sqrt(hidden_dim)
        self.embedding = nn.Embedding(vocabulary_size, hidden_dim)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        self.register_buffer("positions", _sinusoids(length, hidden_dim))
        self.register_buffer("causal_mask", nn.Transformer.generate_square_subsequent_mask(length))
        self.dropout = nn.Dropout(DROPOUT)
        self.stacks = nn.Transformer(
            hidden_dim,
            sizes["num_heads"],
            sizes["num_encoder_layers"],
            sizes["num_decoder_layers"],
            sizes["intermediate_dim"],
            DROPOUT,
            batch_first=True,
        )
        # The paper's stacks have no extra normalization after the last layer.
        self.stacks.encoder.norm = self.stacks.decoder.norm = None

    def embed(self, ids):
        """Embed ids and add positions."""
        return self.dropout(self.embedding(ids) * self.scale + self.positions)

    def forward(self, source_ids, target_ids):
        """Return logits (batch, length, vocabulary)."""
        outputs = self.stacks(
            self.embed(source_ids),
            self.embed(target_ids),
            tgt_mask=self.causal_mask,
            tgt_is_causal=True,
        )
        return nn.functional.linear(outputs, self.embedding.weight)


def prepare(job: Job) -> Work:
    """Prepare steps with forward pass, backward pass and update. bfloat16 uses `torch.autocast`."""
    torch.set_num_threads(job.threads)
    torch.manual_seed(0)
    row = job.row
    model = Translation(job.sizes, row["vocabulary_size"], row["length"]).train()
    optimizer = torch.optim.Adam(
        model.parameters(),
        lr=LEARNING_RATE,
        betas=(ADAM["beta_1"], ADAM["beta_2"]),
        eps=ADAM["epsilon"],
    )
    source_ids, target_ids, labels = (
        torch.from_numpy(ids).long() for ids in read_batch(job.inputs)
    )
    is_low = job.precision != "float32"

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=is_low):
            logits = model(source_ids, target_ids)
        loss = nn.functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), label_smoothing=LABEL_SMOOTHING
        )
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    def work(only_first: bool) -> int:
        steps = 1 if only_first else row["repeats"]
        for _ in range(steps):
            step()
        return steps * labels.numel()

    return work


def _sinusoids(length: int, hidden_dim: int) -> Any:
    """Return the sines and cosines of the positions: (length, hidden_dim)."""
    rates = 10_000 ** (-torch.arange(0, hidden_dim, 2) / hidden_dim)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
