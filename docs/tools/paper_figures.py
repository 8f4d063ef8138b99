"""Creates the images in docs/the_paper.md: `python -m docs.tools.paper_figures`.

All values are computed with the package, except for measurements in the repository. The script
requires the `dev` extra. For Figure 12 and its page, the script trains a model within seconds.
"""

import argparse
import functools
import itertools
import json
import os
import pathlib
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from docs.tools.paper_architecture import architecture
from docs.tools.svg_figures import BLUE, FAINT, FILL, GREEN, INK, ORANGE, SERIES, svg_of
from docs.tools.toy_search import BEAMS, search_results, searched

ROOT = pathlib.Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
ATTENTION_PAGE = IMAGES / "the_paper" / "attention.html"
HEAT = "viridis"


def positions() -> Figure:
    """Draw Figure 2: the positional encoding."""
    from keras_transformer.layers.positions import sinusoidal_positions

    size, count = 128, 100
    encoding = np.array(sinusoidal_positions(np.arange(count), size))
    longest = 2 * np.pi * 10_000 ** ((size - 2) / size)
    figure, (axes,) = _figure(
        f"Each position has a unique pattern: wavelengths range from {2 * np.pi:.1f} on the "
        f"left to {longest:,.0f} positions on the right",
        1,
        (6.4, 3.4),
    )
    image = axes.imshow(
        encoding, cmap="coolwarm", vmin=-1, vmax=1, aspect="auto", interpolation="none"
    )
    axes.set_xlabel(f"feature ({size} in total): sines at even numbers, cosines at odd ones")
    axes.set_ylabel("position in the sentence")
    bar = figure.colorbar(image, ax=axes, pad=0.02)
    bar.set_label("added value")
    bar.outline.set_visible(False)
    return figure


def position_products() -> Figure:
    """Draw Figure 3: the products of two positions' vectors."""
    from keras_transformer.layers.positions import sinusoidal_positions

    size, reach, starts = 512, 60, (100, 300, 900)
    curves = {}
    offsets = np.arange(-reach, reach + 1)
    for start in starts:
        around = np.array(sinusoidal_positions(start + offsets, size))
        curves[start] = around @ np.array(sinusoidal_positions(np.array([start]), size))[0]
    apart = max(np.abs(curves[start] - curves[starts[0]]).max() for start in starts)
    figure, (axes,) = _figure(
        "The similarity of two positions depends only on their distance", 1, (6.4, 2.8)
    )
    for start, color, width in zip(starts, SERIES, (6, 3.4, 1.2), strict=False):
        label = f"from position {start}"
        axes.plot(offsets, curves[start], color=color, linewidth=width, label=label)
    _finish(axes, "distance k, in positions", "PE(pos) · PE(pos + k)", offsets[::20], log=False)
    axes.text(
        0.01,
        0.92,
        f"three curves, at most {apart:.2g} apart",
        transform=axes.transAxes,
        fontsize=8,
    )
    return figure


def scaled_dot_product() -> Figure:
    """Draw Figure 4: equation 1 for four words, with "it" querying for an animal."""
    from keras_transformer.layers.multi_head_attention import attention_weights

    words = ["the", "cat", "sleeps", "it"]
    queries = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0], [0, 4, 0, 0]], "float32")
    keys = np.array([[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], "float32")
    values = np.array([[1, 0, 0, 0], [0, 2, 0, 1], [0, 0, 2, 0], [0, 0, 0, 0]], "float32")
    logits = queries @ keys.T / np.sqrt(queries.shape[1])
    weights = np.array(attention_weights(queries, keys, None))
    share = weights[3, 1]
    figure, axes = _figure(
        f"“it” puts {share:.0%} of its weight on “cat”, so it takes mostly its value",
        3,
        (6.2, 4.3),
        rows=2,
    )
    for one, title, matrix, across in (
        (axes[0], "queries Q", queries, "feature"),
        (axes[1], "keys K", keys, "feature"),
        (axes[2], "Q Kᵀ / √d", logits, "key"),
        (axes[3], "softmax of a row", weights, "key"),
        (axes[4], "values V", values, "feature"),
        (axes[5], "weights · V", weights @ values, "feature"),
    ):
        _matrix(one, matrix, words, words if across == "key" else list("1234"))
        one.set_title(title)
        one.set_xlabel(across)
    return figure


def scaling() -> Figure:
    """Draw Figure 5: why the products are divided by the square root of the keys' size."""
    from keras_transformer.layers.multi_head_attention import attention_weights

    sizes = 2 ** np.arange(2, 11)
    numbers = np.random.default_rng(1)
    deviations, largest = [], {"with 1/√d": [], "without": []}
    for size in sizes:
        queries, keys = numbers.normal(size=(2, 200, 32, size)).astype("float32")
        deviations.append((queries @ keys.swapaxes(1, 2)).std())
        scaled = attention_weights(queries, keys, None)
        plain = attention_weights(queries * np.float32(np.sqrt(size)), keys, None)
        for name, weights in zip(largest, (scaled, plain), strict=True):
            largest[name].append(float(np.mean(np.max(np.array(weights), axis=-1))))
    at = list(sizes).index(64)
    (with_scale, without) = (largest[name][at] for name in largest)
    figure, (left, right) = _figure(
        f"Without the scale, one of 32 keys gets {without:.0%} of the weight at d = 64; with it, "
        f"{with_scale:.0%}",
        2,
        (6.4, 2.8),
    )
    left.plot(sizes, deviations, "o", color=BLUE, label="measured")
    left.plot(sizes, np.sqrt(sizes), color=FAINT, linewidth=1.2, label="√d")
    _finish(left, "size of queries and keys, d", "standard deviation of q · k", sizes[::2])
    left.set_yscale("log", base=2)
    left.set_yticks([2, 8, 32], ["2", "8", "32"])
    for (name, shares), color in zip(largest.items(), SERIES, strict=False):
        right.plot(sizes, shares, "o-", color=color, label=name)
    _finish(right, "size of queries and keys, d", "mean of the largest weight", sizes[::2])
    right.set_ylim(0, 1)
    return figure


def masks() -> Figure:
    """Draw Figure 6: the pairs of tokens allowed by the masks."""
    from keras_transformer.layers import PaddingMask
    from keras_transformer.layers.attention_masks import all_of, causal_mask

    words = ["ein", "Haus", "</s>", "<pad>"]
    padding = PaddingMask(padding_id=0)(np.array([[7, 8, 2, 0]]))  # (batch, 1, source)
    causal = causal_mask(len(words))  # (1, target, source)
    figure, axes = _figure(
        "The causal mask already hides padding at the end from every token", 3, (6.4, 2.5)
    )
    for one, title, mask in (
        (axes[0], "padding", padding),
        (axes[1], "causal", causal),
        (axes[2], "both", all_of(padding, causal)),
    ):
        allowed = np.broadcast_to(np.array(mask)[0], (len(words), len(words)))
        _cells(one, allowed, words, words)
        one.set_title(f"{title}: {allowed.sum()} of {allowed.size} pairs")
        one.set_xlabel("attended to (key)")
    axes[0].set_ylabel("attends (query)")
    return figure


def layer_costs() -> Figure:
    """Draw Figure 7: measurements for Table 1."""
    path = ROOT / "benchmarks" / "results" / "2026-11-22-table1.json"
    measured = json.loads(path.read_text("utf-8"))
    sizes = measured["sizes"]
    names = {
        "full": "self-attention, n² d",
        "windowed": f"restricted to r = {sizes['window']}, r n d",
        "lstm": "recurrent (LSTM), n d²",
        "convolution": "separable convolution, k n d + n d²",
    }
    layers = {layer["name"]: layer for layer in measured["layers"]}
    times = {
        name: {row["length"]: min(row["seconds"]) for row in layers[name]["lengths"]}
        for name in names
    }
    longest = max(times["full"])
    ratio = times["full"][longest] / times["windowed"][longest]
    figure, (axes,) = _figure(
        f"At {longest:,} positions, a window is {ratio:.1f} times as fast as full attention",
        1,
        (6.4, 3.4),
    )
    for (name, label), color in zip(names.items(), SERIES, strict=True):
        exponent = layers[name]["time_exponent"]
        values = 1000 * np.array(list(times[name].values()))
        label = f"{label}: grows as n to the {exponent:.2f}"
        axes.plot(list(times[name]), values, "o-", color=color, markersize=3.5, label=label)
    axes.set_yscale("log")
    _finish(axes, "positions n", "ms, forward and gradient", list(times["full"]))
    axes.set_yticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1,000", "10,000"])
    axes.get_legend().remove()
    figure.legend(fontsize=8, loc="outside lower left", ncols=2)
    return figure


def schedule() -> Figure:
    """Draw Figure 8: equation 3."""
    from keras_transformer.schedules import TransformerSchedule

    updates = np.arange(1, 40_001, 100)
    curves = {
        "base: d 512, warm-up 4,000": TransformerSchedule(512),
        "big: d 1,024, warm-up 4,000": TransformerSchedule(1024),
        "d 512, warm-up 2,000": TransformerSchedule(512, 2000),
        "d 512, warm-up 16,000": TransformerSchedule(512, 16_000),
    }
    peak = float(curves["base: d 512, warm-up 4,000"](3999))
    figure, (axes,) = _figure(
        f"The base model's rate rises to {peak:.5f} at update 4,000, then falls as 1/√update",
        1,
        (6.4, 2.9),
    )
    for number, ((label, rate), color) in enumerate(zip(curves.items(), SERIES, strict=True)):
        rates = [1e3 * float(rate(update - 1)) for update in updates]
        axes.plot(updates, rates, color=color, linestyle="-" if number < 2 else "--", label=label)
    ticks = [4000, *range(10_000, 50_000, 10_000)]
    _finish(axes, "update", "learning rate × 1,000", ticks, log=False)
    axes.set_xlim(0)
    axes.set_ylim(0)
    return figure


def label_smoothing() -> Figure:
    """Draw Figure 9: the target distribution and the resulting loss."""
    from keras_transformer.losses import LabelSmoothingCrossEntropy

    size, gold, smoothing = 8, 3, 0.1
    words = ["ein", "das", "Tor", "Haus", "Baum", "ist", "alt", "</s>"]
    targets = smoothed_targets(size, gold, smoothing)
    chances = np.linspace(0.4, 0.999, 600)
    losses = {}
    for share in (0.0, smoothing):
        loss = LabelSmoothingCrossEntropy(share, padding_id=size, reduction="none")
        rest = np.repeat((1 - chances)[:, None] / (size - 1), size, axis=1)
        rest[:, gold] = chances
        labels = np.full((1, len(chances)), gold)
        losses[share] = np.array(loss(labels, np.log(rest)[None].astype("float32")))[0]
    best = chances[losses[smoothing].argmin()]
    figure, (left, right) = _figure(
        f"With smoothing {smoothing}, the loss is lowest at {best:.0%} confidence, not at 100%",
        2,
        (6.4, 2.9),
    )
    colors = [ORANGE if number == gold else BLUE for number in range(size)]
    left.bar(range(size), targets, color=colors)
    for number in (gold, size - 1):
        left.text(number, targets[number] + 0.02, f"{targets[number]:.3g}", ha="center", fontsize=8)
    left.set_xticks(range(size), words, fontsize=7)
    left.set_ylim(0, 1)
    left.set_ylabel("target probability")
    left.set_title("target if “Haus” is correct")
    for (share, values), color in zip(losses.items(), SERIES, strict=False):
        right.plot(chances, values, color=color, label=f"label smoothing {share:g}")
    right.plot(best, losses[smoothing].min(), "o", color=ORANGE)
    _finish(
        right,
        "probability of “Haus”",
        "loss, nats",
        [0.4, 0.6, 0.8, 1],
        log=False,
    )
    return figure


def smoothed_targets(size: int, label: int, smoothing: float) -> np.ndarray:
    """Return a label's target distribution, (size,): the softmax minus the loss's gradient."""
    from keras import ops

    from keras_transformer.losses import token_values

    logits = ops.zeros((1, 1, size))
    _, gradient = token_values(ops.full((1, 1), label, dtype="int32"), logits, smoothing)
    return np.array(ops.softmax(logits) - gradient(upstream=ops.ones((1, 1))))[0, 0]


def beam_search_steps() -> Figure:
    """Draw Figure 10: beam search step by step."""
    results, steps = search_results(), searched()
    (beam, by_beam), (greedy, by_greedy) = results["beam"], results["greedy"]
    figure, (axes,) = _figure(
        f"Beam {BEAMS} finds “{beam}” ({np.exp(by_beam):.2f}), greedy search “{greedy}” "
        f"({np.exp(by_greedy):.2f})",
        1,
        (6.8, 4),
    )
    axes.set_axis_off()
    axes.set_xlim(-0.5, len(steps) + 0.45)
    axes.set_ylim(-4.1, 0.85)
    before = [(0.0, -1.0)]
    _node(axes, before[0], "<s>", "1.00", GREEN, filled=True)
    for number, candidates in enumerate(steps, 1):
        axes.text(number, 0.62, f"step {number}", ha="center", fontsize=8.5)
        after = {}
        for row, one in enumerate(candidates):
            here = (float(number), -float(row))
            x, y = before[one.parent]
            is_kept = one.place is not None
            color = GREEN if is_kept else ORANGE if one.score is not None else FAINT
            axes.plot([x + 0.24, number - 0.24], [y, here[1]], color=color, linewidth=1.1, zorder=0)
            text = f"{np.exp(one.log_prob):.3f}"
            if one.score is not None:
                text += f", score {one.score:.2f}"
            _node(axes, here, one.word, text, color, filled=is_kept)
            if is_kept:
                after[one.place] = here
        before = [after[place] for place in sorted(after)]
    for x, (label, color) in enumerate(
        (("stays in the beam", GREEN), ("finished", ORANGE), ("dropped", FAINT))
    ):
        axes.plot(1.6 * x - 0.3, -3.95, "s", color=color, markersize=7)
        axes.text(1.6 * x - 0.2, -3.95, label, va="center", fontsize=8.5)
    return figure


def table_3() -> Figure:
    """Draw Figure 11: how Table 3's rows differ from base, in the paper and for small models."""
    rows = table_3_rows()
    base = rows.pop("base")
    here = {name: bleu - base[0] for name, (bleu, _) in rows.items()}
    paper = {name: bleu - base[1] for name, (_, bleu) in rows.items()}
    agree = sum(here[name] * paper[name] > 0 for name in rows)
    labels = {
        "A1": "A: 1 head",
        "A4": "A: 32 heads",
        "B1": "B: a quarter of the key size",
        "C1": "C: a third of the layers",
        "C4": "C: half the width",
        "C7": "C: twice the feed-forward size",
        "D1": "D: no dropout",
        "D2": "D: dropout 0.2",
        "D3": "D: no label smoothing",
        "E": "E: learned positions",
    }
    figure, (axes,) = _figure(
        f"After 1,400 updates, {agree} of {len(rows)} rows move BLEU in the paper's direction",
        1,
        (6.4, 3.4),
    )
    places = np.arange(len(rows))[::-1]
    axes.axvline(0, color=FAINT, linewidth=1)
    for values, color, label, height in (
        (paper, FAINT, "paper, 100,000 updates", 0.2),
        (here, BLUE, "small models", -0.2),
    ):
        axes.barh(places + height, [values[name] for name in rows], 0.36, color=color, label=label)
    axes.set_yticks(places, [labels[name] for name in rows], fontsize=8)
    axes.set_xlabel("difference from base in BLEU, dev text")
    axes.legend(loc="lower left", fontsize=8)
    return figure


def table_3_rows() -> dict[str, tuple[float, float]]:
    """Read each row's BLEU, for small models and in the paper, from the recipe's README."""
    text = (ROOT / "recipes" / "table3" / "README.md").read_text("utf-8")
    table = text[text.index("| row | N |") :].split("\n\n")[0]
    head, _, *lines = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()
    )
    here, paper = head.index("BLEU"), head.index("paper BLEU")
    return {cells[0]: (float(cells[here]), float(cells[paper])) for cells in lines}


class Example(NamedTuple):
    """A small trained model's attention for one sentence."""

    source: str
    translation: str
    maps: Any  # `AttentionMaps`


def gendered_pairs() -> tuple[list[str], list[str]]:
    """Return English and German sentences with gender-dependent German articles and endings."""
    nouns = {
        "dog": "Hund m",
        "tree": "Baum m",
        "cat": "Katze f",
        "door": "Tür f",
        "house": "Haus n",
    }
    adjectives = {"small": "klein", "old": "alt", "new": "neu", "white": "weiß", "young": "jung"}
    articles = {
        "the": {"m": ("der", "e"), "f": ("die", "e"), "n": ("das", "e")},
        "a": {"m": ("ein", "er"), "f": ("eine", "e"), "n": ("ein", "es")},
    }
    sources, targets = [], []
    for article, adjective, noun, other in itertools.product(
        articles, adjectives, nouns, adjectives
    ):
        german, gender = nouns[noun].split()
        word, ending = articles[article][gender]
        sources.append(f"{article} {adjective} {noun} is {other}")
        targets.append(f"{word} {adjectives[adjective]}{ending} {german} ist {adjectives[other]}")
    return sources, targets


@functools.cache
def example(epochs: int = 25) -> Example:
    """Train a translator on `gendered_pairs` and compute its attention for one sentence."""
    import keras

    import keras_transformer as kt
    from keras_transformer.interpretation import attention_maps

    keras.utils.set_random_seed(1)
    sources, targets = gendered_pairs()
    tokenizer = kt.SentencePieceTokenizer.train(sources + targets, vocabulary_size=190)
    model = kt.build_transformer(
        "tiny",
        vocabulary_size=tokenizer.vocabulary_size,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=64,
        dropout=0.1,
    )
    model.compile(
        kt.transformer_adam(64, warmup_steps=100, scale=0.3), kt.LabelSmoothingCrossEntropy(0.1)
    )
    batches = kt.data.fit_texts(sources, targets, tokenizer, batch_tokens=512)
    model.fit(batches, epochs=epochs, verbose=0)
    translator, source = kt.Translator(model, tokenizer), "a small door is old"
    (translation,) = translator.translate([source])
    return Example(source, translation, attention_maps(translator, source))


def attention_heads(of: Example) -> Figure:
    """Draw Figure 12: the cross-attention heads, as in the paper's figures 3 to 5."""
    from keras_transformer.interpretation import attention_figure

    noun = of.maps.source_tokens.index("▁door")
    weights = of.maps.cross[0, :, 0, noun]  # for each head and the first output word
    head, article = int(weights.argmax()), of.maps.output_tokens[0].strip("▁")
    shown = sorted(int(one) for one in np.argsort(weights)[-2:])
    figure = attention_figure(of.maps, "cross", 0, shown, style="matrix")
    title = (
        f"To choose “{article}”, head {head + 1} puts {weights[head]:.0%} of its weight on the noun"
    )
    figure.suptitle(title, x=0.01, y=1.08, ha="left")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {  # in page order
    "figure_1": architecture,
    "the_paper/positions": positions,
    "the_paper/position_products": position_products,
    "the_paper/scaled_dot_product": scaled_dot_product,
    "the_paper/scaling": scaling,
    "the_paper/masks": masks,
    "the_paper/layer_costs": layer_costs,
    "the_paper/schedule": schedule,
    "the_paper/label_smoothing": label_smoothing,
    "the_paper/beam_search": beam_search_steps,
    "the_paper/table_3": table_3,
    "the_paper/attention_heads": lambda: attention_heads(example()),
}


def _figure(
    title: str, columns: int, size: tuple[float, float], rows: int = 1
) -> tuple[Figure, Sequence[Any]]:
    """Return a titled figure and its axes, row by row. The size is in inches."""
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(textwrap.fill(title, 84), x=0.01, ha="left")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def _finish(axes, across: str, up: str, ticks: Sequence[float], *, log: bool = True) -> None:
    """Add labels, ticks, a grid and a legend. With `log`, the horizontal axis uses powers of 2."""
    if log:
        axes.set_xscale("log", base=2)
        axes.minorticks_off()
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(axis="y")
    axes.legend(fontsize=8)


def _matrix(axes, matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw a heat map with numbers."""
    top = max(float(matrix.max()), 1.0)
    axes.pcolormesh(matrix, cmap=HEAT, vmin=0, vmax=top, edgecolor=INK, linewidth=0.3)
    for (row, column), value in np.ndenumerate(matrix):
        color = "#101010" if value > 0.6 * top else "#f5f5f5"
        text = f"{value:.2f}".rstrip("0").rstrip(".")
        axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=7, color=color)
    _name_cells(axes, rows, columns)


def _cells(axes, allowed: np.ndarray, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Draw the pairs allowed by a mask."""
    for (row, column), is_allowed in np.ndenumerate(allowed):
        cell = {"facecolor": BLUE if is_allowed else FILL, "edgecolor": FAINT, "linewidth": 0.6}
        axes.add_patch(Rectangle((column, row), 1, 1, **cell))
        if not is_allowed:
            axes.text(column + 0.5, row + 0.5, "−∞", ha="center", va="center", fontsize=8)
    _name_cells(axes, rows, columns)


def _name_cells(axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_aspect("equal")
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=7.5)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _node(axes, place, word: str, text: str, color: str, *, filled: bool) -> None:
    box = {"boxstyle": "round,pad=0.3", "facecolor": FILL if filled else "none", "edgecolor": color}
    axes.text(*place, word, ha="center", va="center", fontsize=9, bbox=box | {"linewidth": 1.4})
    axes.text(place[0], place[1] - 0.36, text, ha="center", va="center", fontsize=7)


def main() -> None:
    """Create all figures and the page for Figure 12."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from keras_transformer.interpretation import attention_page

    ATTENTION_PAGE.parent.mkdir(exist_ok=True)
    for name, draw in FIGURES.items():
        (IMAGES / f"{name}.svg").write_text(svg_of(draw), "utf-8")
    page = attention_page(example().maps, f"{example().source} → {example().translation}")
    ATTENTION_PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
