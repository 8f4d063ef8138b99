"""The tag of the target language in front of a source, in models of several target languages."""

from collections.abc import Iterable, Sequence

from keras_transformer.errors import UserInputError
from keras_transformer.text.sentence_encoding import LongSentences, encode_sentences
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer

_MOST_SHOWN = 20


class TargetTags:
    """Puts the tag of a target language in front of rows of ids that have none.

    Args:
        tokenizer: tokenizer of the source.
        language: code of the target language, such as "deu"; None: no tag is put there.

    Raises:
        UserInputError: the vocabulary has no tag of this language.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, language: str | None) -> None:
        self._tokenizer = tokenizer
        vocabulary, languages = tokenizer.vocabulary, tokenizer.target_languages
        self._tags = {vocabulary.ids[tag] for tag in vocabulary.tags} if vocabulary else set()
        self._tag: int | None = None
        if language is not None:
            if vocabulary is None or language not in languages:
                shown = ", ".join(languages[:_MOST_SHOWN]) or "no tags of languages"
                more = f" and {len(languages) - _MOST_SHOWN:,} more"
                raise UserInputError(
                    "`target_language` must be a code that the model has a tag for. It has "
                    f"{shown}{more if len(languages) > _MOST_SHOWN else ''}. "
                    f"Received: target_language={language}"
                )
            self._tag = vocabulary.ids[f">>{language}<<"]

    @property
    def length(self) -> int:
        """How many tokens to leave room for."""
        return 1 if self._tags else 0

    def encode(
        self, name: str, sentences: Iterable[str], max_length: int, long_sentences: LongSentences
    ) -> list[list[int]]:
        """As `encode_sentences`, with the tags and with room for them."""
        most = max_length - self.length
        rows = encode_sentences(name, sentences, self._tokenizer, most, long_sentences)
        return [self.before([row])[0] for row in rows]

    def is_put_before(self, sentence: str, row: Sequence[int]) -> bool:
        """Whether a row of `encode` begins with a tag that its sentence does not have."""
        if not row or row[0] not in self._tags:
            return False
        (tag,) = self._tokenizer.pieces(row[:1])
        return not sentence.lstrip().startswith(tag)

    def before(self, rows: Sequence[list[int]]) -> list[list[int]]:
        """The parts of a sentence, each with the tag of the first one or the chosen one."""
        if not self._tags or not rows or not rows[0]:
            return list(rows)
        tag = rows[0][0] if rows[0][0] in self._tags else self._tag
        return [row if tag is None or row[:1] == [tag] else [tag, *row] for row in rows]
