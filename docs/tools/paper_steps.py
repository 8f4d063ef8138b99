"""Creates the step-by-step figures in docs/the_paper.md: `python -m docs.tools.paper_steps`.

The numbers come from the NumPy program on that page. Each figure is a self-contained HTML file.
`docs/tools/paper_embeds.py` embeds the part between the two comments in the page.
"""

import html
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from docs.tools.paper_program import blocks, run

HERE = pathlib.Path(__file__).parent
IMAGES = HERE.parent / "images" / "the_paper"
BEAMS, ALPHA, LEAST = 2, 0.6, 0.0005  # probabilities below `LEAST` are shown as 0
FILE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ background: light-dark(#fff, #171a21); color: light-dark(#1b1f27, #e8eaf0); }}
h1 {{ font: 600 1.25rem/1.3 system-ui, sans-serif; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<!-- figure -->
<div class="kt-steps" aria-label="{title}">
<style>
{style}</style>
<ol class="kt-list">
{steps}
</ol>
<script>
{script}</script>
</div>
<!-- /figure -->
</main>
</body>
</html>
"""


class Figure(NamedTuple):
    """A step-by-step figure: its title and its steps in HTML."""

    title: str
    steps: list[str]


def step(stage: str, title: str, text: str, *tables: str, equation: str = "") -> str:
    """Return a step with its button name, title and contents. Only tables contain HTML."""
    parts = [
        f'<li data-stage="{html.escape(stage)}">',
        f'<p class="kt-title">{html.escape(title)}</p>',
        f"<p>{html.escape(text)}</p>",
        f'<p class="kt-equation">{equation}</p>' if equation else "",
        f'<div class="kt-tables">{"".join(tables)}</div>' if tables else "",
        "</li>",
    ]
    return "\n".join(part for part in parts if part)


def matrix(
    caption: str, values: np.ndarray, rows: Sequence[str], columns: Sequence[str] | None = None
) -> str:
    """Return a matrix, blue above 0 and orange below 0. Named columns show their numbers."""
    largest = float(np.abs(values).max())
    kind = ' class="kt-colors"' if columns is None else ""
    lines = ['<div class="kt-wide">' if columns is None else "<div>", f"<table{kind}>"]
    lines.append(f"<caption>{html.escape(caption)}</caption>")
    if columns is not None:
        names = "".join(
            f'<th scope="col"><span>{html.escape(name)}</span></th>' for name in columns
        )
        lines.append(f"<thead><tr><td></td>{names}</tr></thead>")
    lines.append("<tbody>")
    for name, row in zip(rows, values, strict=True):
        cells = "".join(_cell(float(value), largest, columns is not None) for value in row)
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody></table></div>"])


def _cell(value: float, largest: float, has_number: bool) -> str:
    number = f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
    kind = ' class="kt-negative"' if value < 0 else ""
    shown = number if has_number else ""
    title = "" if has_number else f' title="{number}"'
    return f'<td{kind}{title} style="--v:{abs(value) / largest:.2f}">{shown}</td>'


def records(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of text. Cells that start with `<span` are HTML."""
    names = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
    lines = [
        f'<div class="kt-wide"><table class="kt-records"><caption>{html.escape(caption)}</caption>',
        f"<thead><tr>{names}</tr></thead><tbody>",
    ]
    for row in rows:
        cells = (cell if cell.startswith("<span") else html.escape(cell) for cell in row)
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def translation(toy: dict[str, Any]) -> Figure:
    """Return the figure of a sentence's path through encoder and decoder."""
    source, target, words = toy["source"], toy["target"], toy["words"]
    tokens, outputs = ([words[token] for token in ids] for ids in (source, target))
    x = toy["embed"](source)
    attended, shares = toy["multi_head"]("encoder.self", x, x)
    normed = toy["add_and_norm"]("encoder.self", x, attended)
    network = toy["feed_forward"]("encoder.feed_forward", normed)
    memory, _ = toy["encode"](source)
    logits, own, cross = toy["decode"](target, memory)
    heads = {
        name: toy["split"](x @ toy["weights"][f"encoder.self.{name}"])
        for name in ("query", "key", "value")
    }
    scores = heads["query"] @ heads["key"].swapaxes(1, 2) / np.sqrt(8)

    def of_heads(
        caption: str, values: np.ndarray, rows: list[str], columns: list[str]
    ) -> list[str]:
        return [
            matrix(f"{caption}, head {number}", head, rows, columns)
            for number, head in enumerate(values, 1)
        ]

    return Figure(
        "The translation of one hundred twenty one, step by step",
        [
            step(
                "Ids",
                "Words become ids",
                "Each word has a number, its place in the vocabulary of 62 words. The two words "
                "“one” have the same id. </s> marks the end.",
                records("source", ["word", "id"], [*zip(tokens, map(str, source), strict=True)]),
            ),
            step(
                "Embedding",
                "Ids become vectors",
                "Each id selects a row of the embedding matrix, which is multiplied by 4. Blue "
                "is above 0 and orange is below. Both words “one” have the same vector.",
                matrix("vectors, 5 × 16", toy["look_up"](source), tokens),
                equation="√<span>d</span> · E[id], √16 = 4",
            ),
            step(
                "Positions",
                "Positions are added",
                "Sines and cosines of the position tell the two words “one” apart.",
                matrix("positions, 5 × 16", toy["positions"](len(source)), tokens),
                matrix("sum: the encoder's input x, 5 × 16", x, tokens),
                equation="x = √d · E[id] + PE",
            ),
            step(
                "Q, K, V",
                "Three projections of x: queries, keys and values",
                "Each of the two heads has its own matrices. These are the projections of head 1.",
                *(matrix(f"{name}, 5 × 8", heads[name][0], tokens) for name in heads),
                equation="Q = x W<sup>Q</sup>, K = x W<sup>K</sup>, V = x W<sup>V</sup>",
            ),
            step(
                "Scores",
                "Each query is compared with every key",
                "A row is a query and a column is a key. The products are divided by √8.",
                *of_heads("scores", scores, tokens, tokens),
                equation="Q K<sup>T</sup> / √d<sub>k</sub>",
            ),
            step(
                "Softmax",
                "Scores become weights",
                "In each row, the weights sum to 1. They say how much a token takes from each "
                "value.",
                *of_heads("weights", shares, tokens, tokens),
                equation="softmax(Q K<sup>T</sup> / √d<sub>k</sub>)",
            ),
            step(
                "Heads",
                "Weighted values are joined and projected",
                "Each head adds up its weighted values. The results of both heads are placed side "
                "by side, 5 × (8 + 8), and projected.",
                matrix(
                    "both heads, joined",
                    (shares @ heads["value"]).swapaxes(0, 1).reshape(x.shape),
                    tokens,
                ),
                matrix("output of the attention, 5 × 16", attended, tokens),
                equation="Concat(head<sub>1</sub>, head<sub>2</sub>) W<sup>O</sup>",
            ),
            step(
                "Add & norm",
                "The input is added, and the sum is normalized",
                "The residual connection keeps the input. LayerNorm gives each vector mean 0 and "
                "variance 1, then a learned gain and shift.",
                matrix("x + output of the attention", x + attended, tokens),
                matrix("normalized, 5 × 16", normed, tokens),
                equation="LayerNorm(x + Attention(x))",
            ),
            step(
                "Feed-forward",
                "A network transforms each position",
                "It expands each vector to 32 numbers, sets negative ones to 0, and returns to "
                "16. After another residual connection and normalization, the memory is complete.",
                matrix("output of the network, 5 × 16", network, tokens),
                matrix("memory, 5 × 16", memory, tokens),
                equation="max(0, x W<sub>1</sub> + b<sub>1</sub>) W<sub>2</sub> + b<sub>2</sub>",
            ),
            step(
                "Target",
                "The decoder reads the words so far",
                "Its input starts with <s>. Each row predicts the word of the next row. The "
                "embeddings come from the same matrix.",
                matrix("the decoder's input, 6 × 16", toy["embed"](target), outputs),
            ),
            step(
                "Masked attention",
                "A position sees itself and earlier words",
                "The causal mask hides all later words, so every weight above the diagonal is 0.",
                *of_heads("weights", own, outputs, outputs),
            ),
            step(
                "Cross-attention",
                "The decoder attends to the memory",
                "Rows are words of the decoder's input and columns are source tokens. To predict "
                "the word after “hundert”, both heads look at the second “one”, because German "
                "puts units first.",
                *of_heads("weights", cross, outputs, tokens),
            ),
            step(
                "Softmax of words",
                "Logits become probabilities",
                "After the feed-forward network, each vector is multiplied by the embedding "
                "matrix. The softmax of these 62 logits gives the probability of each word. "
                "Both “ein” and “hundert” are possible first words.",
                _best_words(toy["softmax"](logits), outputs, words),
                equation="softmax(x E<sup>T</sup>)",
            ),
        ],
    )


def _best_words(probabilities: np.ndarray, outputs: list[str], words: list[str]) -> str:
    rows = []
    for name, row in zip(outputs, probabilities, strict=True):
        best = row.argsort()[::-1][:3]
        rows.append([name, *(f"{words[word]} {row[word]:.3f}" for word in best)])
    return records("probabilities of the next word", ["after", "first", "second", "third"], rows)


class Candidate(NamedTuple):
    """A hypothesis found in a search step."""

    ids: list[int]
    log_prob: float
    score: float | None  # None if it has not ended
    is_kept: bool


class SearchStep(NamedTuple):
    """A step of a beam search."""

    candidates: list[Candidate]
    finished: list[tuple[float, list[int]]]
    best_possible: float  # upper bound on the score of the best live hypothesis


def traced_search(toy: dict[str, Any]) -> list[SearchStep]:
    """Return the steps of the page's beam search with `BEAMS` and `ALPHA`."""
    memory, limit = toy["encode"](toy["source"])[0], len(toy["source"]) - 1 + 50
    live, finished, steps = [(0.0, [toy["START"]])], [], []
    while len(finished) < BEAMS or finished[-1][0] < steps[-1].best_possible:
        found = []
        for log_prob, ids in live:
            logits, _, _ = toy["decode"](np.array(ids), memory)
            next_word = np.log(toy["softmax"](logits[-1]))
            next_word[[toy["PAD"], toy["START"]]] = -np.inf
            found += [(log_prob + value, [*ids, word]) for word, value in enumerate(next_word)]
        found = sorted(found, reverse=True)[: 2 * BEAMS]
        penalty = ((5 + len(steps) + 1) / 6) ** ALPHA
        live = [one for one in found if one[1][-1] != toy["END"]][:BEAMS]
        candidates = [
            Candidate(
                ids,
                log_prob,
                log_prob / penalty if ids[-1] == toy["END"] else None,
                (log_prob, ids) in live,
            )
            for log_prob, ids in found
        ]
        ended = [(one.score, one.ids) for one in candidates if one.score is not None]
        finished = sorted(finished + ended, reverse=True)[:BEAMS]
        best_possible = live[0][0] / ((6 + limit) / 6) ** ALPHA
        steps.append(SearchStep(candidates, finished, best_possible))
    return steps


def beam_search(toy: dict[str, Any]) -> Figure:
    """Return the figure of the search, with one step per output position."""

    def text(ids: list[int]) -> str:
        return " ".join(toy["words"][word] for word in ids[1:])

    def number(value: float, digits: int = 2) -> str:
        return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")

    shown, trace = [], traced_search(toy)
    for length, one in enumerate(trace, 1):
        rows = []
        for candidate in one.candidates:
            fate = "kept" if candidate.is_kept else "dropped"
            if candidate.score is not None:
                fate = "finished"
            rows.append(
                [
                    text(candidate.ids),
                    number(candidate.log_prob),
                    f'<span class="kt-{fate}">{fate}</span>',
                ]
            )
        tables = [records(f"{len(rows)} best candidates", ["hypothesis", "log P", "then"], rows)]
        if one.finished:
            pool = [[text(ids), number(score, 3)] for score, ids in one.finished]
            tables.append(records("finished hypotheses", ["output", "score"], pool))
        has_ended = any(candidate.score is not None for candidate in one.candidates)
        penalty = f"{((5 + length) / 6) ** ALPHA:.3f}"
        shown.append(
            step(
                f"Token {length}",
                f"Hypotheses of {length} {'token' if length == 1 else 'tokens'}",
                _said(one, length, is_last=length == len(trace)),
                *tables,
                equation=f"((5 + {length}) / 6)<sup>{ALPHA}</sup> = {penalty}" * has_ended,
            )
        )
    by_length = {len(ids) - 1: (score, ids) for score, ids in trace[-1].finished}
    rows = []
    for alpha in (0.0, 0.1, 0.2, 0.6, 1.0):
        scores = {
            length: score * ((5 + length) / 6) ** (ALPHA - alpha)
            for length, (score, _) in by_length.items()
        }
        best = max(scores, key=lambda length: scores[length])
        shown_scores = [number(scores[length], 3) for length in sorted(scores)]
        rows.append([f"{alpha:g}", *shown_scores, text(by_length[best][1][:-1])])
    head = ["α", *(f"{length} tokens" for length in sorted(by_length)), "best output"]
    shown.append(
        step(
            "Penalty",
            "The length penalty decides between the two forms",
            "Both outputs are correct German. The short one is more probable, but a larger α "
            "favors longer outputs. The paper uses α = 0.6.",
            records("score of each form", head, rows),
            equation="log P / ((5 + length) / 6)<sup>α</sup>",
        )
    )
    return Figure("Beam search for one hundred twenty one, step by step", shown)


def _said(one: SearchStep, length: int, *, is_last: bool) -> str:
    """Describe what happens in a step."""
    if length == 1:
        return (
            f"The search starts with <s> and keeps the {BEAMS} most probable hypotheses. Only two "
            "of the 62 words are probable. log P is the natural logarithm of the probability."
        )
    said = f"Each hypothesis in the beam is extended by every word, and the best {BEAMS} are kept."
    if any(candidate.score is not None for candidate in one.candidates):
        said = (
            "A hypothesis that ends with </s> leaves the beam. Its score is log P divided by the "
            "length penalty."
        )
    if is_last:
        said += (
            " The search stops here: even the best hypothesis in the beam cannot reach the "
            f"finished scores. Its own score would be at most {one.best_possible:.2f}."
        ).replace(" -", " \N{MINUS SIGN}")
    return said


def file_of(figure: Figure) -> str:
    """Return the text of a figure's HTML file."""
    return FILE.format(
        title=html.escape(figure.title),
        style=(HERE / "paper_steps.css").read_text("utf-8"),
        script=(HERE / "paper_steps.js").read_text("utf-8"),
        steps="\n".join(figure.steps),
    )


FIGURES = {"translation_steps": translation, "beam_search_steps": beam_search}


def made() -> dict[str, str]:
    """Return the text of each file by its name without `.html`."""
    toy, _ = run([block.code for block in blocks() if block.is_part])
    return {name: file_of(draw(toy)) for name, draw in FIGURES.items()}


def main() -> None:
    """Write the files."""
    for name, text in made().items():
        (IMAGES / f"{name}.html").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
