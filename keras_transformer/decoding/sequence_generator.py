"""Stepwise generation, which connects a model with a search. Ids in, ids out."""

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
    beam_search,
    beam_search_of_alphas,
    greedy_search,
    sample,
)
from keras_transformer.decoding.beam_search import check_alphas
from keras_transformer.decoding.compiled_calls import (
    CompiledCalls,
    JitCompile,
    check_prompts,
    check_vocabulary,
    checked_candidates,
    checked_ids,
    in_graph,
)
from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.ensemble import TransformerEnsemble
from keras_transformer.decoding.next_tokens import NEVER, OutputRules, constraints_of
from keras_transformer.decoding.sentence_loop import SentenceState, length_penalty
from keras_transformer.errors import refuse
from keras_transformer.losses import negative_log_likelihood
from keras_transformer.search_options import TRANSLATION, SearchOptions, explains_search_keywords
from keras_transformer.types import SpecialTokens, Tensor


class SequenceGenerator:
    """Generates and scores sequences with one model, or with an ensemble of several.

    A model from `build_transformer` reads sources and generates targets. A language model, from
    `build_language_model`, continues prompts: it takes prompts instead of sources, and each output
    starts with its prompt.

    Searches and sampling are compiled at the first call, as Keras compiles `predict`. XLA compiles
    for each shape, so pad batches to few shapes if XLA is used (see `jit_compile`). On TensorFlow
    without XLA, one graph soon serves all shapes. Later changes of the weights take effect. No
    gradients flow through compiled calls. Calls with `constraints` and calls of a model that was
    compiled with `run_eagerly=True` are not compiled.

    Within a `tf.function`, under `jax.jit` and in an exported graph, all methods are plain
    functions of tensors. If a graph's shapes are fixed, pad a batch with sources that contain only
    padding; their output is EOS.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one; a
            model of your own layers, from `Transformer.from_layers`; or a list of models, which
            decode with the mean of their probabilities.
        special_tokens: the `SpecialTokens` of the tokenizer that the model was trained with; None:
            the default ids.
        vocabulary_size: number of target tokens. Logits beyond this number are padding of the
            vocabulary, which is never produced. None: every logit belongs to a token.
        jit_compile: whether XLA compiles on TensorFlow: "auto" compiles searches and sampling on a
            GPU or a TPU. True also means that XLA compiles the graphs around this generator, as in
            a `tf.function(jit_compile=True)`. JAX always compiles with XLA.

    Raises:
        ValueError: the model is of a different kind, pads with a different id or has fewer logits
            than `vocabulary_size`; a special token is not in the vocabulary; the `mask_id` of a
            language model is BOS; or the models in a list are not compatible.

    Example:
        >>> from keras_transformer import SearchOptions, build_transformer
        >>> generator = SequenceGenerator(build_transformer("tiny", vocabulary_size=20))
        >>> options = SearchOptions(beam_size=4, extra_length=5)
        >>> ids, scores = generator.search([[7, 8, 9, 2], [7, 8, 2, 0]], options=options)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))

    The same with a language model, whose outputs start with the prompts:

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
        members = [
            member if hasattr(member, "step_weights") else stepwise(member)
            for member in self._given
        ]
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
        candidate_ids: Tensor | None = None,
        *,
        options: SearchOptions = TRANSLATION,
        constraints: Sequence[Callable[..., Any]] = (),
    ) -> tuple[Tensor, Tensor]:
        """Return the best outputs for each source or prompt: by beam search, or greedy for 1 beam.

        Greedy search ends with the first EOS. A beam search with one beam could continue and find a
        better output.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. For a language
                model the prompts: integer tensor (batch, prompt_length) of tokens and padding,
                without BOS, which the generator adds, and without EOS. A prompt may be empty.
                Values are checked if they are known; in a graph only the shape is checked.
            prefix_ids: integer tensor (batch, prefix_length): tokens that each output starts with,
                and padding; None: no prefix. A prefix longer than its sentence's limit raises the
                limit, and takes precedence over the options. A language model does not accept a
                prefix.
            candidate_ids: integer tensor (batch, candidates), the tokens that the outputs of each
                sentence may contain, from `text.Shortlist.candidates`. Each column is for one
                token, in ascending order, with -1 where a sentence lacks the token. Only the logits
                of candidates are computed, and their probabilities sum to 1. None: all tokens. The
                tokens of a prefix must be among the candidates. A language model does not accept
                candidates.
            options: the `SearchOptions`. The caller must apply `max_source_length`.
            constraints: sequence of callables that create a constraint (see `decoding.constraints`)
                from the limits, int32 (batch,): the maximum number of output tokens of each
                sentence, EOS not counted. Constraints take precedence over prefixes and options;
                earlier constraints take precedence over later ones.

        Returns:
            `(ids, scores)`, best first: int32 (batch, num_results, length) without BOS, with EOS,
            then padding; float32 (batch, num_results), log-probabilities divided by the length
            penalty. Prefixes and prompts count in both. See `decoding.beam_search`.

        Raises:
            ValueError: ids are not a matrix of the vocabulary's ids, or sources have length 0;
                `prefix_ids` or `candidate_ids` are given to a language model; candidates break
                their rule, or the model is quantized; or prompts break their rule or are longer
                than the model's positions allow.
        """
        inputs = self._checked(source_ids, prefix_ids)
        candidate_ids = self._checked_candidates(candidate_ids)
        constraints = tuple(constraints)
        return self._run(
            self._search, *inputs, candidate_ids, options=options, constraints=constraints
        )

    def _search(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None,
        candidate_ids: Tensor | None,
        *,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]] = (),
        with_xla: bool,
    ) -> tuple[Tensor, Tensor]:
        rules = self._rules(source_ids, prefix_ids, candidate_ids, options, constraints, with_xla)
        step, state = self._start(source_ids, candidate_ids, options.beam_size, options, rules)
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
        candidate_ids: Tensor | None = None,
        *,
        options: SearchOptions = TRANSLATION,
    ) -> tuple[Tensor, Tensor]:
        """Return the best output for each source or prompt under each of several length penalties.

        The outputs are the same as from `search`, called once for each alpha. With `ending="any"`,
        one search finds all of them; with `"transformers"`, each alpha needs a separate search.
        With a beam of 1, all outputs are the same, because greedy search does not use alpha.

        Args:
            source_ids, candidate_ids: as in `search`.
            alphas: exponents of the length penalty, at least one; they replace `alpha` of the
                options.
            options: as in `search`; `num_results` has no effect.

        Returns:
            `(ids, scores)` in the order of `alphas`: int32 (batch, alphas, length) and float32
            (batch, alphas), as from `search`.

        Raises:
            ValueError: `alphas` is empty or contains an invalid value; also the same
                errors as `search`.

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
        inputs = source_ids, self._checked_candidates(candidate_ids)
        return self._run(self._search_alphas, *inputs, alphas=tuple(alphas), options=options)

    def _search_alphas(
        self,
        source_ids: Tensor,
        candidate_ids: Tensor | None,
        *,
        alphas: Sequence[float],
        options: SearchOptions,
        with_xla: bool,
    ) -> tuple[Tensor, Tensor]:
        options = dataclasses.replace(options, num_results=1)
        if options.beam_size > 1 and options.ending == "any":
            rules = self._rules(source_ids, None, candidate_ids, options, (), with_xla)
            step, state = self._start(source_ids, candidate_ids, options.beam_size, options, rules)
            return beam_search_of_alphas(
                step,
                state,
                **rules,
                beam_size=options.beam_size,
                alphas=alphas,
                length_penalty=options.length_penalty,
            )
        search = functools.partial(self._search, source_ids, None, candidate_ids, with_xla=with_xla)
        if options.beam_size > 1:
            found = [search(options=dataclasses.replace(options, alpha=alpha)) for alpha in alphas]
            ids, scores = (ops.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
            return ids, scores
        options = dataclasses.replace(options, alpha=0.0)
        ids, log_probs = search(options=options)
        lengths = ops.sum(ops.cast(ids != self.special_tokens.pad, "float32"), axis=2)
        penalties = [length_penalty(lengths, alpha, options.length_penalty) for alpha in alphas]
        scores = log_probs / ops.concatenate(penalties, axis=1)  # (batch, alphas)
        return ops.repeat(ids, len(alphas), axis=1), scores

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
        """Sample outputs for each source or prompt by their probability.

        Args:
            source_ids, prefix_ids, constraints: as in `search`.
            uniforms: float32 (batch, num_samples, length), drawn uniformly from [0, 1). An output
                uses one number for each token, at the token's position, and depends only on its own
                numbers. `length` is at least `source_length + extra_length`, and greater than a
                prefix's length; with prompts it is at least `prompt_length + extra_length + 1`.
            temperature: divisor of the logits; values below 1 favor probable tokens.
            top_k: draw from the `top_k` most probable tokens; None: from all.
            top_p: draw from the smallest set of most probable tokens that together reach this
                probability; None: from all.
            options: the `SearchOptions`; only the output limits and `renormalize` are used here.

        Returns:
            `(ids, log_probs)`: int32 (batch, num_samples, length) as from `search`; float32
            (batch, num_samples), without a length penalty. See `decoding.sample`.

        Raises:
            ValueError: `temperature`, `top_k` or `top_p` is invalid; also the same errors as
                `search`.
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
            constraints=tuple(constraints),
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
        )

    def _sample(
        self,
        source_ids: Tensor,
        uniforms: Tensor,
        prefix_ids: Tensor | None,
        *,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]],
        with_xla: bool,
        **filters: Any,
    ) -> tuple[Tensor, Tensor]:
        uniforms = ops.convert_to_tensor(uniforms)
        num_samples = ops.shape(uniforms)[1]
        rules = self._rules(source_ids, prefix_ids, None, options, constraints, with_xla)
        step, state = self._start(source_ids, None, num_samples, options, rules, independent=True)
        del rules["logit_tokens"]  # sampling uses all tokens
        return sample(step, state, uniforms, **rules, num_samples=num_samples, **filters)

    def score(
        self,
        source_ids: Tensor | None,
        target_ids: Tensor,
        labels: Tensor,
        renormalize: bool = False,
    ) -> Tensor:
        """Return the natural-log probability of given targets, in one pass over all positions.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. None for a
                language model.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            labels: integer tensor (batch, target_length): tokens, EOS, padding.
            renormalize: as in `SearchOptions`.

        Returns:
            float32 (batch,): the sum over all labels except padding, EOS included.
        """
        labels = checked_ids("labels", labels, self.model.vocabulary_size)
        logits = self.model.logits(*self._checked_pair(source_ids, target_ids))
        if renormalize:
            logits = self._of_outputs(logits)
        losses = negative_log_likelihood(labels, logits)
        return -ops.sum(ops.where(labels != self.special_tokens.pad, losses, 0.0), axis=1)

    def alignment(self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None) -> Tensor:
        """Return how much each target position attends to each source position.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            layer: number of the decoder layer, counted from 0; None: the second to last, or the
                only one.

        Returns:
            float32 (batch, target_length, source_length), the mean over the heads (and the models
            of an ensemble). The row at position i has read `target_ids` up to i and is for the next
            token; it sums to 1 over the source's tokens and EOS.

        Raises:
            ValueError: the decoder has no such layer, or the model has no encoder.
        """
        return self.model.cross_attention(*self._checked_pair(source_ids, target_ids), layer)

    def _start(
        self,
        source_ids: Tensor,
        candidate_ids: Tensor | None,
        num_hypotheses: Any,
        options: SearchOptions,
        rules: dict[str, Any],
        *,
        independent: bool = False,
    ) -> tuple[Callable, Any]:
        """The start of a search: the step, and the state that the step takes and returns."""
        # XLA needs fixed shapes, and moves constant work out of a loop automatically.
        grows = keras.backend.backend() == "tensorflow" and not rules["with_xla"]
        memory_state, cache = self.model.start(
            ops.convert_to_tensor(source_ids),
            beam_size=num_hypotheses,
            length=None if grows else rules["max_length"] + 1,
            independent=independent,
        )
        of_sentences = [memory_state]
        if candidate_ids is not None:
            is_output = OutputRules((), self.special_tokens, self.vocabulary_size).is_output
            of_sentences.append(ops.logical_and(candidate_ids >= 0, is_output(candidate_ids)))
        weights = None
        if grows or candidate_ids is not None:
            weights = self.model.step_weights(rules["logit_tokens"], cast_layers=grows)

        def step(tokens: Tensor, index: Tensor, state: Any) -> tuple[Tensor, Any]:
            cache, sentences = state
            memory_state, *is_candidate = sentences.values
            logits, cache = self.model.step(
                tokens, index, memory_state, cache, weights, *is_candidate
            )
            if options.renormalize and not is_candidate:
                logits = self._of_outputs(logits)
            return logits, (cache, sentences)

        return step, (cache, SentenceState(tuple(of_sentences)))

    def _of_outputs(self, logits: Tensor) -> Tensor:
        """Logits in float32, -inf for the tokens that are never produced."""
        rules = OutputRules((), self.special_tokens, self.vocabulary_size)
        is_output = rules.is_output(ops.arange(logits.shape[-1], dtype="int32"))
        return ops.where(is_output, ops.cast(logits, "float32"), NEVER)

    def _rules(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None,
        candidate_ids: Tensor | None,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]],
        with_xla: bool,
    ) -> dict[str, Any]:
        """The arguments that all searches share: the allowed tokens and the output limits."""
        source_ids = ops.convert_to_tensor(source_ids)
        # The starts of outputs. Unlike a source, a prompt is not read before them.
        beginnings = source_ids if self.model.is_causal else prefix_ids
        batch_size, source_length = ops.shape(source_ids)
        max_length = source_length - self._num_ends + options.extra_length
        limits = self._source_limits(source_ids, options.extra_length)
        own: list[Constraint] = []  # the strongest first
        if beginnings is not None:
            beginnings = ops.convert_to_tensor(beginnings)
            prefix = ForcedPrefix(beginnings, self.special_tokens, self.model.vocabulary_size)
            own.append(prefix)
            limits = ops.maximum(limits, prefix.lengths)
            max_length = _larger(max_length, ops.shape(beginnings)[1])
        own += constraints_of(options, self.special_tokens, self.model.vocabulary_size, source_ids)
        if self.model.max_length is not None:
            # BOS takes the first of the learned positions, and EOS follows from the last one.
            limits = ops.minimum(limits, self.model.max_length - 1)
        logit_tokens = None
        if candidate_ids is not None:
            tokens = ops.max(candidate_ids, axis=0)
            # A column without a token counts as a column of the last token, which preserves the
            # order.
            logit_tokens = ops.where(tokens < 0, self.model.vocabulary_size - 1, tokens)
        return {
            "batch_size": batch_size,
            "limits": limits,
            "special_tokens": self.special_tokens,
            "max_length": max_length,
            "vocabulary_size": self.vocabulary_size,
            "constraints": (*(make(limits) for make in constraints), *own),
            "with_xla": with_xla,
            "logit_tokens": logit_tokens,
        }

    @property
    def _num_ends(self) -> int:
        """The number of EOS at the end of a source; 0 for a prompt."""
        return 0 if self.model.is_causal else 1

    def _checked(
        self, source_ids: Tensor, prefix_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """The ids that a search starts from, checked by `checked_ids`."""
        model = self.model
        if prefix_ids is not None:
            prefix_ids = checked_ids("prefix_ids", prefix_ids, model.vocabulary_size)
        if model.is_causal:
            if prefix_ids is not None:
                rule = "be None for a language model, whose outputs start with the prompts"
                refuse("prefix_ids", rule, shape=tuple(prefix_ids.shape))
            source_ids = checked_ids("source_ids", source_ids)
            num_tokens = self.vocabulary_size or model.vocabulary_size
            check_prompts(source_ids, self.special_tokens, num_tokens, model.max_length)
            return source_ids, None
        source_ids = checked_ids("source_ids", source_ids, model.source_vocabulary_size)
        if source_ids.shape[1] == 0:
            rule = "contain at least EOS in each row"
            refuse("source_ids", rule, shape=tuple(source_ids.shape))
        return source_ids, prefix_ids

    def _checked_candidates(self, candidate_ids: Tensor | None) -> Tensor | None:
        """The candidates of a search, checked by `checked_candidates`."""
        if candidate_ids is None:
            return None
        if self.model.is_causal:
            raise ValueError("`candidate_ids` must be None for a language model.")
        size = self.vocabulary_size or self.model.vocabulary_size
        return checked_candidates(candidate_ids, size, self.special_tokens.eos)

    def _checked_pair(
        self, source_ids: Tensor | None, target_ids: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """Sources and targets as tensors."""
        if source_ids is not None:  # a model without an encoder refuses any source
            source_ids = checked_ids("source_ids", source_ids, self.model.source_vocabulary_size)
            source_ids = ops.convert_to_tensor(source_ids)
        target_ids = checked_ids("target_ids", target_ids, self.model.vocabulary_size)
        return source_ids, ops.convert_to_tensor(target_ids)

    def _run(self, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """`function(*inputs, with_xla=..., **options)`, compiled if that is possible."""
        is_graph = in_graph()
        are_arrays = all(each is None or isinstance(each, np.ndarray) for each in inputs)
        # Every call may bring different constraints.
        if is_graph or not are_arrays or options.get("constraints"):
            return function(*inputs, with_xla=is_graph and self._jit_compile is True, **options)
        num_rows = len(inputs[0])
        if num_rows == 0:  # a row that is later removed, to get the right shapes on every backend
            inputs = tuple(each if each is None else _row_of_zeros(each) for each in inputs)
        if any(getattr(model, "run_eagerly", False) for model in self._given):
            found = function(*inputs, with_xla=False, **options)
        else:
            found = self._compiled(function, *inputs, with_xla=self._compiled.with_xla, **options)
        return keras.tree.map_structure(lambda x: x[:num_rows], found)

    def _source_limits(self, source_ids: Tensor, extra_length: int) -> Tensor:
        """Maximum number of output tokens for each source, not counting EOS: (batch,)."""
        is_token = ops.cast(source_ids != self.special_tokens.pad, "int32")
        num_tokens = ops.sum(is_token, axis=1) - self._num_ends
        return ops.where(num_tokens >= 0, num_tokens + extra_length, 0)


@functools.singledispatch
def stepwise(model: Any) -> Any:
    """A model that takes steps, created from a model whose layers do so.

    Packages of models register a conversion: `stepwise.register(keras.Model, Transformer.of)`.
    """
    refuse("model", "be a `Transformer`, another model of its layers, or a list of them", model)


def _row_of_zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros((1, *array.shape[1:]), array.dtype)


def _larger(length: Any, other: Any) -> Any:
    """The larger of two ints, as an int, or of two scalar tensors."""
    if isinstance(length, int) and isinstance(other, int):
        return max(length, other)
    return ops.maximum(length, other)
