"""Stepwise generation: joins a model with a search. Ids in, ids out."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import known_values, python_number
from keras_transformer.decoding import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgrams,
    beam_search,
    beam_search_of_alphas,
    greedy_search,
    sample,
)
from keras_transformer.decoding.alpha_sweep import check_alphas
from keras_transformer.decoding.compiled_calls import CompiledCalls, JitCompile
from keras_transformer.decoding.ensemble import TransformerEnsemble
from keras_transformer.decoding.generator_inputs import (
    check_prompts,
    check_vocabulary,
    checked_ids,
    in_graph,
)
from keras_transformer.decoding.hypothesis_arrays import SentenceState
from keras_transformer.decoding.length_penalty import length_penalty
from keras_transformer.decoding.next_tokens import NEVER, OutputRules
from keras_transformer.errors import explains_search_keywords
from keras_transformer.losses.cross_entropy import negative_log_likelihood
from keras_transformer.search_options import TRANSLATION, SearchOptions
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor


class SequenceGenerator:
    """Generates and scores sequences with one model, or with an ensemble of several.

    A model from `build_transformer` reads sources and generates targets. A language model, from
    `build_language_model`, continues prompts: it takes them in the place of the sources, and each
    of its outputs begins with its prompt.

    Searches and samples compile themselves when they are first called, as Keras compiles `predict`.
    XLA compiles for each shape, so pad batches to few of them where it does (see `jit_compile`).
    Without it, on TensorFlow one graph soon serves all shapes. Later changes of the weights count.
    No gradients pass through them. They run as they are with `constraints`, and if a model was
    compiled with `run_eagerly=True`.

    Within a `tf.function`, under `jax.jit` and in an exported graph all methods are plain functions
    of tensors. Where a graph's shapes are fixed, a source that is padding alone may fill up a
    batch; its output is EOS.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or one that was reloaded;
            one of layers of your own, by `Transformer.from_layers`; or a list of them, which
            decode with the mean of their probabilities.
        special_tokens: the `SpecialTokens` of the tokenizer that the model was trained with; None:
            the default ids.
        vocabulary_size: number of target tokens; logits from there on are padding of the vocabulary
            and never produced. None: every logit is a token's.
        jit_compile: whether XLA compiles on TensorFlow: "auto" compiles searches and samples on a
            GPU or a TPU. True also says that the graphs around this generator are compiled by XLA,
            as in a `tf.function(jit_compile=True)`. JAX always compiles with XLA.

    Raises:
        ValueError: the model is of another kind, pads with another id or has fewer logits than
            `vocabulary_size`; a special token is none of the vocabulary; the `mask_id` of a
            language model is BOS; or the models of a list do not fit each other.

    Example:
        >>> from keras_transformer import SearchOptions, build_transformer
        >>> generator = SequenceGenerator(build_transformer("tiny", vocabulary_size=20))
        >>> options = SearchOptions(beam_size=4, extra_length=5)
        >>> ids, scores = generator.search([[7, 8, 9, 2], [7, 8, 2, 0]], options=options)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))

    The same with a language model, whose outputs begin with the prompts:

        >>> from keras_transformer import build_language_model
        >>> generator = SequenceGenerator(build_language_model("tiny", vocabulary_size=20))
        >>> ids, _ = generator.search([[7, 8, 9], [5, 6, 0]], options=options)
        >>> tuple(ids.shape), [int(token) for token in ids[1, 0, :2]]
        ((2, 4, 9), [5, 6])
    """

    def __init__(
        self,
        model: keras.Model | Sequence[keras.Model],
        special_tokens: SpecialTokens | None = None,
        vocabulary_size: int | None = None,
        jit_compile: JitCompile = "auto",
    ) -> None:
        self._given = model if isinstance(model, (list, tuple)) else [model]
        members = [_stepwise(member) for member in self._given]
        self.model: Any = members[0] if len(members) == 1 else TransformerEnsemble(members)
        self._compiled = CompiledCalls(lambda: self.model.variables, jit_compile)
        self._jit_compile = jit_compile
        self.special_tokens = special_tokens or SpecialTokens()
        self.vocabulary_size = python_number(vocabulary_size)
        check_vocabulary(self.model, self.special_tokens, vocabulary_size)

    @explains_search_keywords
    def search(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        options: SearchOptions = TRANSLATION,
        constraints: Sequence[Callable[..., Any]] = (),
    ) -> tuple[Tensor, Tensor]:
        """The best outputs of each source or prompt: by beam search, or greedy with a beam of 1.

        Greedy search ends with the first EOS; a beam of one could go on and find something better.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. For a language
                model the prompts: integer tensor (batch, prompt_length) of tokens and padding,
                without BOS, which the generator puts in front, and without EOS. A prompt may be
                empty. Values are checked where they are known; in a graph the shape is.
            prefix_ids: integer tensor (batch, prefix_length): tokens that each output begins with,
                and padding; None: outputs begin freely. A prefix longer than its sentence's limit
                raises the limit, and outranks the options. A language model takes none.
            options: the `SearchOptions`; `max_source_length` is the caller's business.
            constraints: sequence of callables that make a constraint (see `decoding.constraints`)
                of the limits, int32 (batch,): the most output tokens of each sentence, EOS not
                counted. They outrank prefixes and options, the first one most of all.

        Returns:
            `(ids, scores)`, best first: int32 (batch, num_results, length) without BOS, with EOS,
            then padding; float32 (batch, num_results), log-probabilities divided by the length
            penalty. Prefixes and prompts count in both. See `decoding.beam_search`.

        Raises:
            ValueError: ids are no matrix of the vocabulary's ids, or sources have length 0;
                `prefix_ids` is given to a language model, or prompts break their rule or have more
                tokens than the model has positions for.
        """
        inputs = self._checked(source_ids, prefix_ids)
        return self._run(self._search, *inputs, options=options, constraints=constraints)

    def _search(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]] = (),
        with_xla: bool,
    ) -> tuple[Tensor, Tensor]:
        rules = self._rules(source_ids, prefix_ids, options, constraints, with_xla)
        step, state = self._start(source_ids, options.beam_size, rules, options.renormalize)
        if options.beam_size == 1:
            ids, log_probs = greedy_search(step, state, **rules)  # (batch, length), (batch,)
            lengths = ops.sum(ops.cast(ids != self.special_tokens.pad, "float32"), axis=1)
            scores = log_probs / length_penalty(lengths, options.alpha, options.length_penalty)
            return ops.expand_dims(ids, 1), ops.expand_dims(scores, 1)
        return beam_search(
            step,
            state,
            **rules,
            beam_size=options.beam_size,
            alpha=options.alpha,
            length_penalty=options.length_penalty,
            ending=options.ending,
            num_results=options.num_results,
        )

    @explains_search_keywords
    def search_alphas(
        self,
        source_ids: Tensor,
        alphas: Sequence[float],
        *,
        options: SearchOptions = TRANSLATION,
    ) -> tuple[Tensor, Tensor]:
        """The best output of each source or prompt under each of several length penalties.

        The outputs are those of `search` with one alpha after the other. With `ending="any"` one
        search finds all of them, with `"transformers"` each alpha has a search of its own. With a
        beam of 1 all are the same, as greedy search knows no alpha.

        Args:
            source_ids: as in `search`.
            alphas: exponents of the length penalty, at least one; they stand in for that of the
                options.
            options: as in `search`; `num_results` plays no part.

        Returns:
            `(ids, scores)` in the order of `alphas`: int32 (batch, alphas, length) and float32
            (batch, alphas), as from `search`.

        Raises:
            ValueError: `alphas` is empty or has one that breaks its rule, or as in `search`.

        Example:
            >>> from keras_transformer import SearchOptions, build_transformer
            >>> generator = SequenceGenerator(build_transformer("tiny", vocabulary_size=20))
            >>> options = SearchOptions(extra_length=5)
            >>> ids, scores = generator.search_alphas([[7, 8, 2]], [0.0, 1.0], options=options)
            >>> tuple(ids.shape), tuple(scores.shape)
            ((1, 2, 8), (1, 2))
        """
        check_alphas(alphas, length_penalty=options.length_penalty)
        source_ids, _ = self._checked(source_ids, None)
        return self._run(self._search_alphas, source_ids, alphas=tuple(alphas), options=options)

    def _search_alphas(
        self,
        source_ids: Tensor,
        *,
        alphas: Sequence[float],
        options: SearchOptions,
        with_xla: bool,
    ) -> tuple[Tensor, Tensor]:
        options = dataclasses.replace(options, num_results=1)
        if options.beam_size > 1 and options.ending == "any":
            return self._search_once(source_ids, alphas, options, with_xla)
        if options.beam_size > 1:
            each = [dataclasses.replace(options, alpha=alpha) for alpha in alphas]
            found = [self._search(source_ids, options=one, with_xla=with_xla) for one in each]
            ids, scores = (ops.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
            return ids, scores
        options = dataclasses.replace(options, alpha=0.0)
        ids, log_probs = self._search(source_ids, options=options, with_xla=with_xla)
        lengths = ops.sum(ops.cast(ids != self.special_tokens.pad, "float32"), axis=2)
        penalties = [length_penalty(lengths, alpha, options.length_penalty) for alpha in alphas]
        scores = log_probs / ops.concatenate(penalties, axis=1)  # (batch, alphas)
        return ops.repeat(ids, len(alphas), axis=1), scores

    def _search_once(
        self, source_ids: Tensor, alphas: Sequence[float], options: SearchOptions, with_xla: bool
    ) -> tuple[Tensor, Tensor]:
        """As `search_alphas`, by one beam search."""
        rules = self._rules(source_ids, None, options, (), with_xla)
        step, state = self._start(source_ids, options.beam_size, rules, options.renormalize)
        return beam_search_of_alphas(
            step,
            state,
            **rules,
            beam_size=options.beam_size,
            alphas=alphas,
            length_penalty=options.length_penalty,
        )

    @explains_search_keywords
    def sample(
        self,
        source_ids: Tensor,
        uniforms: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        options: SearchOptions = TRANSLATION,
        constraints: Sequence[Callable[..., Any]] = (),
    ) -> tuple[Tensor, Tensor]:
        """Outputs of each source or prompt, drawn by their probability.

        Args:
            source_ids, prefix_ids, constraints: as in `search`.
            uniforms: float32 (batch, num_samples, length), drawn evenly from [0, 1); an output
                takes one for each token, at its position, and depends on its own alone. `length` is
                at least `source_length + extra_length`, and more than a prefix's; with prompts
                `prompt_length + extra_length + 1`.
            temperature: divisor of the logits; values below 1 favor probable tokens.
            top_k: draw among this number of most probable tokens; None: among all.
            top_p: draw among the fewest most probable tokens that together reach this probability;
                None: among all.
            options: the `SearchOptions`, of which the limits of the outputs and `renormalize`
                count here.

        Returns:
            `(ids, log_probs)`: int32 (batch, num_samples, length) as from `search`; float32
            (batch, num_samples), with no length penalty. See `decoding.sample`.

        Raises:
            ValueError: `temperature`, `top_k` or `top_p` breaks its rule, or as in `search`.
        """
        source_ids, prefix_ids = self._checked(source_ids, prefix_ids)
        values = known_values(uniforms)
        uniforms = ops.convert_to_tensor(uniforms) if values is None else values
        return self._run(
            self._sample,
            source_ids,
            uniforms,
            prefix_ids,
            options=options,
            constraints=constraints,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )

    def _sample(
        self,
        source_ids: Tensor,
        uniforms: Tensor,
        prefix_ids: Tensor | None = None,
        *,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]] = (),
        with_xla: bool,
        **filters: Any,
    ) -> tuple[Tensor, Tensor]:
        uniforms = ops.convert_to_tensor(uniforms)
        num_samples = ops.shape(uniforms)[1]
        rules = self._rules(source_ids, prefix_ids, options, constraints, with_xla)
        step, state = self._start(
            source_ids, num_samples, rules, options.renormalize, independent=True
        )
        return sample(
            step,
            state,
            uniforms,
            **rules,
            num_samples=num_samples,
            **filters,
        )

    def score(
        self,
        source_ids: Tensor | None,
        target_ids: Tensor,
        labels: Tensor,
        renormalize: bool = False,
    ) -> Tensor:
        """Natural-log probability of given targets, in one pass over all positions.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. None for a
                language model.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            labels: integer tensor (batch, target_length): tokens, EOS, padding.
            renormalize: as in `SearchOptions`.

        Returns:
            float32 (batch,): the sum over all labels but padding, EOS included.
        """
        labels = checked_ids("labels", labels, self.model.vocabulary_size)
        logits = self.model.logits(*self._checked_pair(source_ids, target_ids))
        if renormalize:
            logits = self._of_outputs(logits)
        losses = negative_log_likelihood(labels, logits)
        return -ops.sum(ops.where(labels != self.special_tokens.pad, losses, 0.0), axis=1)

    def alignment(self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None) -> Tensor:
        """How much each target position attends to each source position.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            layer: number of the decoder layer, counted from 0; None: the last but one, or the only
                one.

        Returns:
            float32 (batch, target_length, source_length), the mean over the heads (and the models
            of an ensemble). The row at position i has read `target_ids` up to i and is for the
            token after it; it sums to 1 over the source's tokens and EOS.

        Raises:
            ValueError: the decoder has no such layer, or the model no encoder.
        """
        return self.model.cross_attention(*self._checked_pair(source_ids, target_ids), layer)

    def _start(
        self,
        source_ids: Tensor,
        num_hypotheses: Any,
        rules: dict[str, Any],
        renormalize: bool,
        *,
        independent: bool = False,
    ) -> tuple[Callable, Any]:
        """What a search starts from: its step, and the state that the step takes and returns."""
        # XLA takes fixed shapes alone, and moves what does not change out of a loop by itself.
        grows = keras.backend.backend() == "tensorflow" and not rules["with_xla"]
        memory_state, cache = self.model.start(
            ops.convert_to_tensor(source_ids),
            beam_size=num_hypotheses,
            length=None if grows else rules["max_length"] + 1,
            independent=independent,
        )
        weights = self.model.step_weights() if grows else None

        def step(tokens: Tensor, index: Tensor, state: Any) -> tuple[Tensor, Any]:
            cache, memory_state = state
            logits, cache = self.model.step(tokens, index, memory_state.values, cache, weights)
            if renormalize:
                logits = self._of_outputs(logits)
            return logits, (cache, memory_state)

        return step, (cache, SentenceState(memory_state))

    def _of_outputs(self, logits: Tensor) -> Tensor:
        """Logits in float32, -inf for the tokens that are never produced."""
        rules = OutputRules((), self.special_tokens, self.vocabulary_size)
        is_output = rules.is_output(ops.arange(logits.shape[-1], dtype="int32"))
        return ops.where(is_output, ops.cast(logits, "float32"), NEVER)

    def _rules(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]],
        with_xla: bool,
    ) -> dict[str, Any]:
        """The arguments that all searches share: what may be produced, and how much of it."""
        source_ids = ops.convert_to_tensor(source_ids)
        # What outputs begin with: a prompt is not read before them, as a source is.
        beginnings = source_ids if self.model.is_causal else prefix_ids
        batch_size, source_length = ops.shape(source_ids)
        max_length = source_length - self._num_ends + options.extra_length
        limits = self._source_limits(source_ids, options.extra_length)
        vocabulary: dict[str, Any] = {
            "special_tokens": self.special_tokens,
            "vocabulary_size": self.model.vocabulary_size,
        }
        by_options: list[Callable] = []  # constraints, those first that hold first
        if beginnings is not None:
            beginnings = ops.convert_to_tensor(beginnings)
            prefix = ForcedPrefix(beginnings, **vocabulary)
            by_options.append(prefix)
            limits = ops.maximum(limits, prefix.lengths)
            max_length = _larger(max_length, ops.shape(beginnings)[1])
        if options.min_length:
            by_options.append(MinimumLength(options.min_length, **vocabulary))
        if options.no_repeat_ngram:
            by_options.append(NoRepeatNgrams(options.no_repeat_ngram, self.model.vocabulary_size))
        limits = self._within_positions(limits)
        return {
            "batch_size": batch_size,
            "limits": limits,
            "special_tokens": self.special_tokens,
            "max_length": max_length,
            "vocabulary_size": self.vocabulary_size,
            "constraints": (*(make(limits) for make in constraints), *by_options),
            "with_xla": with_xla,
        }

    @property
    def _num_ends(self) -> int:
        """How many EOS are at the end of a source; a prompt goes on."""
        return 0 if self.model.is_causal else 1

    def _checked(
        self, source_ids: Tensor, prefix_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The ids that a search starts from, as of `checked_ids`."""
        model = self.model
        if prefix_ids is not None:
            prefix_ids = checked_ids("prefix_ids", prefix_ids, model.vocabulary_size)
        if model.is_causal:
            if prefix_ids is not None:
                raise ValueError(
                    "`prefix_ids` must be None for a language model, whose outputs begin with the "
                    f"prompts. Received: prefix_ids of shape {tuple(prefix_ids.shape)}"
                )
            source_ids = checked_ids("source_ids", source_ids)
            num_tokens = self.vocabulary_size or model.vocabulary_size
            check_prompts(source_ids, self.special_tokens, num_tokens, model.max_length)
            return source_ids, None
        source_ids = checked_ids("source_ids", source_ids, model.source_vocabulary_size)
        if source_ids.shape[1] == 0:
            raise ValueError(
                "`source_ids` must have at least EOS in each row. "
                f"Received: source_ids of shape {tuple(source_ids.shape)}"
            )
        return source_ids, prefix_ids

    def _checked_pair(
        self, source_ids: Tensor | None, target_ids: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """Sources and targets as tensors."""
        if source_ids is not None:  # a model without encoder refuses any
            source_ids = checked_ids("source_ids", source_ids, self.model.source_vocabulary_size)
            source_ids = ops.convert_to_tensor(source_ids)
        target_ids = checked_ids("target_ids", target_ids, self.model.vocabulary_size)
        return source_ids, ops.convert_to_tensor(target_ids)

    def _run(
        self,
        function: Callable[..., Any],
        *inputs: Tensor | None,
        constraints: Sequence[Callable[..., Any]] = (),
        **options: Any,
    ) -> Any:
        """What a function returns: compiled, unless in a graph or where a model runs eagerly."""
        given = [tensor for tensor in inputs if tensor is not None]  # those at the end may be None
        is_graph = in_graph()
        with_xla = is_graph and self._jit_compile is True
        if constraints:  # of which every call may bring others
            return function(*given, constraints=constraints, with_xla=with_xla, **options)
        if is_graph or not all(isinstance(tensor, np.ndarray) for tensor in given):
            return function(*given, with_xla=with_xla, **options)
        num_rows = len(given[0])
        if num_rows == 0:  # a row that is taken away again: shapes are right on every backend
            given = [np.zeros((1, *array.shape[1:]), array.dtype) for array in given]
        run_eagerly = any(getattr(model, "run_eagerly", False) for model in self._given)
        call = function if run_eagerly else functools.partial(self._compiled, function)
        with_xla = not run_eagerly and self._compiled.with_xla
        found = call(*given, with_xla=with_xla, **options)
        return keras.tree.map_structure(lambda x: x[:num_rows], found)

    def _source_limits(self, source_ids: Tensor, extra_length: int) -> Tensor:
        """Maximum number of output tokens of each source, neither counting EOS: (batch,)."""
        is_token = ops.cast(source_ids != self.special_tokens.pad, "int32")
        num_tokens = ops.sum(is_token, axis=1) - self._num_ends
        return ops.where(num_tokens >= 0, num_tokens + extra_length, 0)

    def _within_positions(self, limits: Tensor) -> Tensor:
        """The limits (batch,), lowered to what the model has positions for."""
        if self.model.max_length is None:
            return limits
        # BOS takes the first of the learned positions, and EOS follows from the last one.
        return ops.minimum(limits, self.model.max_length - 1)


def _stepwise(model: Any) -> Any:
    """A model that takes steps; a functional one of its layers becomes a `Transformer`."""
    if hasattr(model, "step_weights"):
        return model
    if not isinstance(model, keras.Model):
        raise ValueError(
            "`model` must be a `Transformer`, another model of its layers, or a list of them. "
            f"Received: {repr(model)[:100]}"
        )
    # By its name: models import searches.
    return keras.saving.get_registered_object("keras_transformer>Transformer").of(model)


def _larger(length: Any, other: Any) -> Any:
    """The larger of two ints, which stays one, or scalar tensors."""
    if isinstance(length, int) and isinstance(other, int):
        return max(length, other)
    return ops.maximum(length, other)
