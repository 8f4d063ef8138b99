"""A scorecard as readable text."""

from typing import Any

from keras_transformer.evaluation.scores import METRICS, SCORES
from keras_transformer.search_options import search_text
from keras_transformer.text.text_lines import text_table


def scorecard_text(card: dict[str, Any]) -> str:
    """Return the dict that `evaluate --json` prints as tables, with the scores' signatures."""
    first = next(iter(card["systems"].values()))
    title = f"{card['source']} -> {card['reference']}: {card['sentences']:,} sentences"
    parts = [
        "\n".join([f"{title}, {search_text(card)}", *_other_searches(card)]),
        _systems_table(card["systems"]),
        text_table(
            [
                *([SCORES[name].title, first[f"{name}_signature"]] for name in METRICS),
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
    first = next(iter(systems.values()))
    columns = {key: score for key, score in SCORES.items() if key in first}
    rows = [["system", *(score.title for score in columns.values()), "path"]]
    for name, scores in systems.items():
        values = [
            "-" if scores[key] is None else format(scores[key], score.form)
            for key, score in columns.items()
        ]
        rows.append([name, *values, scores["path"]])
    return text_table(rows, align="<" + ">" * len(columns) + "<")


def _bootstrap_parts(card: dict[str, Any]) -> list[str]:
    found = card["paired_bootstrap"]
    samples = next(iter(found.values()))["samples"]
    rows = [["system", "", "mean", "against", "p-value"]]
    for name, metrics in found.items():
        for key in METRICS:
            values = metrics[key]
            own, other = (
                f"{values[side + 'mean']:.2f} ± {values[side + 'confidence_interval']:.2f}"
                for side in ("", "baseline_")
            )
            rows.append([name, SCORES[key].title, own, other, f"{values['p_value']:.4f}"])
    title = (
        f"Paired bootstrap against {card['systems']['against']['path']}, {samples:,} samples, "
        "means with 95 % intervals:"
    )
    return [title, text_table(rows, align="<<>>>")]
