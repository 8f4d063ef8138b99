"""The cost of a training in floating-point operations, beside the paper's Table 2."""

from typing import Any, NamedTuple, Protocol

from keras_transformer.evaluation.cost.device_speed import DeviceSpeed


class MeasuredTraining(Protocol):
    """What `training_cost` needs of a `training.FitRecord`."""

    @property
    def flops(self) -> int | None: ...

    @property
    def device_seconds(self) -> float | None: ...


class TableRow(NamedTuple):
    """A row of the paper's Table 2: BLEU as printed, and training cost; None is an empty cell."""

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
    """The cost of a training: counted, and estimated as in the paper.

    The paper multiplies the time of the training, the number of devices and the sustained FLOP/s
    of one device. Where the number changed at a break, each part counts with its own.

    Args:
        record: what the whole training did, a `training.FitRecord`.
        speed: the speed of its devices, those of the end.

    Returns:
        A JSON-compatible dict: `counted_flops`, operations of the matrix products of all steps
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
    """The cost of a training beside the rows of the paper's Table 2, as text.

    Args:
        cost: the result of `training_cost`.
        bleu: BLEU of the trained model on its own test text.

    Returns:
        A string of several lines, without a line break at the end.
    """
    lines = paper_lines()
    lines.append("This training" + ("" if bleu is None else f": BLEU {bleu_cell(bleu)}"))
    lines.append(f"  FLOPs counted: {flops_cell(cost['counted_flops']) or 'not known'}")
    lines.append(f"  FLOPs by the paper's way: {_by_paper(cost)}")
    return "\n".join(lines)


def paper_lines() -> list[str]:
    """The paper's Table 2 as lines of text, with a title."""
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
    title = "Training cost, beside Table 2 of Vaswani et al. (2017), newstest2014"
    return [title, *map(_columns, (head, *rows))]


def bleu_cell(value: float | None) -> str:
    """BLEU with two decimals; empty if unknown."""
    return "" if value is None else f"{value:.2f}"


def flops_cell(value: float | None) -> str:
    """Operations as the table has them; empty if unknown."""
    return "" if value is None else f"{value:.1e}"


def _by_paper(cost: dict[str, Any]) -> str:
    devices = f"{cost['devices']} x {cost['device']}"
    if cost.get("device_seconds", 0) is None:  # an older record has none
        return f"not known, for the devices were others before {devices}"
    if cost["paper_flops"] is None:
        return f"not known, for what {devices} sustains is not (--device-tflops gives it)"
    flops_a_second = cost["sustained_flops_per_device"]
    seconds = cost.get("device_seconds", cost["paper_flops"] / flops_a_second)
    time = f"{seconds / 3600:,.1f} device hours"
    sustained = f"{flops_a_second / 1e12:g} TFLOP/s of {cost['device']}"
    flops = flops_cell(cost["paper_flops"])
    return f"{flops}, {time} x {sustained} ({cost['sustained_from']})"


def _columns(cells: tuple[str, ...]) -> str:
    name, *values = cells
    return f"  {name:27}" + "".join(f"{value:>13}" for value in values).rstrip()
