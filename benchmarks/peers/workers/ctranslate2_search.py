"""Decoding with CTranslate2, from an export or a converted Marian model.

CTranslate2 supports one length limit per call, so a batch of mixed lengths uses the mean length.
"""

import json
from pathlib import Path

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import (
    ALPHA,
    EOS,
    Batch,
    batches_at_once,
    parts,
    read_batches,
    total_of,
)


def prepare(job: Job) -> Work:
    """Prepare one `translate_batch` call per batch of pieces."""
    import ctranslate2

    batches = read_batches(job.inputs, job.row)
    at_once = batches_at_once(batches, job.threads)
    engine = ctranslate2.Translator(
        job.export,
        device="cpu",
        compute_type=job.precision,
        inter_threads=at_once,
        intra_threads=job.threads // at_once,
    )
    directory = Path(job.export or "")
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    vocabulary = json.loads((directory / "shared_vocabulary.json").read_text(encoding="utf-8"))
    end = [] if config["add_source_eos"] else [vocabulary[EOS]]

    def tokens_of(batch: Batch) -> int:
        steps = batch.mean_length + 1  # all engines decode EOS as a step
        results = engine.translate_batch(
            [[vocabulary[token] for token in row] + end for row in batch.rows()],
            beam_size=job.row["beam_size"],
            length_penalty=ALPHA,
            min_decoding_length=steps,
            max_decoding_length=steps,
            max_batch_size=0,
        )
        return sum(len(result.hypotheses[0]) for result in results)

    def work(only_first: bool) -> int:
        return total_of(tokens_of, parts(batches, only_first), at_once)

    return work
