"""A scorecard as readable text."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.search_options import search_text

SCORES = {
    "bleu": ("BLEU", ".2f"),
    "chrf": ("chrF", ".2f"),
    "tokenized_compound_split_bleu": ("tok. BLEU", ".2f"),
    "length_ratio": ("length ratio", ".3f"),
    "brevity_penalty": ("brevity", ".3f"),
    "perplexity": ("perplexity", ".3f"),
}


def scorecard_text(card: dict[str, Any]) -> str:
    """Return the dict that `evaluate --json` prints as tables, with the scores' signatures."""
    first = next(iter(card["systems"].values()))
    title = f"{card['source']} -> {card['reference']}: {card['sentences']:,} sentences"
    parts = [
        "\n".join([f"{title}, {search_text(card)}", *_other_searches(card)]),
        _systems_table(card["systems"]),
        text_table(
            [
                ["BLEU", first["bleu_signature"]],
                ["chrF", first["chrf_signature"]],
                ["tok. BLEU", _tokenized_note(first["bleu_signature"], card["language"])],
            ],
            align="<<",
        ),
    ]
    if "paired_bootstrap" in card:
        parts += _bootstrap_parts(card)
    return "\n\n".join(parts)


def _other_searches(card: dict[str, Any]) -> list[str]:
    """Return a line for each system whose run's own search differs from the card's search."""
    return [
        f"{name} searches with "
        + ", ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in search.items()
            if key in ("beam_size", "alpha") or value != card[key]
        )
        for name, system in card["systems"].items()
        if (search := system["search"]) and any(card[key] != search[key] for key in search)
    ]


def _tokenized_note(signature: str, language: str) -> str:
    tokens = "tokens as given" if "tok:none" in signature else f"Moses tokens ({language})"
    return f"{tokens}, compounds split at hyphens, cased, no smoothing, as multi-bleu.perl"


def _systems_table(systems: dict[str, dict[str, Any]]) -> str:
    rows = [["system", *(title for title, _ in SCORES.values()), "path"]]
    for name, scores in systems.items():
        values = [
            "-" if scores[key] is None else format(scores[key], form)
            for key, (_, form) in SCORES.items()
        ]
        rows.append([name, *values, scores["path"]])
    return text_table(rows, align="<" + ">" * len(SCORES) + "<")


def _bootstrap_parts(card: dict[str, Any]) -> list[str]:
    found = card["paired_bootstrap"]
    samples = next(iter(found.values()))["samples"]
    rows = [["system", "", "mean", "against", "p-value"]]
    for name, metrics in found.items():
        for key in ("bleu", "chrf"):
            values = metrics[key]
            own, other = (
                f"{values[side + 'mean']:.2f} ± {values[side + 'confidence_interval']:.2f}"
                for side in ("", "baseline_")
            )
            rows.append([name, SCORES[key][0], own, other, f"{values['p_value']:.4f}"])
    title = (
        f"Paired bootstrap against {card['systems']['against']['path']}, {samples:,} samples, "
        "means with 95 % intervals:"
    )
    return [title, text_table(rows, align="<<>>>")]


def text_table(rows: Sequence[Sequence[str]], align: str) -> str:
    """Return rows of strings as a table whose columns are as wide as their widest cells."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
