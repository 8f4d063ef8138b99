"""The `report.html` page, with the scores, curves and examples of a training run."""

import csv
import html
import importlib.resources
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.data import Overlap
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import chrf
from keras_transformer.evaluation.figures import MOST_MARKS, WIDE, Curve, Metric, RunCurves
from keras_transformer.evaluation.scores import METRICS, SCORES, recorded_rows
from keras_transformer.files import note, say, write_text
from keras_transformer.inference.attention_maps import AttentionMaps, attention_maps
from keras_transformer.inference.attention_page import offline_page
from keras_transformer.inference.translator import Translator
from keras_transformer.input_files import read_json
from keras_transformer.runs.run_directory import RunDirectory

_WIDTH, _HEIGHT = 400, 214
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 374, 10, 178  # edges of the frame
_MOST_POINTS = 600  # maximum number of points in a line
_TICKS = 4


def curve_svg(
    curve: Curve, name: str, *, steps: float, from_zero: bool, smooth: bool = False
) -> str:
    """Draw a curve over updates, with axes. The page's style sheet sets the colors.

    Args:
        curve: curve to draw.
        name: description of the values for the text alternative.
        steps: number of updates in the entire training run, the end of the axis.
        from_zero: whether the value axis starts at 0. Otherwise, it is logarithmic if the values
            vary widely.
        smooth: whether to draw the mean of neighboring values over faint individual values.
    Returns:
        An `svg` element whose text alternative states the first, last, lowest and highest values.
    """
    values = curve.smoothed() if smooth else curve.values
    is_log = not from_zero and 0 < WIDE * values.min() < values.max()
    low, high = _limits(curve.values, from_zero, is_log)

    def x(step: np.ndarray | float) -> np.ndarray:
        return _LEFT + (_RIGHT - _LEFT) * np.asarray(step) / steps

    def y(value: np.ndarray | float) -> np.ndarray:
        share = (_scaled(value, is_log) - _scaled(low, is_log)) / (
            _scaled(high, is_log) - _scaled(low, is_log)
        )
        return _BOTTOM - (_BOTTOM - _TOP) * share

    parts = []
    for tick in _log_ticks(low, high) if is_log else _ticks(low, high):
        at = f"{y(tick):.1f}"
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{_RIGHT}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{at}">{tick:g}</text>')
    for tick in _ticks(0, steps):
        parts.append(f'<text class="x" x="{x(tick):.1f}" y="{_BOTTOM + 16}">{tick:,.6g}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>')
    middle = (_LEFT + _RIGHT) / 2
    parts.append(f'<text class="x" x="{middle:g}" y="{_HEIGHT - 4}">updates</text>')
    if smooth:
        parts.append(_line("faint", x(curve.step), y(curve.values)))
    parts.append(_line("line", x(curve.step), y(values)))
    if not smooth and len(values) <= MOST_MARKS:
        parts += [
            f'<circle cx="{x(step):.1f}" cy="{y(value):.1f}" r="3">'
            f"<title>update {step:,.0f}: {value:.4g}</title></circle>"
            for step, value in zip(curve.step, values, strict=True)
        ]
    alternative = (
        f"{name} over updates: {values[0]:.4g} at {curve.step[0]:,.0f}, {values[-1]:.4g} at "
        f"{curve.step[-1]:,.0f}; lowest {values.min():.4g}, highest {values.max():.4g}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(alternative)}">{"".join(parts)}</svg>'
    )


def _line(kind: str, x: np.ndarray, y: np.ndarray) -> str:
    """Return a path through at most `_MOST_POINTS` points."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    points = " ".join(f"{x[i]:.1f} {y[i]:.1f}" for i in kept)
    return f'<path class="{kind}" d="M{points}"/>'


def _scaled(value: np.ndarray | float, is_log: bool) -> np.ndarray:
    return np.log10(value) if is_log else np.asarray(value, "float64")


def _limits(values: np.ndarray, from_zero: bool, is_log: bool) -> tuple[float, float]:
    """Return the ends of the value axis, with some margin."""
    low, high = float(values.min()), float(values.max())
    if is_log:
        return low / 1.2, high * 1.2
    if from_zero:
        low = min(0.0, low)
    room = 0.05 * (high - low) or abs(high) or 1.0
    return low - (0 if from_zero else room), high + room


def _ticks(low: float, high: float) -> Sequence[float]:
    """Return about four round numbers from `low` to `high`.

    Example:
        >>> _ticks(0, 240), _ticks(1.07, 2.97)
        ([0.0, 50.0, 100.0, 150.0, 200.0], [1.5, 2.0, 2.5])
    """
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> Sequence[float]:
    """Return powers of ten from `low` to `high` and, if they are few, 2 and 5 times these powers.

    Example:
        >>> _log_ticks(4, 300)
        [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
        >>> _log_ticks(4, 30_000)
        [10.0, 100.0, 1000.0, 10000.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= _TICKS else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]


_MOST_TIMES = 6  # maximum number of validations whose samples are shown
_IN_SHORT = (
    "preset", "num_layers", "num_encoder_layers", "num_decoder_layers", "hidden_dim",
    "intermediate_dim", "num_heads", "dropout", "label_smoothing", "vocabulary_size",
    "batch_tokens", "warmup_steps", "learning_rate_scale", "optimizer", "precision",
    "seed",
)  # fmt: skip


class Example(NamedTuple):
    """A sentence with its translation by the trained model."""

    source: str
    translation: str
    reference: str


class _Panel(NamedTuple):
    title: str
    unit: str
    from_zero: bool


_PANELS: dict[Metric, _Panel] = {
    "loss": _Panel("Training loss", "nats per target token, including label smoothing", True),
    "perplexity": _Panel("Dev perplexity", "per subword", False),
    "bleu": _Panel("Dev BLEU", "0 to 100, greedy decoding", True),
    "learning_rate": _Panel("Learning rate", "of each update", True),
}


def write_run_report(
    run: RunDirectory,
    translator: Translator,
    examples: Sequence[Example],
    dev_source: str,
    commands: Sequence[str],
) -> None:
    """Write `report.html` to a run after training, and print its path.

    The report shows curves from `metrics.csv` and `validation.csv`, samples from `dev_samples.csv`,
    scores from `scores.json`, attention for a sentence, the settings and suggested commands. If it
    cannot be written, a line on stderr explains why, and training ends without a report.

    Args:
        run: the run directory.
        translator: the trained model.
        examples: translations of the scored text.
        dev_source: a source sentence whose attention is shown.
        commands: suggested commands.
    """
    try:
        maps, attention = _attention(translator, dev_source)
        scores, settings = read_json(run.scores_path), run.settings()
        curves = RunCurves.read(run.path).curves
        body = [
            "<main>",
            *_facts(scores, curves, translator),
            *_scores(scores),
            *_curves(curves),
            *_samples(run),
            *_examples(scores, examples),
            *attention,
            *_settings(settings, scores),
            "<h2>Next commands</h2>",
            *(f"<code>{_text(command)}</code>" for command in commands),
            "</main>",
        ]
        folder = importlib.resources.files("keras_transformer.training.translation")
        style = folder.joinpath("report.css").read_text("utf-8")
        title = f"Training of {run.path.absolute().name}"
        write_text(run.report_path, offline_page(title, "\n".join(body), maps, style=style))
    except Exception as error:  # the trained model is more important
        note(f"No report.html: {' '.join(str(error).split()) or type(error).__name__}")
    else:
        say(f"Report: {run.report_path}")


def _text(value: object) -> str:
    return html.escape(str(value))


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Return a table with row names in the first column."""
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    heads = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in head)
    lines = [
        f'<tr><th scope="row">{_text(first)}</th>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in rows
    ]
    return (
        f"<table>{title}<thead><tr>{heads}</tr></thead>\n<tbody>\n"
        + "\n".join(lines)
        + "\n</tbody></table>"
    )


def _facts(
    scores: Mapping[str, Any], curves: Mapping[Metric, Curve], translator: Translator
) -> Iterable[str]:
    """Yield the key figures."""
    facts = {SCORES[name].title: f"{scores[name]:.1f}" for name in METRICS}
    if "perplexity" in curves:
        facts["final dev perplexity"] = _rounded(curves["perplexity"].values[-1])
    facts["updates"] = f"{max(curve.step[-1] for curve in curves.values()):,.0f}"
    facts["time"] = _duration(scores["seconds"])
    facts["target tokens/s"] = _rounded(scores["target_tokens_per_second"])
    facts["parameters"] = _rounded(translator.models[0].count_params())
    yield '<dl class="facts">'
    for name, value in facts.items():
        yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"
    yield "</dl>"


def _rounded(number: float) -> str:
    """Format a number with three significant digits for readability.

    Example:
        >>> _rounded(3.14159), _rounded(87.5), _rounded(12_345), _rounded(63_082_496)
        ('3.14', '87.5', '12,300', '63.1 million')
    """
    if not math.isfinite(number):
        return str(number)
    number = float(f"{number:.3g}")
    if number >= 1e6:
        return f"{number / 1e6:,.3g} million" if number < 1e9 else f"{number / 1e9:,.3g} billion"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _duration(seconds: float) -> str:
    """Format a number of seconds with at most two units.

    Example:
        >>> _duration(11.8), _duration(754), _duration(9000)
        ('12 s', '12 min 34 s', '2 h 30 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _scores(scores: Mapping[str, Any]) -> Iterable[str]:
    """Yield the final scores with their signatures, and the overlap with the training text."""
    yield "<h2>Final scores</h2>"
    rows = recorded_rows(scores)
    yield _table(("score", "value", "signature"), rows, _scored_text(scores))
    for name, counts in scores.get("in_training_text", {}).items():
        yield f'<p class="note">{_text(Overlap(**counts).report(name))}.</p>'


def _scored_text(scores: Mapping[str, Any]) -> str:
    """Return a description of the scored text from the record."""
    on = scores.get("evaluated_on")
    return f"{on['name']} ({on['text']}, {on['sentences']:,} sentences)" if on else "held-out text"


def _curves(curves: Mapping[Metric, Curve]) -> Iterable[str]:
    """Yield the plots of the curves and a table of the validations."""
    yield '<h2>Curves</h2>\n<div class="curves">'
    steps = max(curve.step[-1] for curve in curves.values())
    for name, curve in curves.items():
        title, unit, from_zero = _PANELS[name]
        picture = curve_svg(curve, title, steps=steps, from_zero=from_zero, smooth=name == "loss")
        yield f"<figure><figcaption>{title} <span>({unit})</span></figcaption>{picture}</figure>"
    yield "</div>"
    if measured := curves.get("perplexity"):
        bleu = curves.get("bleu")
        scores = dict(zip(bleu.step, bleu.values, strict=True)) if bleu else {}
        rows = [
            (f"{step:,.0f}", f"{minutes:,.1f}", f"{value:.3f}", _bleu(scores.get(step)))
            for step, minutes, value in zip(
                measured.step, measured.minutes, measured.values, strict=True
            )
        ]
        yield "<details><summary>Validations as a table</summary>"
        yield _table(("update", "minutes", "dev perplexity", "dev BLEU"), rows)
        yield "</details>"


def _bleu(score: float | None) -> str:
    return "" if score is None else f"{score:.2f}"


def _samples(run: RunDirectory) -> Iterable[str]:
    """Yield dev sentences with their translations at several validations."""
    if not run.dev_samples_path.is_file():
        return
    with open(run.dev_samples_path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    steps = list(dict.fromkeys(int(row["step"]) for row in rows))
    if not steps:
        return
    last, times = len(steps) - 1, min(len(steps), _MOST_TIMES)
    shown = {steps[round(i * last / max(1, times - 1))] for i in range(times)}
    yield "<h2>Dev translations during training</h2>"
    yield (
        '<p class="note">Greedy decoding, at several validations. chrF (0 to 100) measures the '
        "similarity to the reference.</p>"
    )
    for source in dict.fromkeys(row["source"] for row in rows):
        same = [row for row in rows if row["source"] == source and int(row["step"]) in shown]
        lines = [(f"update {int(row['step']):,}", row["translation"]) for row in same]
        yield _sample_table(source, lines, same[0]["reference"])


def _examples(scores: Mapping[str, Any], examples: Sequence[Example]) -> Iterable[str]:
    """Yield example translations produced with the final weights."""
    yield f'<h2>Final translations</h2>\n<p class="note">{_text(_scored_text(scores))}</p>'
    for source, translation, reference in examples:
        yield _sample_table(source, [("final", translation)], reference)


def _sample_table(source: str, lines: Sequence[tuple[str, str]], reference: str) -> str:
    """Return a table of a source, its reference and its translations over time."""
    rows = [
        f'<tr><th scope="row">{when}</th><td dir="auto">{_text(translation)}</td>'
        f'<td class="score">{chrf([translation], [reference])[0]:.0f}</td></tr>'
        for when, translation in lines
    ]
    return (
        f'<h3 dir="auto">{_text(source)}</h3>\n<table class="samples"><thead><tr>'
        '<th scope="col">when</th><th scope="col">translation</th>'
        '<th scope="col" class="score">chrF</th></tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + f'\n<tr class="reference"><th scope="row">reference</th><td dir="auto">{_text(reference)}'
        "</td><td></td></tr>\n</tbody></table>"
    )


def _attention(translator: Translator, source: str) -> tuple[AttentionMaps | None, Sequence[str]]:
    """Return the attention maps of a sentence, and a section with the maps or an error message."""
    heading = "<h2>Attention for a dev sentence</h2>"
    try:
        maps = attention_maps(translator, source)
    except UserInputError as error:
        return None, [heading, f'<p class="note">{_text(error)}</p>']
    return maps, [
        heading,
        f'<p class="note" dir="auto">{_text(source)}</p>',
        '<div id="attention"></div>',
        "<noscript><p>This view needs JavaScript.</p></noscript>",
    ]


def _settings(settings: Mapping[str, Any], scores: Mapping[str, Any]) -> Iterable[str]:
    """Yield the most important settings, and all settings in a collapsible section."""
    short = [(name, settings[name]) for name in _IN_SHORT if settings.get(name) is not None]
    others = [(name, "none" if value is None else value) for name, value in settings.items()]
    machine, versions = scores.get("machine", {}), scores.get("versions", {})
    others += [(name, value) for name, value in (*machine.items(), *versions.items())]
    yield "<h2>Settings</h2>"
    yield _table(("setting", "value"), short)
    yield "<details><summary>All settings, machine and versions</summary>"
    yield _table(("setting", "value"), others)
    yield "</details>"
    if scores.get("command"):
        yield f"<h3>Command</h3>\n<code>{_text(scores['command'])}</code>"
