"""How much faster a student translates than its teacher in CTranslate2, both in int8.

    python -m benchmarks.student_speed en_de TEACHER_EXPORT --text FILE --cores 2 --rounds 5

The two programs take turns, each in a process of its own on the given number of cores. Each
translates sentences one at a time and then the whole text, a line per sentence. CTranslate2 uses
beam 4 and one thread per sentence or batch, which is faster on a few cores than more threads.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

MOST_SINGLE, WARM_UP = 200, 256  # sentences
NAMES = {"single": "one at a time", "whole": "the whole text"}

Translate = Callable[[list[str]], list[str]]


def student(name: str, cores: int) -> tuple[Translate, Translate]:
    """Return functions that translate one sentence and the whole text."""
    from keras_transformer import Translator

    translator = Translator.from_preset(name)
    return translator.translate, translator.translate


def teacher(path: str, cores: int) -> tuple[Translate, Translate]:
    """As `student`, for an export in CTranslate2's format."""
    import ctranslate2
    import sentencepiece

    model_file = str(Path(path) / "tokenizer.model")
    processor = sentencepiece.SentencePieceProcessor(model_file=model_file)

    def translate_with(at_once: int) -> Translate:
        engine = ctranslate2.Translator(
            path, compute_type="int8", inter_threads=at_once, intra_threads=1
        )

        def translate(texts: list[str]) -> list[str]:
            results = engine.translate_batch(
                processor.encode(texts, out_type=str),
                beam_size=4,
                max_batch_size=1024,
                batch_type="tokens",
            )
            return [processor.decode(each.hypotheses[0]) for each in results]

        return translate

    return translate_with(1), translate_with(cores)


def measure(kind: str, model: str, text: Path, cores: int) -> dict[str, float]:
    """Return sentences per second by the keys of `NAMES`, on the first `cores` cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    translate_one, translate_all = {"student": student, "teacher": teacher}[kind](model, cores)
    lines = text.read_text(encoding="utf-8").splitlines()
    single = lines[:: max(1, len(lines) // MOST_SINGLE)][:MOST_SINGLE]
    for line in single[:10]:
        translate_one([line])
    translate_all(lines[:WARM_UP])

    start = time.perf_counter()
    for line in single:
        translate_one([line])
    middle = time.perf_counter()
    translate_all(lines)
    end = time.perf_counter()
    return {"single": len(single) / (middle - start), "whole": len(lines) / (end - middle)}


def main() -> None:
    """Measure in turns and print the medians and the ratio of each round."""
    parser = argparse.ArgumentParser(description="Compare a student with its teacher.")
    parser.add_argument("student", help="name or path of the student, a preset in int8")
    parser.add_argument("teacher", help="export in CTranslate2's format")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["student", "teacher"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        model = getattr(args, args.only)
        print(json.dumps(measure(args.only, model, args.text, args.cores)))
        return

    speeds: dict[str, list[dict[str, float]]] = {"student": [], "teacher": []}
    for _ in range(args.rounds):
        for kind, found in speeds.items():
            command = [sys.executable, "-m", "benchmarks.student_speed", *sys.argv[1:]]
            done = subprocess.run([*command, "--only", kind], stdout=subprocess.PIPE, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    for key, name in NAMES.items():
        own, other = ([one[key] for one in speeds[kind]] for kind in ("student", "teacher"))
        ratios = ", ".join(f"{a / b:.2f}" for a, b in zip(own, other, strict=True))
        first, second = statistics.median(own), statistics.median(other)
        print(
            f"{name}, {args.cores} cores: {first:.0f} and {second:.0f} sentences/s, "
            f"ratio {first / second:.2f} (by round: {ratios})",
            flush=True,
        )


if __name__ == "__main__":
    main()
