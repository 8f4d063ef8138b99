"""The teacher: a trained run, or an ensemble of several runs."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_transformer import RunDirectory, SearchOptions, SentencePieceTokenizer, Translator
from keras_transformer.errors import UserInputError
from keras_transformer.search_options import SearchKeywords, search_over, search_text
from keras_transformer.translation_training import TranslationSettings

SEARCH = tuple(TranslationSettings().search_options())  # names of the search options in settings


def given_search(settings: Mapping[str, Any]) -> SearchKeywords:
    """Return the fields of `SearchOptions` that a student's settings set for the teacher."""
    values = {name: settings.get(f"teacher_{name}") for name in SEARCH}
    given: Any = {name: value for name, value in values.items() if value is not None}
    return given


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A run, or several runs that translate as an ensemble.

    Args:
        runs: the runs.
        search: fields of `SearchOptions` for decoding.
    """

    runs: list[RunDirectory]
    search: dict[str, Any]

    @classmethod
    def open(cls, paths: Sequence[pathlib.Path], given: SearchKeywords | None = None) -> Teacher:
        """Open a teacher from run directories.

        Args:
            paths: the run directories.
            given: fields of `SearchOptions` to set; other fields default to the first run's values.

        Raises:
            UserInputError: a run does not exist, has no weights or is not a translator, or the
                runs have different vocabularies.
        """
        runs = [RunDirectory.open(path) for path in dict.fromkeys(paths)]
        fingerprints = [tuple(one.fingerprint for one in run.load_tokenizers()) for run in runs]
        for run, fingerprint in zip(runs, fingerprints, strict=True):
            if fingerprint != fingerprints[0]:
                raise UserInputError(
                    "The runs of a teacher must have the same tokenizers. Received: "
                    f"{runs[0].path} and {run.path}"
                )
            run.find_weights()  # to fail now, not after reading the text
        search = search_over(runs[0].search_defaults(), given or {})
        return cls(runs, dataclasses.asdict(SearchOptions(**search)))

    @property
    def told_search(self) -> str:
        """Describe the search and, for an ensemble, name the run that provides its options."""
        text = f"{search_text(self.search)}, extra length {self.search['extra_length']}"
        if len(self.runs) == 1:
            return text
        return f"{text}; the other options are taken from {self.runs[0].path}"

    def load(self) -> Translator:
        """Return the translator. It cuts overlong sentences, which are rare."""
        return Translator.load([run.path for run in self.runs], long_sentences="cut", **self.search)

    def check_tokenizers(self, *tokenizers: SentencePieceTokenizer) -> None:
        """Raise a `UserInputError` if a student's tokenizers differ from the teacher's."""
        given = [tokenizer.fingerprint for tokenizer in tokenizers]
        if given != [one.fingerprint for one in self.runs[0].load_tokenizers()]:
            raise UserInputError(
                "A student uses the tokenizers of its teacher: omit `tokenizer`. Received: "
                f"different ones from {self.runs[0].path}"
            )

    def record(self) -> dict[str, Any]:
        """Return everything that determines the translations, as JSON-compatible values."""
        digests = []
        for run in self.runs:
            with open(run.find_weights(), "rb") as weights:
                digests.append(hashlib.file_digest(weights, "sha256").hexdigest())
        return {
            "weights": digests,
            "tokenizers": [one.fingerprint for one in self.runs[0].load_tokenizers()],
            "search": self.search,
        }
