"""BLEU before and after adaptation, on in-domain text and on general text."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from keras_transformer import RunDirectory, Translator
from keras_transformer.data import ParallelText
from keras_transformer.evaluation import bleu
from keras_transformer.files import say
from keras_transformer.search_options import SearchKeywords
from keras_transformer.types import PathLike

COLUMNS = "before", "after"


def compare(
    run: RunDirectory, domain: ParallelText, general: ParallelText | None, tokenize: str
) -> list[dict[str, Any]]:
    """Score the model before and after adaptation. Print the scores and add them to `scores.json`.

    Both models use the adapted run's search options.

    Args:
        run: the adapted run, after `write_report` has translated `domain`. The caller holds its
            lock.
        domain: the in-domain text to score.
        general: the general text to score, or None.
        tokenize: sacrebleu tokenizer.

    Returns:
        One dict per text: `name`, `text`, number of `sentences`, and BLEU `before` and `after`.
    """
    scores = json.loads(run.scores_path.read_text("utf-8"))
    search = run.search_defaults()
    rows: list[dict[str, Any]] = []
    for name, text in ("domain", domain), ("general", general):
        if text is None:
            continue
        pairs = list(text)
        say(f"\nScoring {text.name} before and after, {len(pairs):,} sentences")
        before = _bleu(str(run.record().origin), pairs, search, tokenize)
        after = scores["bleu"] if name == "domain" else _bleu(run.path, pairs, search, tokenize)
        about = {"name": name, "text": text.name, "sentences": len(pairs)}
        rows.append({**about, "before": before, "after": after})
    run.checksums.write_json(run.scores_path, {**scores, "adaptation": rows})
    lines = [f"{row['name']:8}" + "".join(f"{row[c]:8.2f}" for c in COLUMNS) for row in rows]
    say(f"\n{'BLEU':8}" + "".join(f"{column:>8}" for column in COLUMNS), *lines)
    return rows


def _bleu(
    model: PathLike, pairs: Sequence[tuple[str, str]], search: SearchKeywords, tokenize: str
) -> float:
    translator = Translator.load(model, long_sentences="cut", **search)
    sources, references = map(list, zip(*pairs, strict=True))
    found = translator.translate(sources, progress=sys.stderr.isatty())
    return bleu(found, references, tokenize)[0]
