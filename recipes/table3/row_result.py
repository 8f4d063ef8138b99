"""The training run of a row, and its result file in the run directory."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from typing import Any, Self, cast

import keras

from keras_transformer import Translator
from keras_transformer.errors import SentenceTooLong, UserInputError
from keras_transformer.evaluation import perplexity
from keras_transformer.files import write_json
from keras_transformer.training import TrainingCommand, TrainingRun
from keras_transformer.translation_training import TrainingBatches, TranslationData
from keras_transformer.types import PathLike
from recipes.table3.rows import ROWS
from recipes.table3.settings import Table3Settings

RESULT = "table3.json"


@dataclasses.dataclass(frozen=True)
class RowResult:
    """A finished row: sizes, scores on the dev text, and requested settings.

    Args:
        row: name of the row in `ROWS`.
        encoder_layers, decoder_layers: number of layers in each stack (N).
        hidden_dim, intermediate_dim: d_model and d_ff.
        num_heads, key_dim, value_dim: h, d_k and d_v.
        dropout, label_smoothing: P_drop and epsilon_ls.
        steps: number of updates.
        perplexity: perplexity per subword on the dev text.
        bleu, signature: BLEU on the dev text, and sacrebleu's signature.
        parameters: number of weights.
        seconds: training time.
        settings: the row's settings.
        minutes: time limit for training, if any.
        data: fingerprints of the training and dev texts.
    """

    row: str
    encoder_layers: int
    decoder_layers: int
    hidden_dim: int
    intermediate_dim: int
    num_heads: int
    key_dim: int
    value_dim: int
    dropout: float
    label_smoothing: float
    steps: int
    perplexity: float
    bleu: float
    signature: str
    parameters: int
    seconds: float
    settings: dict[str, Any]
    minutes: float | None
    data: list[str]

    @classmethod
    def read(cls, run: PathLike) -> Self | None:
        """Return the result in a run directory, or None if the row has not finished."""
        path = pathlib.Path(run, RESULT)
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_text("utf-8")))
        except (ValueError, TypeError) as error:
            raise UserInputError(f"{path} is damaged. Remove it to score the row again") from error


@dataclasses.dataclass(frozen=True)
class RowRun:
    """A training run for a row.

    Args:
        name: name of the row in `ROWS`.
        options: settings, run directory and time limit.
        read_text: function that returns the training and dev texts.
    """

    name: str
    options: TrainingCommand[Table3Settings]
    read_text: Callable[[], TranslationData]

    @property
    def path(self) -> pathlib.Path:
        """The run directory."""
        return pathlib.Path(self.options.run)

    def has_finished(self) -> bool:
        """Whether the row has been trained and scored with these settings and this time limit.

        Settings that did not exist in an older version are ignored.
        """
        result = RowResult.read(self.path)
        if result is None or result.minutes != self.options.minutes:
            return False
        wanted = self.options.settings.to_dict()
        return {**wanted, **result.settings} == wanted


def finished_rows(runs: PathLike) -> list[RowResult]:
    """Return the finished rows in a folder of runs, in the order of the paper's table."""
    found = [RowResult.read(pathlib.Path(runs, name)) for name in ROWS]
    return [result for result in found if result is not None]


def fingerprints(texts: TranslationData) -> list[str]:
    """Return fingerprints that identify the training and dev texts."""
    return [text.fingerprint() for text in (*texts.train, texts.dev_text)]


def check_dev_text(batches: TrainingBatches, model: keras.Model) -> None:
    """Before training, refuse a dev text that `write_result` cannot score.

    Args:
        batches: the texts and their tokenizers.
        model: the model to train.

    Raises:
        UserInputError: a sentence has too many tokens.
    """
    translator = Translator(model, batches.tokenizer, source_tokenizer=batches.source_tokenizer)
    text = batches.texts.dev_text
    try:
        translator.check_lengths(*zip(*text, strict=True))
    except SentenceTooLong as error:
        raise UserInputError(f"Pair {error.index + 1} of {text.name} {error.fault}") from error


def write_result(row: RowRun, texts: TranslationData, run: TrainingRun) -> None:
    """Measure the perplexity of a trained row and write the result for the table.

    Args:
        row: the row.
        texts: the row's training and dev texts.
        run: the row's completed training run, with `scores.json`.
    """
    settings = row.options.settings
    translator = Translator.load(row.path, long_sentences="cut")
    sources, targets = map(list, zip(*texts.dev_text, strict=True))
    log_probabilities = translator.score(sources, targets)
    tokens = sum(len(ids) + 1 for ids in translator.tokenizer.encode(targets))  # 1: EOS
    scores = json.loads(run.directory.scores_path.read_text("utf-8"))
    # `Table3Settings.row` sets every size except the sizes of a head.
    hidden_dim, num_heads = cast(int, settings.hidden_dim), cast(int, settings.num_heads)
    head = hidden_dim // num_heads
    result = RowResult(
        row=row.name,
        encoder_layers=cast(int, settings.num_encoder_layers),
        decoder_layers=cast(int, settings.num_decoder_layers),
        hidden_dim=hidden_dim,
        intermediate_dim=cast(int, settings.intermediate_dim),
        num_heads=num_heads,
        key_dim=settings.key_dim or head,
        value_dim=head,
        dropout=cast(float, settings.dropout),
        label_smoothing=cast(float, settings.label_smoothing),
        steps=run.record.steps,
        perplexity=perplexity(log_probabilities, tokens),
        bleu=scores["bleu"],
        signature=scores["signature"],
        parameters=run.directory.load_architecture().count_params(),
        seconds=run.record.seconds,
        settings=settings.to_dict(),
        minutes=row.options.minutes,
        data=fingerprints(texts),
    )
    write_json(row.path / RESULT, dataclasses.asdict(result))
