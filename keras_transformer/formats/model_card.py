"""The input type of export writers, and model cards with the origin and scores of an export."""

import datetime
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self, Unpack

from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum, tell, write_json, write_text
from keras_transformer.input_files import parse_json, to_record
from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import package_versions
from keras_transformer.search_options import SearchKeywords, SearchOptions
from keras_transformer.text import SentencePieceTokenizer, Shortlist


class TranslationModel(Protocol):
    """One or more models with their tokenizers and search options, such as a `Translator`."""

    search_options: SearchOptions
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer
    shortlist: Shortlist | None  # target tokens considered by the search; None: all tokens
    max_length: int | None  # number of positions in the models; None: unlimited
    origins: list[tuple[RunDirectory, Path]]  # run and weight file of each model loaded from a run

    @property
    def models(self) -> list[Transformer]:
        """One model, or the members of an ensemble."""

    def _main_scores(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of a run's `scores.json` that a model card shows first."""

    def with_search(self, **options: Unpack[SearchKeywords]) -> Self:
        """Return a copy that uses the same models with different search options."""

    def translate(self, sentences: list[str]) -> list[str]:
        """Return the best translation of each sentence."""


_COMPILED = (
    "XLA compiles decoding once for each shape: the first request with a new shape takes seconds "
    "longer. The number of sentences in a request is rounded up to a power of 2, and their length "
    "to a multiple of 8 tokens. Send requests of the usual shapes before users arrive.",
    "",
)


def write_model_card(
    directory: Path,
    translator: TranslationModel,
    *,
    kind: str,
    options: Mapping[str, Any],
    precision: str,
) -> None:
    """Write a model card as `model_card.json` for programs and as `model_card.md` for people.

    For each model loaded from a run, the card contains the run's settings. It also contains the
    scores if the weights are the run's final weights.

    `kind` is the type of export, such as "SavedModel"; `options` are the options of the export.
    """
    card = {
        "kind": kind,
        "precision": precision,
        "exported": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "options": options,
        "max_length": translator.max_length,
        "parameters": sum(model.count_params() for model in translator.models),
        "source_vocabulary": _vocabulary(translator.source_tokenizer),
        "target_vocabulary": _vocabulary(translator.tokenizer),
        "models": [_origin(run, weights) for run, weights in translator.origins],
        "versions": package_versions(),
    }
    write_json(directory / "model_card.json", card)
    write_text(directory / "model_card.md", _card_text(card, translator._main_scores))


def _card_text(
    card: Mapping[str, Any], main_scores: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> str:
    """Return a card as Markdown, with its kind, options and main scores before the details."""
    lines = [
        f"# {card['kind']} of keras_transformer",
        "",
        f"{card['parameters']:,} parameters, {card['precision']}, exported {card['exported']}.",
        "",
        "Text is read unchanged: prepare it like the training text (case, tokenization).",
        "",
        "## Options of the export",
        "",
        *_table(card["options"]),
        *(_COMPILED if card["options"].get("jit_compile") else ()),
        "## Vocabularies",
        "",
        *_table(_vocabularies(card)),
    ]
    for model in card["models"]:
        lines += _model_lines(model, main_scores)
    return "\n".join([*lines, "## Exported with", "", *_json_lines(card["versions"])]) + "\n"


def _model_lines(
    model: Mapping[str, Any], main_scores: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> list[str]:
    lines = [f"## Model {model['run']}", "", f"Weights: `{model['weights']}`, SHA-256 "]
    lines[-1] += f"`{model['weights_sha256']}`."
    scores = model["scores"]
    if scores is None:
        lines += ["", "No scores are known for these weights.", ""]
    else:
        used = {**model["settings"], **scores}  # the search used for the scores, if it was tuned
        search = {name: used.get(name) for name in ("beam_size", "alpha")}
        lines += [
            "",
            f"Scores of these weights after the training, with the search {json.dumps(search)}; "
            "not of the export:",
            "",
            *_table(main_scores(scores)),
        ]
    for title in ("settings", "scores", "trained_with"):
        if model[title]:
            lines += [f"### {title.replace('_', ' ').capitalize()}", "", *_json_lines(model[title])]
    return lines


def _vocabulary(tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
    return {"tokens": tokenizer.vocabulary_size, "sha256": tokenizer.fingerprint}


def _origin(run: RunDirectory, weights: Path) -> dict[str, Any]:
    return {
        "run": run.path.name,
        "weights": weights.name,
        "weights_sha256": checksum(weights),
        "settings": without_directories(run.settings()),
        "scores": without_directories(_scores(run)) if weights == run.final_weights() else None,
        "trained_with": run.record().versions,
    }


def _scores(run: RunDirectory) -> dict[str, Any] | None:
    """Return the contents of a run's scores.json; None if missing or damaged (with a warning)."""
    path = run.scores_path
    if not path.is_file():  # training has not finished
        return None
    try:
        return to_record(path, parse_json(path, run.checksums.read(path)), dict[str, Any])
    except UserInputError as error:
        tell(f"{error} The model card has no scores.")
        return None


def without_directories(value: Any) -> Any:
    """Shorten absolute paths to their last component: model cards and presets are published.

    Example:
        >>> without_directories({"command": "train --data /home/me/data/wmt14 --run=/runs/1"})
        {'command': 'train --data wmt14 --run=1'}
    """
    if isinstance(value, dict):
        return {name: without_directories(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [without_directories(entry) for entry in value]
    if isinstance(value, str):
        return re.sub(r"(^|[\s='\"])/(?:[^\s'\"/]+/)*([^\s'\"/]+)", r"\1\2", value)
    return value


def _vocabularies(card: Mapping[str, Any]) -> dict[str, str]:
    """Return table entries for both vocabularies or for the shared vocabulary."""
    source, target = (
        f"{each['tokens']:,} tokens, SHA-256 `{each['sha256']}`"
        for each in (card["source_vocabulary"], card["target_vocabulary"])
    )
    if source == target:
        return {"source and target": target}
    return {"source": source, "target": target}


def _table(values: Mapping[str, Any]) -> list[str]:
    rows = [f"| {name} | {_cell(value)} |" for name, value in values.items()]
    return ["| | |", "|---|---|", *rows, ""]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:.4g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("|", "\\|").replace("\n", " ")


def _json_lines(values: Mapping[str, Any]) -> list[str]:
    return ["```json", json.dumps(values, indent=2, ensure_ascii=False), "```", ""]
