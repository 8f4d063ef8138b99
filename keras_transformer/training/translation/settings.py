"""Settings for training a translation model, each with its reason; usable without Keras."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from keras_transformer.errors import UserInputError, refuse, reject
from keras_transformer.models.model_options import PRESETS
from keras_transformer.settings import EssentialSettings, SettingValue, setting, setting_of
from keras_transformer.training.training_options import TrainingKeywords
from keras_transformer.training.training_settings import ARCHITECTURE_SETTINGS, TrainingSettings
from keras_transformer.types import MODEL_TYPES, NORMALIZATIONS, TERM_TAGS

if TYPE_CHECKING:
    import keras

    from keras_transformer.runs.run_directory import RunDirectory
    from keras_transformer.text import SentencePieceTokenizer
    from keras_transformer.types import SpecialTokens

# Settings inherited from the run that training starts from, with its model and tokenizers.
OF_ORIGIN = (
    "preset",
    "num_layers",
    *ARCHITECTURE_SETTINGS,
    "precision",
    "tokenizer",
    "source_tokenizer",
    "separate_vocabularies",
    "vocabulary_size",
    "vocabulary_type",
    "byte_fallback",
    "normalization",
    "symbols",
)


@dataclasses.dataclass(frozen=True)
class TranslationSettings(TrainingSettings):
    """Settings for training a translation model; the base class of recipe settings.

    `--help` shows the reason for each setting.
    """

    headings: typing.ClassVar[Mapping[str, str]] = {
        "preset": "model",
        "source_language": "languages",
        "tokenizer": "vocabulary",
        "glossary_tags": "terms",
        "max_tokens": "training text filters",
        "guided_alignment": "word alignment",
        "freeze": "fine-tuning",
        "ema": "training",
        "log_every": "validation and logs",
        "average": "averaging",
        "tensorboard": "validation and logs",
        "tune_alpha": "evaluation",
    }
    may_change: typing.ClassVar[tuple[str, ...]] = (
        *TrainingSettings.may_change,
        "patience",
        "log_every",
        "tensorboard",
        "layer_diagnostics",
        "average",
        "average_of",
        "choose_average",
        "shortlist",
        "tune_alpha",
        "bleu_tokenize",
        "language",
    )
    # The head itself is a part of the model.
    of_one_run: typing.ClassVar[tuple[str, ...]] = (
        "guided_alignment",
        "alignment_only",
        "alignment_layer",
        "alignment_weight",
    )

    preset: str = setting_of(EssentialSettings, "preset", "base", choices=tuple(PRESETS))

    # Languages
    source_language: str | None = setting_of(EssentialSettings, "source_language", None)
    target_language: str | None = setting_of(EssentialSettings, "target_language", None)

    # Text
    tokenizer: str | None = setting(
        None, "SentencePiece model to use; none: trained on the text", shown="FILE"
    )
    source_tokenizer: str | None = setting(
        None, "SentencePiece model for the source; none: the same as for the target", shown="FILE"
    )
    separate_vocabularies: bool = setting(
        False, "train one vocabulary per side; with one alphabet, a shared vocabulary is better"
    )
    vocabulary_size: int = setting(
        16_000,
        "number of subwords; the paper uses 37,000 for millions of pairs",
        minimum=1,
        below=2**31,
    )
    vocabulary_type: str = setting(
        "bpe",
        "type of subwords; the paper uses bpe; unigram samples more varied subwords",
        choices=MODEL_TYPES,
    )
    byte_fallback: bool = setting(
        True, "represent unknown characters as bytes, so no text is lost; uses 256 ids"
    )
    normalization: str = setting(
        "nmt_nfkc",
        "how to normalize variants of characters; identity keeps all characters unchanged",
        choices=NORMALIZATIONS,
    )
    symbols: str = setting("<BT>", "space-separated tags that are always single tokens")
    vocabulary_lines: int = setting(
        2_000_000,
        "maximum number of lines for training the vocabulary; larger texts are sampled",
        minimum=1,
    )
    subword_sampling: float = setting(
        0.0,
        "sample subwords, useful for little text: 0.1 with bpe (dropped merges), 0.2 with unigram "
        "(smoothing)",
        minimum=0,
        below=1,
    )

    inline_noise: float = setting(
        0.0,
        "share of training pairs, such as 0.05, with the same emoji, address, number or symbols "
        "added on both sides, to teach the model to copy them",
        minimum=0,
        below=1,
    )

    # Terms
    glossary_tags: str | None = setting(
        None,
        "file of terms, as for `translate --glossary`, that some training sources carry in tags, "
        "so that the model follows terms of `translate --glossary-tags`; none: no tags",
        shown="FILE",
    )
    glossary_tags_share: float = setting(
        0.1,
        "share of the training pairs with terms whose sources carry them; the others teach the "
        "model to translate without tags",
        minimum=0,
        below=1,
    )

    # Filters of the training text
    max_tokens: int | None = setting(
        256, "drop pairs with more tokens on a side: they need memory, and few are good", minimum=1
    )
    max_ratio: float | None = setting(
        4.0, "drop pairs if one side is this many times longer: few are translations", minimum=1
    )
    drop_duplicates: bool = setting(True, "drop repeated pairs")
    drop_copies: bool = setting(
        True, "drop pairs with identical sides: they teach the model to copy"
    )

    # Word alignment
    guided_alignment: bool = setting(
        False,
        "train a separate attention head to align words, for `align` and for tags in markup; "
        "needs eflomal or --alignments",
    )
    alignment_only: bool = setting(
        False, "with --from, train only the alignment head: the translations stay the same"
    )
    alignment_layer: int | None = setting(
        None, "decoder layer whose output the head reads, from 1; none: the last but one", minimum=1
    )
    alignment_weight: float = setting(
        0.05, "weight of the alignments in the loss, as in the paper of Garg et al.", minimum=0
    )

    # Training
    freeze: str | None = setting(
        None,
        "parts to freeze: encoder, decoder, embeddings, or names such as decoder_layer_*; none: "
        "nothing",
    )
    lora_rank: int | None = setting(
        None,
        "with --from, train only LoRA adapters of this rank, such as 8; none: all weights",
        minimum=1,
    )
    lora_alpha: float | None = setting(
        None,
        "scale the adapters by lora-alpha / lora-rank; none: same as lora-rank",
        minimum=1e-6,
        below=1e6,
    )
    quantization_aware: bool = setting(
        False,
        "round the matrices to int8 in each forward pass, so that int8 exports lose less; usually "
        "for the last updates, with --from",
    )
    ema: bool = setting(False, "validate and save a moving average of the weights")
    ema_momentum: float = setting(
        0.99,
        "momentum of the average: 0.99 covers the last 100 updates; 0.999 needs 10,000 updates",
        minimum=0,
        below=1,
    )
    log_every: int = setting(50, "number of updates between rows of metrics.csv", minimum=1)
    bleu_every: int = setting(
        1,
        "number of validations between measurements of BLEU with greedy decoding; 0: never",
        minimum=0,
    )
    bleu_sentences: int = setting(
        500, "maximum number of dev sentences for BLEU, spread over the text", minimum=1
    )
    best_by: str = setting(
        "perplexity",
        "value for ranking checkpoints: perplexity is more stable, bleu is closer to the goal",
        choices=("perplexity", "bleu"),
    )
    patience: int | None = setting(
        None, "stop after this many validations without improvement; none: never", minimum=1
    )
    average: int | None = setting(
        None, "number of checkpoints to average; none: the preset's", minimum=1
    )
    average_of: str = setting(
        "last",
        "average the last checkpoints, as in the paper, or the best checkpoints",
        choices=("last", "best"),
    )
    choose_average: bool = setting(
        True, "also try fewer checkpoints, and keep the average with the lowest dev perplexity"
    )
    tensorboard: bool = setting(True, "write event files for TensorBoard")
    layer_diagnostics: bool = setting(
        False, "write attention, gradient and update statistics of each layer to layers.csv"
    )
    held_out: int = setting(
        1000, "maximum number of training pairs to hold out if there is no dev text", minimum=1
    )

    # The end
    shortlist: bool = setting(
        False,
        "at the end, align the training text and write a shortlist for `translate --shortlist`",
    )

    # Evaluation
    tune_alpha: bool = setting(False, "at the end, choose --alpha by BLEU on the dev text")
    bleu_tokenize: str = setting(
        "13a", "sacrebleu tokenizer: 13a for plain text, none for tokenized text"
    )
    language: str | None = setting(
        None,
        "target language, such as de, to also report BLEU on Moses tokens with split compounds; "
        "none: not reported",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        from keras_transformer.runs.run_records import fields_of_settings
        from keras_transformer.text.sentencepiece_tokenizer import check_symbols

        check_symbols("symbols", self.symbols.split())
        fields_of_settings(self.to_dict())  # checks the fields
        if self.best_by == "bleu" and not self.bleu_every:
            reject("`best_by` can be bleu only if BLEU is measured", best_by="bleu", bleu_every=0)
        if self.best_by == "bleu":  # ranking requires BLEU with the same tokenizer
            may_change = tuple(name for name in self.may_change if name != "bleu_tokenize")
            object.__setattr__(self, "may_change", may_change)
        if self.lora_rank is not None and self.optimizer != "adam":
            rule = "be adam with `lora_rank`: Muon is for complete matrices"
            refuse("optimizer", rule, self.optimizer, lora_rank=self.lora_rank)
        self._check_alignment()
        if self.source_tokenizer and not self.tokenizer:
            fault = "`source_tokenizer` needs `tokenizer` for the target"
            reject(fault, source_tokenizer=self.source_tokenizer, tokenizer=None)
        kind = self.kind_of_positions
        has_separate = self.separate_vocabularies or self.source_tokenizer
        if kind.needs_separate_vocabularies and not has_separate:
            fault = f"`positions` can be {kind.name} only with `separate_vocabularies`"
            reject(fault, positions=kind.name, separate_vocabularies=False)

    def _check_alignment(self) -> None:
        if not self.aligns:
            return
        for name in ("subword_sampling", "lora_rank"):
            if getattr(self, name):
                rule = "be off with guided alignment"
                refuse(name, rule, getattr(self, name))
        if self.packing == "on":
            refuse("packing", "be off with guided alignment", self.packing)
        if self.alignment_only and self.freeze:
            refuse("freeze", "be none with `alignment_only`, which freezes the model", self.freeze)

    @property
    def aligns(self) -> bool:
        """Whether an alignment head is trained."""
        return self.guided_alignment or self.alignment_only

    def packs(self) -> bool:
        return super().packs() and not self.aligns

    def dropout_rates(self) -> dict[str, float]:
        rates = super().dropout_rates()
        return dict.fromkeys(rates, 0.0) if self.alignment_only else rates

    def graph(self, model: keras.Model, special_tokens: SpecialTokens | None = None) -> keras.Model:
        from keras_transformer.models.transformer import Transformer

        if self.aligns:
            return Transformer.of(model).guided(self.alignment_weight)
        return super().graph(model, special_tokens)

    def check_given(self, names: Collection[str]) -> None:
        super().check_given(names)
        for name, use, other in (
            ("ema_momentum", "the moving average", "ema"),
            ("lora_alpha", "adapters", "lora_rank"),
            ("alignment_layer", "the alignment head", "aligns"),
            ("alignment_weight", "the alignment head", "aligns"),
            ("glossary_tags_share", "tags of terms", "glossary_tags"),
        ):
            value, needed = getattr(self, name), getattr(self, other)
            if name in names and value is not None and not needed:
                reject(
                    f"`{name}` belongs to {use}: it needs `{other}`", **{name: value, other: needed}
                )

    @classmethod
    def merge(
        cls, lower: Mapping[str, SettingValue], upper: Mapping[str, SettingValue]
    ) -> dict[str, SettingValue]:
        """Merge two layers of values. `upper` takes precedence.

        If `upper` specifies a different preset, preset values in `lower` are dropped. If `upper`
        enables LoRA, the optimizer is Adam unless `upper` sets a different optimizer.
        """
        if upper.get("lora_rank") is not None:
            upper = {"optimizer": "adam", **upper}
        old = lower.get("preset")
        if isinstance(old, str) and old in PRESETS and upper.get("preset", old) != old:
            given_by_preset = cls.preset_values(old).items()
            lower = dict(item for item in lower.items() if item not in given_by_preset)
        return super().merge(lower, upper)

    @classmethod
    def preset_values(cls, name: str) -> dict[str, Any]:
        return {**super().preset_values(name), "average": PRESETS[name].averaged_checkpoints}

    def loss_options(self, tokenizer: SentencePieceTokenizer) -> dict[str, Any]:
        """Return the arguments of `losses.LabelSmoothingCrossEntropy` for a target tokenizer."""
        return {
            "label_smoothing": self.label_smoothing,
            "padding_id": tokenizer.special_tokens.pad,
            "vocabulary_size": tokenizer.vocabulary_size,
            "reduction": "sum",  # weights are shares of the entire batch
        }

    def optimizer_options(self) -> dict[str, Any]:
        ema = {"use_ema": True, "ema_momentum": self.ema_momentum} if self.ema else {}
        return {**super().optimizer_options(), **ema}

    def check_origin(self, origin: RunDirectory) -> None:
        """Refuse settings that differ from those of the run that training starts from.

        Args:
            origin: that run. Settings that an older version lacked count as disabled. The
                precision "auto" means the precision of the run's model.

        Raises:
            UserInputError: a setting of `OF_ORIGIN` differs.
        """
        from keras_transformer.evaluation.step_work import model_precision

        absent = {name: default for name, default in self.defaults().items() if not default}
        values = {**absent, **origin.settings()}
        if self.precision == "auto":
            values["precision"] = "auto"
        elif values.get("precision") == "auto":
            values["precision"] = model_precision(origin.load_architecture())
        own, connection = self.residual_connection, values.get("residual_connection") or "plain"
        values["residual_connection"] = own if connection == (own or "plain") else connection
        for name in OF_ORIGIN:
            if getattr(self, name) != values.get(name, getattr(self, name)):
                raise UserInputError(
                    f"Training from {origin.path} uses the model and the tokenizers of that run: "
                    f"`{name}` must be {values[name]!r}. Received: {name}={getattr(self, name)!r}"
                )

    def choose_trained_weights(self, model: keras.Model) -> None:
        """Freeze layers, and add adapters to or round other layers, as the settings specify.

        Without guided alignment, an alignment head stays as it is.

        Args:
            model: a model from `build_transformer`, before `compile`.

        Raises:
            UserInputError: see `training.freeze` and `training.enable_lora`.
        """
        from keras_transformer.training.fine_tuning import enable_lora, freeze, round_to_int8

        for layer in model.layers:
            is_head = layer.name == "alignment_head"
            if self.alignment_only or is_head:
                layer.trainable = is_head and self.aligns
        freeze(model, (self.freeze or "").split())
        if self.lora_rank is not None:
            enable_lora(model, self.lora_rank, self.lora_alpha)
        if self.quantization_aware:
            round_to_int8(model)

    def training_options(self) -> TrainingKeywords:
        return {
            **super().training_options(),
            "keep_last": self.keep_last,
            "keep_best": self.keep_last if self.average_of == "best" else 1,
            "monitor": f"val_{self.best_by}",
            "mode": "max" if self.best_by == "bleu" else "min",
            "check_origin": self.check_origin,
            "needs_origin": self.lora_rank is not None or self.alignment_only,
        }

    @property
    def all_symbols(self) -> list[str]:
        """The tags that are always single tokens: `symbols`, and the tags of terms if needed."""
        tags = TERM_TAGS if self.glossary_tags else ()
        return list(dict.fromkeys((*self.symbols.split(), *tags)))

    @property
    def keep_last(self) -> int:
        """The number of most recent checkpoints to keep."""
        return typing.cast(int, self.average)  # the preset's value instead of None
