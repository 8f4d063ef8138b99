"""Decoding with Hugging Face's `generate` and a Marian model."""

from typing import Any

import numpy as np

from benchmarks.peers.workers.marian import build_marian
from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import ALPHA, EOS, PAD, num_tokens, parts, read_batches


def prepare(job: Job) -> Work:
    """Prepare one `generate` call per batch. Each sentence has its own forced length."""
    import torch

    torch.set_num_threads(job.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build_marian(job.sizes, job.row["vocabulary_size"])
    model = model.to(device, getattr(torch, job.precision))
    batches = read_batches(job.inputs, job.row)
    beam_size = job.row["beam_size"]

    def work(only_first: bool) -> int:
        tokens = 0
        for batch in parts(batches, only_first):
            source = torch.from_numpy(batch.ended).long().to(device)
            longest = int(batch.output_lengths.max()) + 1
            forced: dict[str, Any] = {"min_new_tokens": longest}
            if batch.output_lengths.min() < batch.output_lengths.max():
                forced = {"logits_processor": [_forced_lengths(batch.output_lengths, beam_size)]}
            with torch.inference_mode():
                outputs = model.generate(
                    source,
                    attention_mask=(source != PAD).long(),
                    num_beams=beam_size,
                    do_sample=False,
                    length_penalty=ALPHA,
                    max_new_tokens=longest,
                    **forced,
                )
            tokens += num_tokens(outputs[:, 1:].cpu().numpy())
        return tokens

    return work


def _forced_lengths(lengths: np.ndarray, beam_size: int) -> Any:
    """Return a logits processor that forces a number of tokens for each output, followed by EOS."""
    import torch

    of_row = torch.from_numpy(lengths).repeat_interleave(beam_size)

    def process(input_ids: Any, scores: Any) -> Any:
        position = input_ids.shape[1] - 1  # the first id is the decoder start token
        ends = of_row.to(input_ids.device) <= position
        forced = scores.masked_fill(ends[:, None], -torch.inf)
        forced[:, EOS] = torch.where(ends, 0.0, -torch.inf).to(scores.dtype)
        return forced

    return process
