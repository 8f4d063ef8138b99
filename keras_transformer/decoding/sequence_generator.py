"""Generate and score sequences of ids with a model and a search algorithm."""

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
from keras_transformer.decoding.required_terms import RequiredTerms, checked_terms
from keras_transformer.decoding.sentence_loop import SentenceState, length_penalty
from keras_transformer.errors import refuse
from keras_transformer.losses import negative_log_likelihood
from keras_transformer.search_options import TRANSLATION, SearchOptions, explains_search_keywords
from keras_transformer.types import SIZES, SpecialTokens, Tensor


class SequenceGenerator:
    """Generates and scores sequences with one model or an ensemble of models.

    A model from `build_transformer` reads sources and generates targets. A language model from
    `build_language_model` continues prompts: pass prompts instead of sources, and each output
    starts with its prompt.

    Searches and sampling are compiled on the first call, like `predict` in Keras. XLA compiles each
    shape separately, so use few distinct batch shapes with XLA (see `jit_compile`). On TensorFlow
    without XLA, a single graph soon handles all shapes. Calls always use the current weights.
    Gradients do not flow through compiled calls. Calls with `constraints`, and models compiled with
    `run_eagerly=True`, run uncompiled.

    Within a `tf.function`, under `jax.jit` and in an exported graph, all methods are plain
    functions of tensors. If a graph has fixed shapes, fill incomplete batches with sources
    that contain only padding; their output is EOS.

    Args:
        model: a model from `build_transformer` or `build_language_model`, or a reloaded one; a
            model with custom layers from `Transformer.from_layers`; or a list of models whose
            probabilities are averaged.
        special_tokens: the `SpecialTokens` of the tokenizer that the model was trained with;
            defaults to the standard ids.
        vocabulary_size: number of target tokens. Logits beyond this number are vocabulary padding,
            which is never produced. If None, every logit belongs to a token.
        jit_compile: whether to use XLA on TensorFlow. "auto" compiles searches and sampling with
            XLA on a GPU or TPU. Pass True if this generator also runs inside a graph compiled with
            XLA, such as `tf.function(jit_compile=True)`. JAX always compiles with XLA.
        token_flags: int32 (model's vocabulary,), which tokens end or continue words, for searches
            with `terms`; see `decoding.RequiredTerms`. If None, each token is a word.

    Raises:
        ValueError: the model type is unsupported, the model uses a different padding id or has
            fewer logits than `vocabulary_size`, a special token is not in the vocabulary, the
            `mask_id` of a language model is BOS, or the models in a list are incompatible.

    Example:
        >>> from keras_transformer import SearchOptions, build_transformer
        >>> generator = SequenceGenerator(build_transformer("tiny", vocabulary_size=20))
        >>> options = SearchOptions(beam_size=4, extra_length=5)
        >>> ids, scores = generator.search([[7, 8, 9, 2], [7, 8, 2, 0]], options=options)
        >>> tuple(ids.shape), tuple(scores.shape)
        ((2, 4, 9), (2, 4))

    With a language model, the outputs start with the prompts:

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
        token_flags: np.ndarray | None = None,
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
        self.token_flags = token_flags

    @explains_search_keywords
    def search(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None = None,
        candidate_ids: Tensor | None = None,
        terms: Tensor | None = None,
        *,
        options: SearchOptions = TRANSLATION,
        constraints: Sequence[Callable[..., Any]] = (),
        num_hypotheses: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the best outputs for each source or prompt, using beam search or greedy search.

        A beam size of 1 selects greedy search, which ends at the first EOS. A beam search with one
        beam could continue and find a better output.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. For a language
                model, pass the prompts: an integer tensor (batch, prompt_length) of tokens and
                padding, without EOS and without BOS, which the generator adds. Prompts may be
                empty. In a graph, only the shape is checked, because the values are unknown.
            prefix_ids: integer tensor (batch, prefix_length): tokens that each output starts with,
                then padding; None means no prefixes. Prefixes override the options, and a prefix
                longer than the output limit raises the limit of its sentence. Not supported for
                language models.
            candidate_ids: integer tensor (batch, candidates), the tokens that the outputs of each
                sentence may contain, from `text.Shortlist.candidates`. Each column represents one
                token, in ascending order, with -1 for sentences that cannot use the token. Only the
                logits of candidates are computed, and their probabilities sum to 1. Candidates must
                include the tokens of the prefix and of the terms. None allows all tokens. Not
                supported for language models.
            terms: integer tensor (batch, forms, 3 + form_length), terms that every output of a
                sentence must contain; see `decoding.RequiredTerms`. Terms override the options. A
                sentence whose terms do not fit into `max_length` has no output: its scores are
                -inf. Not supported for language models.
            options: the `SearchOptions`. The caller must apply `max_source_length`.
            constraints: callables that create a constraint (see `decoding.constraints`) from the
                limits, int32 (batch,): the maximum number of output tokens per sentence, excluding
                EOS. Constraints override prefixes and options; earlier constraints override later
                constraints.
            num_hypotheses: number of hypotheses in a search with terms, at least the beam size.
                Defaults to what the terms need, or to 10 in a graph with fixed shapes.

        Returns:
            `(ids, scores)`, best first: int32 (batch, num_results, length) without BOS, with EOS,
            then padding; float32 (batch, num_results), log-probabilities divided by the length
            penalty. Both include prefixes and prompts. See `decoding.beam_search`.

        Raises:
            ValueError: ids are not a matrix of ids from the vocabulary, or sources have length 0;
                a language model receives `prefix_ids` or `candidate_ids`; candidates are invalid,
                or the model is quantized; or prompts are invalid or exceed the number of positions
                in the model.
        """
        inputs = self._checked(source_ids, prefix_ids)
        candidate_ids = self._checked_candidates(candidate_ids)
        constraints = tuple(constraints)
        if terms is not None:
            if self.model.is_causal:
                raise ValueError("`terms` must be None for a language model.")
            terms = checked_terms(terms, self.vocabulary_size or self.model.vocabulary_size)
            known = known_values(terms)
            if num_hypotheses is None and known is not None:
                numbers = self._required_terms(known).num_hypotheses(options.beam_size)
                num_hypotheses = max(map(int, numbers), default=None)
        return self._run(
            self._search,
            *inputs,
            candidate_ids,
            terms,
            options=options,
            constraints=constraints,
            num_hypotheses=num_hypotheses,
        )

    def _search(
        self,
        source_ids: Tensor,
        prefix_ids: Tensor | None,
        candidate_ids: Tensor | None,
        terms: Tensor | None = None,
        *,
        options: SearchOptions,
        constraints: Sequence[Callable[..., Any]] = (),
        num_hypotheses: int | None = None,
        with_xla: bool,
    ) -> tuple[Tensor, Tensor]:
        rules = self._rules(source_ids, prefix_ids, candidate_ids, options, constraints, with_xla)
        required = None
        if terms is not None:
            required = self._required_terms(terms)
            rules["limits"] = _limits_with_terms(required, prefix_ids, rules)
            if num_hypotheses is None:
                num_hypotheses = max(options.beam_size, SIZES[-1])
                if _grows(rules):
                    num_hypotheses = ops.max(required.num_hypotheses(options.beam_size), initial=1)
        number = options.beam_size if num_hypotheses is None else num_hypotheses
        step, state = self._start(source_ids, candidate_ids, number, options, rules)
        if options.beam_size == 1 and required is None:
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
            ending="first" if options.beam_size == 1 else options.ending,
            num_results=options.num_results,
            terms=required,
            num_hypotheses=num_hypotheses,
        )

    def _required_terms(self, terms: Tensor) -> RequiredTerms:
        flags = self.token_flags
        if flags is None:
            flags = np.zeros(self.model.vocabulary_size, "int32")
        return RequiredTerms(terms, flags, self.special_tokens.eos)

    @explains_search_keywords
    def search_alphas(
        self,
        source_ids: Tensor,
        alphas: Sequence[float],
        candidate_ids: Tensor | None = None,
        *,
        options: SearchOptions = TRANSLATION,
    ) -> tuple[Tensor, Tensor]:
        """Return the best output for each source or prompt and each of several length penalties.

        The outputs match those of separate `search` calls for each alpha. With `ending="any"`, a
        single search finds all outputs; with `"transformers"`, each alpha needs a separate search.
        With a beam size of 1, all outputs are identical, because greedy search ignores alpha.

        Args:
            source_ids, candidate_ids: see `search`.
            alphas: one or more exponents of the length penalty, which replace `alpha` in the
                options.
            options: see `search`; `num_results` has no effect.

        Returns:
            `(ids, scores)` in the order of `alphas`: int32 (batch, alphas, length) and float32
            (batch, alphas); see `search`.

        Raises:
            ValueError: `alphas` is empty or contains an invalid value; for other errors, see
                `search`.

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
        """Sample outputs for each source or prompt from the model's distribution.

        Args:
            source_ids, prefix_ids, constraints: see `search`.
            uniforms: float32 (batch, num_samples, length), drawn uniformly from [0, 1). An output
                uses one number per token, at the token's position, and depends only on its own
                numbers. `length` must be at least `source_length + extra_length` and greater than
                the prefix length; for prompts, at least `prompt_length + extra_length + 1`.
            temperature: divisor of the logits; values below 1 favor probable tokens.
            top_k: sample from the `top_k` most probable tokens; None samples from all tokens.
            top_p: sample from the smallest set of most probable tokens whose total probability is
                at least `top_p`; None samples from all tokens.
            options: the `SearchOptions`; only the output limits and `renormalize` are used.

        Returns:
            `(ids, log_probs)`: int32 (batch, num_samples, length) as in `search`; float32
            (batch, num_samples), without a length penalty. See `decoding.sample`.

        Raises:
            ValueError: `temperature`, `top_k` or `top_p` is invalid; for other errors, see
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
        """Return the natural-log probability of given targets, in a single forward pass.

        Args:
            source_ids: integer tensor (batch, source_length): tokens, EOS, padding. None for a
                language model.
            target_ids: integer tensor (batch, target_length): BOS, tokens, padding.
            labels: integer tensor (batch, target_length): tokens, EOS, padding.
            renormalize: see `SearchOptions`.

        Returns:
            float32 (batch,): the sum over all labels, including EOS but not padding.
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
            layer: index of the decoder layer, counted from 0; defaults to the second to last layer,
                or to the only layer.

        Returns:
            float32 (batch, target_length, source_length), averaged over the heads (and the models
            of an ensemble). Row i depends on `target_ids` up to position i and applies to the next
            token; it sums to 1 over the source tokens and EOS.

        Raises:
            ValueError: the layer does not exist, or the model has no encoder.
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
        """Prepare a search: return the step function and its initial state."""
        # XLA automatically moves constant work out of loops.
        grows = _grows(rules)
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
        """Convert logits to float32, with -inf for tokens that are never produced."""
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
        """Return the arguments shared by all searches: allowed tokens and output limits."""
        source_ids = ops.convert_to_tensor(source_ids)
        # Output beginnings. Unlike a source, a prompt is not encoded separately.
        beginnings = source_ids if self.model.is_causal else prefix_ids
        batch_size, source_length = ops.shape(source_ids)
        max_length = source_length - self._num_ends + options.extra_length
        limits = self._source_limits(source_ids, options.extra_length)
        own: list[Constraint] = []  # strongest first
        if beginnings is not None:
            beginnings = ops.convert_to_tensor(beginnings)
            prefix = ForcedPrefix(beginnings, self.special_tokens, self.model.vocabulary_size)
            own.append(prefix)
            limits = ops.maximum(limits, prefix.lengths)
            max_length = _larger(max_length, ops.shape(beginnings)[1])
        own += constraints_of(options, self.special_tokens, self.model.vocabulary_size, source_ids)
        if self.model.max_length is not None:
            # BOS occupies the first learned position, and EOS is predicted at the last position.
            limits = ops.minimum(limits, self.model.max_length - 1)
        vocabulary_size, logit_tokens = self.vocabulary_size, None
        if candidate_ids is not None:
            vocabulary_size = vocabulary_size or self.model.vocabulary_size
            tokens = ops.max(candidate_ids, axis=0)
            # A column without a token counts as a column of the last token, which keeps the
            # ascending order.
            logit_tokens = ops.where(tokens < 0, vocabulary_size - 1, tokens)
        return {
            "batch_size": batch_size,
            "limits": limits,
            "special_tokens": self.special_tokens,
            "max_length": max_length,
            "vocabulary_size": vocabulary_size,
            "constraints": (*(make(limits) for make in constraints), *own),
            "with_xla": with_xla,
            "logit_tokens": logit_tokens,
        }

    @property
    def _num_ends(self) -> int:
        """Number of EOS tokens at the end of a source; 0 for a prompt."""
        return 0 if self.model.is_causal else 1

    def _checked(
        self, source_ids: Tensor, prefix_ids: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Validate the input ids of a search with `checked_ids`."""
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
        """Validate the candidates of a search with `checked_candidates`."""
        if candidate_ids is None:
            return None
        if self.model.is_causal:
            raise ValueError("`candidate_ids` must be None for a language model.")
        size = self.vocabulary_size or self.model.vocabulary_size
        return checked_candidates(candidate_ids, size, self.special_tokens.eos)

    def _checked_pair(
        self, source_ids: Tensor | None, target_ids: Tensor
    ) -> tuple[Tensor | None, Tensor]:
        """Convert sources and targets to tensors."""
        if source_ids is not None:  # models without an encoder reject sources
            source_ids = checked_ids("source_ids", source_ids, self.model.source_vocabulary_size)
            source_ids = ops.convert_to_tensor(source_ids)
        target_ids = checked_ids("target_ids", target_ids, self.model.vocabulary_size)
        return source_ids, ops.convert_to_tensor(target_ids)

    def _run(self, function: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
        """Call `function(*inputs, with_xla=..., **options)`, compiled if possible."""
        is_graph = in_graph()
        are_arrays = all(each is None or isinstance(each, np.ndarray) for each in inputs)
        # Constraints may differ in every call.
        if is_graph or not are_arrays or options.get("constraints"):
            return function(*inputs, with_xla=is_graph and self._jit_compile is True, **options)
        num_rows = len(inputs[0])
        if num_rows == 0:  # use a dummy row to get the right shapes on every backend
            inputs = tuple(each if each is None else _row_of_zeros(each) for each in inputs)
        if any(getattr(model, "run_eagerly", False) for model in self._given):
            found = function(*inputs, with_xla=False, **options)
        else:
            found = self._compiled(function, *inputs, with_xla=self._compiled.with_xla, **options)
        return keras.tree.map_structure(lambda x: x[:num_rows], found)

    def _source_limits(self, source_ids: Tensor, extra_length: int) -> Tensor:
        """Return the maximum number of output tokens per source, excluding EOS: (batch,)."""
        is_token = ops.cast(source_ids != self.special_tokens.pad, "int32")
        num_tokens = ops.sum(is_token, axis=1) - self._num_ends
        return ops.where(num_tokens >= 0, num_tokens + extra_length, 0)


@functools.singledispatch
def stepwise(model: Any) -> Any:
    """Convert a model to a `Transformer` that supports stepwise decoding.

    Model packages register conversions: `stepwise.register(keras.Model, Transformer.of)`.
    """
    refuse("model", "be a `Transformer`, another model of its layers, or a list of them", model)


def _limits_with_terms(
    terms: RequiredTerms, prefix_ids: Tensor | None, rules: dict[str, Any]
) -> Tensor:
    """Return the limits of a search, raised to what the prefix and the terms need."""
    needed = terms.total
    if prefix_ids is not None:
        is_token = ops.convert_to_tensor(prefix_ids) != rules["special_tokens"].pad
        needed = needed + ops.sum(ops.cast(is_token, "int32"), axis=1)
    return ops.maximum(rules["limits"], ops.minimum(needed, rules["max_length"]))


def _grows(rules: dict[str, Any]) -> bool:
    """Return whether axes of a search may have an unknown size, and may grow. XLA fixes shapes."""
    return keras.backend.backend() == "tensorflow" and not rules["with_xla"]


def _row_of_zeros(array: np.ndarray) -> np.ndarray:
    return np.zeros((1, *array.shape[1:]), array.dtype)


def _larger(length: Any, other: Any) -> Any:
    """Return the larger of two ints (as an int) or of two scalar tensors."""
    if isinstance(length, int) and isinstance(other, int):
        return max(length, other)
    return ops.maximum(length, other)
