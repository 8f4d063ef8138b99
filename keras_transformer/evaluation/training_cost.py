"""Training costs of runs compared with the paper's Table 2, as tables and a figure."""

import csv
import dataclasses
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypedDict

import msgspec

from keras_transformer.evaluation.figures import (
    PointLabel,
    figure_style,
    label_points,
    new_figure,
    short_names,
)
from keras_transformer.evaluation.step_work import FROM_SETTING, TERA, DeviceSpeed
from keras_transformer.input_files import parse_json, to_record
from keras_transformer.runs.checksums import ADVICE
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text.text_lines import text_table
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A wider range than any training run needs. Its products and quotients are finite.
_Amount = Annotated[float, msgspec.Meta(gt=1e-60, lt=1e60)]
_Count = Annotated[int, msgspec.Meta(ge=1, lt=10**15)]
_Text = Annotated[str, msgspec.Meta(max_length=1000)]

_HEAD = ("Runs", "BLEU", "FLOPs, paper's method", "FLOPs counted", "time", "devices", "scored on")
_OTHERS_BEFORE = "the devices changed when it was resumed"


class MeasuredTraining(Protocol):
    """The attributes of a `training.FitRecord` that `training_cost` needs."""

    @property
    def flops(self) -> int | None: ...

    @property
    def device_seconds(self) -> float | None: ...


class TableRow(NamedTuple):
    """A row of the paper's Table 2: printed BLEU and training costs. None means an empty cell."""

    model: str
    bleu_en_de: str | None
    bleu_en_fr: str | None
    flops_en_de: float | None
    flops_en_fr: float | None


# Vaswani et al. (2017), Table 2: newstest2014.
PAPER_TABLE_2 = (
    TableRow("ByteNet", "23.75", None, None, None),
    TableRow("Deep-Att + PosUnk", None, "39.2", None, 1.0e20),
    TableRow("GNMT + RL", "24.6", "39.92", 2.3e19, 1.4e20),
    TableRow("ConvS2S", "25.16", "40.46", 9.6e18, 1.5e20),
    TableRow("MoE", "26.03", "40.56", 2.0e19, 1.2e20),
    TableRow("Deep-Att + PosUnk Ensemble", None, "40.4", None, 8.0e20),
    TableRow("GNMT + RL Ensemble", "26.30", "41.16", 1.8e20, 1.1e21),
    TableRow("ConvS2S Ensemble", "26.36", "41.29", 7.7e19, 1.2e21),
    TableRow("Transformer (base model)", "27.3", "38.1", 3.3e18, 3.3e18),
    TableRow("Transformer (big)", "28.4", "41.8", 2.3e19, 2.3e19),
)


def training_cost(record: MeasuredTraining, speed: DeviceSpeed) -> dict[str, Any]:
    """Return the cost of training, both counted and estimated as in the paper.

    The paper multiplies the training time, the number of devices and the sustained FLOP/s of one
    device. If their number changed on resuming, each part is multiplied by its own number.

    Args:
        record: `training.FitRecord` of the complete training run.
        speed: the speed of the devices at the end.

    Returns:
        A JSON-compatible dict: `counted_flops`, the operations in the matrix products of all steps,
        without padding (see `TransformerFlops`); `paper_flops`; `device_seconds`; `devices`,
        `device`, `sustained_flops_per_device`, `sustained_from`. Unknown values are None.

    Example:
        >>> from keras_transformer.training import DeviceSpeed, FitRecord
        >>> record = FitRecord(100_000, 43_200.0, 25_000.0, "steps", device_seconds=8 * 43_200.0)
        >>> cost = training_cost(record, DeviceSpeed("NVIDIA P100", 8, sustained_flops=9.5e12))
        >>> f"{cost['paper_flops']:.1e}"
        '3.3e+18'

    Reference: Vaswani et al. (2017), section 6.1, Table 2 and footnote 5.
    """
    sustained, seconds = speed.sustained_flops, record.device_seconds
    return {
        "counted_flops": record.flops,
        "paper_flops": None if sustained is None or seconds is None else seconds * sustained,
        "device_seconds": seconds,
        "devices": speed.number,
        "device": speed.device,
        "sustained_flops_per_device": sustained,
        "sustained_from": speed.sustained_from,
    }


def cost_table(cost: dict[str, Any], bleu: float | None = None) -> str:
    """Format the paper's Table 2, followed by the training cost, as text.

    Args:
        cost: the result of `training_cost`.
        bleu: BLEU of the trained model on its test text.

    Returns:
        A multi-line string without a trailing line break.
    """
    lines = paper_lines()
    lines.append("This training" + ("" if bleu is None else f": BLEU {bleu_cell(bleu)}"))
    lines.append(f"  FLOPs counted: {flops_cell(cost['counted_flops']) or 'not known'}")
    lines.append(f"  FLOPs by the paper's method: {_by_paper(cost)}")
    return "\n".join(lines)


def paper_lines() -> list[str]:
    """Format the paper's Table 2 as lines of text with a title."""
    head = ("", "BLEU EN-DE", "EN-FR", "FLOPs EN-DE", "EN-FR")
    rows = [
        (
            row.model,
            row.bleu_en_de or "",
            row.bleu_en_fr or "",
            flops_cell(row.flops_en_de),
            flops_cell(row.flops_en_fr),
        )
        for row in PAPER_TABLE_2
    ]
    title = "Training cost, next to Table 2 of Vaswani et al. (2017), newstest2014"
    return [title, *map(_columns, (head, *rows))]


def bleu_cell(value: float | None) -> str:
    """Format BLEU with two decimal places, or return an empty string if unknown."""
    return "" if value is None else f"{value:.2f}"


def flops_cell(value: float | None) -> str:
    """Format a number of operations as in the table, or return an empty string if unknown."""
    return "" if value is None else f"{value:.1e}"


def _by_paper(cost: dict[str, Any]) -> str:
    devices = f"{cost['devices']} x {cost['device']}"
    if cost["device_seconds"] is None:
        return f"not known, as the devices were different before {devices}"
    if cost["paper_flops"] is None:
        return f"not known: give the sustained speed of {devices} with --device-tflops"
    time = f"{cost['device_seconds'] / 3600:,.1f} device hours"
    sustained = f"{cost['sustained_flops_per_device'] / 1e12:g} TFLOP/s of {cost['device']}"
    flops = flops_cell(cost["paper_flops"])
    return f"{flops}, {time} x {sustained} ({cost['sustained_from']})"


def _columns(cells: tuple[str, ...]) -> str:
    name, *values = cells
    return f"  {name:27}" + "".join(f"{value:>13}" for value in values).rstrip()


class _EvaluatedOn(TypedDict, total=False):
    name: _Text
    text: _Text
    sentences: _Count


class _Cost(TypedDict):
    counted_flops: _Amount | None
    paper_flops: _Amount | None
    device_seconds: _Amount | None
    devices: _Count
    device: _Text
    sustained_flops_per_device: _Amount | None
    sustained_from: _Text | None


class _Scores(TypedDict, total=False):
    """The cost-related fields of `scores.json`."""

    bleu: Annotated[float, msgspec.Meta(ge=0, le=100.0001)]
    signature: _Text
    evaluated_on: _EvaluatedOn
    seconds: _Amount
    training_cost: _Cost


@dataclasses.dataclass(frozen=True)
class RunCost:
    """The training cost and the quality of a run. None means unknown.

    Args:
        run: path of the run.
        bleu: BLEU of the run on its test text.
        signature: sacrebleu's signature for the BLEU score.
        scored_on: the test text.
        seconds: training time.
        devices: number of devices.
        device: kind of device.
        paper_flops: the paper's estimate, seconds x devices x sustained FLOP/s of one device. If
            the number of devices changed on resuming, each part is multiplied by its own number.
        counted_flops: operations in the matrix products of all steps; see `TransformerFlops`.
        sustained_flops_per_device: sustained FLOP/s of one device.
        sustained_from: the source of `sustained_flops_per_device`.
        note: why the cost is unknown, or what the cost excludes.
    """

    run: str
    bleu: float | None = None
    signature: str | None = None
    scored_on: str | None = None
    seconds: float | None = None
    devices: int | None = None
    device: str | None = None
    paper_flops: float | None = None
    counted_flops: float | None = None
    sustained_flops_per_device: float | None = None
    sustained_from: str | None = None
    note: str | None = None


def run_cost(path: PathLike, device_tflops: float | None = None) -> RunCost:
    """Read the training cost of a run.

    Args:
        path: the run directory.
        device_tflops: sustained TFLOP/s of one device, which overrides the recorded value.

    Returns:
        A `RunCost`, which contains only a note if the run has no recorded training cost.

    Raises:
        UserInputError: the run does not exist, or a record of the run is damaged.

    Reference: Vaswani et al. (2017), footnote 5.
    """
    run = RunDirectory.open(path)
    name, origin = str(path), run.record().origin
    if not run.scores_path.is_file():
        return RunCost(name, note=_why_without(run, origin))
    path = run.scores_path
    scores = to_record(path, parse_json(path, run.checksums.read(path), ADVICE), _Scores, ADVICE)
    if "training_cost" not in scores:
        return RunCost(name, note="its scores.json does not contain the training cost")
    cost: dict[str, Any] = {**scores["training_cost"]}
    device_seconds = cost.pop("device_seconds")
    if device_tflops is not None and device_seconds is not None:
        sustained = device_tflops * TERA
        cost |= {
            "paper_flops": device_seconds * sustained,
            "sustained_flops_per_device": sustained,
            "sustained_from": FROM_SETTING,
        }
    notes = [_OTHERS_BEFORE] if device_seconds is None else []
    if origin is not None:
        notes.append(f"without the training of {origin}, from which it started")
    return RunCost(
        name,
        bleu=scores.get("bleu"),
        signature=scores.get("signature"),
        scored_on=_scored_on(scores.get("evaluated_on")),
        seconds=scores.get("seconds"),
        **cost,
        note="; ".join(notes) or None,
    )


def costs_text(costs: Sequence[RunCost]) -> str:
    """Return multi-line text with the paper's Table 2, followed by the costs of runs."""
    known = [cost for cost in costs if cost.devices is not None]
    lines = paper_lines()
    if known:
        lines.append(text_table([_HEAD, *map(_cells, known)], align="<>>>><<"))
    lines += [_one_line(f"{cost.run}: {cost.note}") for cost in costs if cost.note]
    if any(cost.paper_flops is None and _OTHERS_BEFORE not in (cost.note or "") for cost in known):
        lines.append(
            "The paper's method multiplies training time, devices and one device's sustained "
            "speed. If the speed is unknown, set it with --device-tflops."
        )
    return "\n".join(lines)


def costs_csv(costs: Sequence[RunCost]) -> str:
    """Format Table 2 and the costs of runs as CSV, with a line per model and test text."""
    file = io.StringIO()
    fields = [field.name for field in dataclasses.fields(RunCost)]
    writer = csv.DictWriter(file, ["model", *fields[1:]], lineterminator="\n")
    writer.writeheader()
    for row in PAPER_TABLE_2:
        for text, bleu, flops in (
            ("newstest2014 en-de", row.bleu_en_de, row.flops_en_de),
            ("newstest2014 en-fr", row.bleu_en_fr, row.flops_en_fr),
        ):
            if bleu is not None or flops is not None:
                values = {"bleu": bleu, "scored_on": text, "paper_flops": flops_cell(flops)}
                note = "Vaswani et al. (2017), Table 2"
                writer.writerow({"model": row.model, **values, "note": note})
    for cost in costs:
        values = dataclasses.asdict(cost)
        writer.writerow({"model": values.pop("run"), **values})
    return file.getvalue()


def costs_record(costs: Sequence[RunCost]) -> dict[str, Any]:
    """Return Table 2 and the costs of runs as a JSON-compatible dict."""
    return {
        "paper": [
            {
                **row._asdict(),
                "bleu_en_de": paper_bleu(row.bleu_en_de),
                "bleu_en_fr": paper_bleu(row.bleu_en_fr),
            }
            for row in PAPER_TABLE_2
        ],
        "runs": [dataclasses.asdict(cost) for cost in costs],
    }


def paper_bleu(printed: str | None) -> float | None:
    """Convert a BLEU score in Table 2 to a number."""
    return None if printed is None else float(printed)


def _why_without(run: RunDirectory, origin: str | None) -> str:
    """Explain why a run has no `scores.json`."""
    if run.metrics_path.is_file():
        return "no cost yet: training has not finished, or wrote no scores.json"
    source = "" if origin is None else f", from {origin}"
    return f"no cost: trained elsewhere (an imported run or a preset{source})"


def _scored_on(text: _EvaluatedOn | None) -> str | None:
    if text is None:
        return None
    name = " ".join(part for part in (text.get("name"), text.get("text")) if part)
    return f"{name}, {text['sentences']:,} sentences" if "sentences" in text else name


def _cells(cost: RunCost) -> Sequence[str]:
    seconds = cost.seconds
    cells = [
        f"  {cost.run}",
        bleu_cell(cost.bleu) or "-",
        flops_cell(cost.paper_flops) or "not known",
        flops_cell(cost.counted_flops) or "not known",
        "-" if seconds is None else _time(seconds),
        f"{cost.devices} x {cost.device}",
        cost.scored_on or "-",
    ]
    return [*map(_one_line, cells)]


def _one_line(text: str) -> str:
    """Replace line breaks and control characters in text from a record, for terminal output."""
    return "".join(character if character.isprintable() else " " for character in text)


def _time(seconds: float) -> str:
    """Format a duration in the largest suitable unit.

    Example:
        >>> _time(90), _time(43_200), _time(302_400)
        ('1.5 min', '12.0 h', '3.5 d')
    """
    for unit, size in (("d", 86_400), ("h", 3600)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.1f} min"


_PAPER, _RUNS = "#0072b2", "#d55e00"
_WAYS = (("counted_flops", "^", "counted"), ("paper_flops", "D", "the paper's method"))
_OF_WORDS = ("13a", "intl", "none")  # sacrebleu tokenizers for which BLEU counts words


def cost_figure(costs: Sequence[RunCost]) -> "Figure":
    """Plot BLEU against floating-point operations on a logarithmic axis.

    The upper panel shows the paper's English-French models, and the lower panel shows its
    English-German models, at the costs in the paper. The lower panel also shows each run, with a
    triangle at the counted operations and a diamond at the paper's estimate, if known. Models and
    runs without BLEU or cost are only listed by name. The same applies to runs whose BLEU does
    not count words and is therefore not comparable with WMT scores.

    Args:
        costs: costs of the runs.

    Returns:
        A `matplotlib.figure.Figure`, whose `savefig` writes PNG, PDF and SVG.

    Raises:
        UserInputError: matplotlib (the `plots` extra) is not installed.

    Example:
        >>> figure = cost_figure([RunCost("runs/mine", bleu=25.0, counted_flops=2e18)])
        >>> figure.axes[1].texts[-1].get_text()
        'mine'

    Reference: Vaswani et al. (2017), Table 2.
    """
    with figure_style():
        figure = new_figure(9, 8, layout="constrained")
        above, below = figure.subplots(2, 1)
        above_names, left_out = _draw_paper(above, "en_fr", "EN-FR")
        below_names, more_left_out = _draw_paper(below, "en_de", "EN-DE")
        run_names, without, of_others = _draw_runs(below, costs)
        lines = [f"without a cost in the paper: {', '.join(left_out + more_left_out)}"]
        if without:
            lines.append(f"without cost or BLEU: {', '.join(without)}")
        if of_others:
            lines.append(f"not drawn, BLEU of another tokenizer: {', '.join(of_others)}")
        above.legend(loc="best")
        below.legend(loc="best")
        figure.suptitle("BLEU over training cost: Table 2 of Vaswani et al. (2017), newstest2014")
        below.set_xlabel("\n".join(["training cost (FLOPs)", *lines]), parse_math=False)
        label_points(figure, above, above_names)
        label_points(figure, below, [*below_names, *run_names])
    return figure


def _draw_paper(axes: Any, field: str, label: str) -> tuple[list[PointLabel], list[str]]:
    """Draw the paper's models for a language pair. Return the names with and without cost."""
    rows = [
        (row.model, paper_bleu(getattr(row, f"bleu_{field}")), getattr(row, f"flops_{field}"))
        for row in PAPER_TABLE_2
    ]
    known = [(name, y, x) for name, y, x in rows if y is not None and x is not None]
    axes.scatter(
        [x for _, _, x in known],
        [y for _, y, _ in known],
        color=_PAPER,
        label=f"the paper, {label}",
    )
    ours, best, own_cost = max(known, key=lambda row: row[1])
    other, _, cost = max(
        (row for row in known if "Transformer" not in row[0]), key=lambda row: row[1]
    )
    axes.set_title(
        f"{label}: {ours} has the best BLEU ({best:g}) at 1/{cost / own_cost:.0f} of the cost "
        f"of {other}"
    )
    axes.set_xscale("log")
    axes.margins(x=0.12, y=0.15)
    axes.set_ylabel("BLEU (0 to 100)")
    names = [PointLabel(name, x, y, _PAPER) for name, y, x in known]
    return names, [f"{name} ({label} {y:g})" for name, y, x in rows if y is not None and x is None]


def _draw_runs(
    axes: Any, costs: Sequence[RunCost]
) -> tuple[list[PointLabel], list[str], list[str]]:
    """Draw the runs whose BLEU counts words.

    Returns:
        The names of the drawn runs, the names of runs without cost or BLEU, and the names of runs
        whose BLEU counts something other than words, with the tokenizer.
    """
    names = dict(zip(costs, short_names([cost.run for cost in costs]), strict=True))
    known = {cost: flops for cost in costs if cost.bleu is not None and (flops := _known(cost))}
    drawn = {cost: flops for cost, flops in known.items() if _tokenizer(cost) in _OF_WORDS}
    for field, marker, label in _WAYS:
        points = [cost for cost in drawn if getattr(cost, field) is not None]
        if points:
            axes.scatter(
                [getattr(cost, field) for cost in points],
                [cost.bleu for cost in points],
                marker=marker,
                color=_RUNS,
                label=f"runs on their own text, {label}",
            )
    labels = []
    for cost, flops in drawn.items():
        bleu = cost.bleu or 0.0
        axes.plot(flops, [bleu] * len(flops), color=_RUNS, linestyle="-", linewidth=1)
        labels.append(PointLabel(names[cost], flops[-1], bleu, _RUNS))
    return (
        labels,
        [names[cost] for cost in costs if cost not in known],
        [f"{names[cost]} (tok:{_tokenizer(cost)})" for cost in known if cost not in drawn],
    )


def _tokenizer(cost: RunCost) -> str:
    """Return the tokenizer in a run's BLEU signature, or sacrebleu's default if unspecified."""
    parts = dict(part.split(":", 1) for part in (cost.signature or "").split("|") if ":" in part)
    return parts.get("tok", _OF_WORDS[0])


def _known(cost: RunCost) -> list[float]:
    """Return the known costs of a run, lowest first."""
    return sorted(flops for flops in (cost.counted_flops, cost.paper_flops) if flops is not None)
