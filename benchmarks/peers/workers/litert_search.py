"""Decoding with a LiteRT export, which determines the lengths."""

from pathlib import Path

from benchmarks.peers.workers.protocol import Job, Work
from benchmarks.peers.workers.search_inputs import parts, read_batches


def prepare(job: Job) -> Work:
    """Call the `translate_ids` signature."""
    from ai_edge_litert.interpreter import Interpreter

    path = Path(job.export or "") / "model.tflite"
    interpreter = Interpreter(str(path), num_threads=job.threads)
    translate = interpreter.get_signature_runner("translate_ids")
    batches = read_batches(job.inputs, job.row)

    def work(only_first: bool) -> int:
        tokens = 0
        for batch in parts(batches, only_first):
            outputs = translate(input_ids=batch.tokens, input_lengths=batch.num_tokens)
            lengths = outputs["output_lengths"]
            tokens += int(lengths.sum()) + len(lengths)  # lengths exclude EOS
        return tokens

    return work
