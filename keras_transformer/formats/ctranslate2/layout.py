"""A CTranslate2 export on disk, as its reader sees it. Does not need Keras or TensorFlow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_json, read_record, to_record
from keras_transformer.formats.ctranslate2 import CTRANSLATE2
from keras_transformer.formats.registry import check_export
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tokenizer_files import SOURCE_TOKENIZER, TOKENIZER
from keras_transformer.types import PathLike

_ADVICE = "Copy the export again."


class _Vocabulary(msgspec.Struct):
    tokens: Annotated[int, msgspec.Meta(ge=1)]
    sha256: str


class _Options(msgspec.Struct):
    max_positions: Annotated[int, msgspec.Meta(ge=2)]


class CTranslate2Card(msgspec.Struct):
    """The part of `model_card.json` that a reader needs."""

    options: _Options
    source_vocabulary: _Vocabulary
    target_vocabulary: _Vocabulary

    @property
    def shares_vocabulary(self) -> bool:
        """Whether source and target share one tokenizer."""
        return self.source_vocabulary.sha256 == self.target_vocabulary.sha256


class CTranslate2Directory:
    """The files that `export_ctranslate2` writes: see docs/ctranslate2.md.

    Args:
        path: the directory.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.card_path = self.path / "model_card.json"

    def read_card(self) -> CTranslate2Card:
        """Check all files and return the model card."""
        if not self.card_path.exists():
            raise UserInputError(
                f"{self.path} holds no CTranslate2 export: {self.card_path.name} is missing. Make "
                f"one with `keras-transformer export ctranslate2 RUN {self.path}`."
            )
        card = read_json(self.card_path, _ADVICE)
        if not isinstance(card, dict) or card.get("kind") != CTRANSLATE2.kind:
            raise UserInputError(f"{self.card_path} does not belong to a CTranslate2 export.")
        check_export(self.path)
        return to_record(self.card_path, card, CTranslate2Card, _ADVICE)

    def load_tokenizers(
        self, card: CTranslate2Card
    ) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
        """Load the tokenizers of source and target; one object if they are shared."""
        tokenizer = self._load_tokenizer(TOKENIZER, card.target_vocabulary)
        if card.shares_vocabulary:
            return tokenizer, tokenizer
        return self._load_tokenizer(SOURCE_TOKENIZER, card.source_vocabulary), tokenizer

    def read_tokens(self, card: CTranslate2Card) -> tuple[Sequence[str], Sequence[str]]:
        """Return CTranslate2's names for the source and target tokens by id, including padding."""
        shared = self.path / "shared_vocabulary.json"
        if shared.exists():
            tokens = read_record(shared, list[str], _ADVICE)
            return tokens, tokens
        source, target = (
            read_record(self.path / f"{side}_vocabulary.json", list[str], _ADVICE)
            for side in ("source", "target")
        )
        return source, target

    def _load_tokenizer(self, name: str, vocabulary: _Vocabulary) -> SentencePieceTokenizer:
        """Load a tokenizer, which must be the one in the card."""
        path = self.path / name
        tokenizer = SentencePieceTokenizer.load(path)
        if tokenizer.fingerprint != vocabulary.sha256:
            raise UserInputError(f"{path} is not the tokenizer of the export. {_ADVICE}")
        return tokenizer
