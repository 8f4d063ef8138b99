"""What a format's writer takes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self, Unpack

from keras_transformer.models import Transformer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchKeywords, SearchOptions
from keras_transformer.text import SentencePieceTokenizer, Shortlist


class TranslationModel(Protocol):
    """Models with their tokenizers and search options, such as a `Translator`."""

    search_options: SearchOptions
    source_tokenizer: SentencePieceTokenizer
    tokenizer: SentencePieceTokenizer

    @property
    def models(self) -> Sequence[Transformer]:
        """The model, or the members of an ensemble."""

    @property
    def shortlist(self) -> Shortlist | None:
        """The target tokens that a search considers; None considers all."""

    @property
    def max_length(self) -> int | None:
        """The models' number of positions, or None if unlimited."""

    @property
    def origins(self) -> Sequence[tuple[RunDirectory, Path]]:
        """The run and the weight file of each model that was loaded from a run."""

    def with_search(self, **options: Unpack[SearchKeywords]) -> Self:
        """The same models with other search options."""

    def translate(self, sentences: list[str]) -> list[str]:
        """The best translation of each sentence."""
