"""The embedded engine without time and network: which requests it refuses, the tokens of its answers, and its prefix cache.

Decides the whole answer of a request before the first token is due (`Engine.plan`). Pure and deterministic: the same prompt and
seed give the same text. Above: server.grpc_server, which sends the answer step by step. Below: replies, prose and shapes make
text, vocabulary makes tokens, prefix_cache counts what was seen. Knows no dialect, socket or clock.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Literal, cast

import attrs

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.events import FinishReason
from smg_core.request import PoolKind, Sampling
from smg_simulator.answers.asked_fields import asked_fields
from smg_simulator.answers.chain import chained
from smg_simulator.answers.expressions import Unfollowable
from smg_simulator.answers.faults import Fault
from smg_simulator.answers.prose import sentences
from smg_simulator.answers.replies import Reply, Rule, Script, called_tool
from smg_simulator.answers.shapes import Shapes
from smg_simulator.engine.adapters import Adapters
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.media import SeenMedia, check_files, check_media, describe_media, media_spans
from smg_simulator.engine.prefix_cache import CacheChange, PrefixCache
from smg_simulator.engine.refusal import Refused
from smg_simulator.engine.tensor_names import check_names
from smg_simulator.engine.vocabulary import Vocabulary

__all__ = ["Choice", "EngineCore", "Plan", "SimulatedModel", "SimulatorConfig"]

_THINKING = "<think>\n"
_SHAPES = "shapes"
"""A prompt with media and this word gets a description of the media."""
_MOST_LOGPROBS = 20
_POOL_SEED = 20240517


@attrs.frozen
class SimulatorConfig:
    """The settings of an embedded engine. With the defaults it answers at once with a few sentences.

    `model` is the served name; `model_folder` has tokenizer.json and config.json ("": the shipped one). `context_length` 0
    takes the folder's. `seed` changes every text. `sentences` are the fewest and the most of a reply; `reply_tokens`, when set,
    is the fewest tokens of an unscripted reply. `chained` makes each token of an unscripted reply a function of all tokens before
    it (`chain`), of which one in so many ends the reply. `replies` are given first, one for each request, and with `repeat` again
    and again; then `rules` are tried; then free text is made. `call_tools` lets it call an offered tool that the question names.
    `block_size` (tokens) and `blocks` size the prefix cache. `faults` hit the first requests, one each (None: no fault),
    `fault_rates` later ones at random. More choices than `max_n`, more alternatives than `max_logprobs`, and kinds of
    constraint outside of `constraints` are refused.
    `dialects` are those that it speaks, by name (empty: all of them). `keep_requests` bounds the records kept for tests,
    `kv_batches` those of changes of the prefix cache for subscribers.
    `ranks` is how many data-parallel ranks it says that it has, `adapters` the LoRA adapters that it begins with, each by the id
    that requests name and its name (TensorRT-LLM's have numbers for ids), `max_adapters` how many it can
    hold.
    `kv_connector` ("NixlConnector", "MooncakeConnector") lets it
    hand the cache of a prompt to another engine, or take one over, in the role `kv_role`; an "encoder" makes embeddings of media
    for another engine (TokenSpeed alone has such), and no text. With `api_key`, calls that do not
    bring it as a bearer token are refused. `tls_*` are paths of PEM files; with `tls_client_ca` clients must show a
    certificate that it signed. `generation_model` False makes it a model that does the `pooled` work: it makes vectors, or is a
    classifier with `labels`, or a cross-encoder ("score"). `alternatives` are token ids that are always among the logprobs of a
    position, if so many are asked for. `vllm_servicer` chooses the servicer
    that it imitates in the vLLM dialect, `incremental_streaming` makes SGLang's HTTP server send new ids only, instead of all so
    far in each chunk, where `normalizes` makes it ask for pixels as bytes; `encoder_dtype` is the type of
    floats that it says its encoder works with.
    """

    model: str = "sim"
    model_folder: str = ""
    context_length: int = 0
    seed: int = 0
    sentences: tuple[int, int] = (2, 5)
    reply_tokens: int | None = None
    chained: int | None = None
    replies: tuple[Reply, ...] = ()
    repeat: bool = False
    rules: tuple[Rule, ...] = ()
    call_tools: bool = True
    timing: Timing = attrs.field(factory=Timing)
    block_size: int = 16
    blocks: int = 4096
    faults: tuple[Fault | None, ...] = ()
    fault_rates: tuple[tuple[Fault, float], ...] = ()
    max_n: int = 128
    max_logprobs: int = _MOST_LOGPROBS
    constraints: tuple[str, ...] = ("json_schema", "json_object", "regex", "grammar", "structural_tag", "choice")
    keep_requests: int = 256
    kv_batches: int = 1024
    embedding_size: int = 64
    generation_model: bool = True
    pooled: PoolKind = "embed"
    labels: tuple[str, ...] = ("negative", "neutral", "positive")
    alternatives: tuple[int, ...] = ()
    vllm_servicer: Literal["python", "rust"] = "python"
    incremental_streaming: bool = False
    normalizes: bool = False
    encoder_dtype: Literal["", "float32", "bfloat16", "float16"] = ""
    ranks: int = 1
    adapters: tuple[tuple[str, str], ...] = ()
    max_adapters: int = 64
    kv_connector: str = ""
    kv_role: Literal["", "kv_producer", "kv_consumer", "kv_both", "encoder"] = ""
    api_key: str = attrs.field(default="", repr=False)
    dialects: tuple[str, ...] = ()
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""

    def __attrs_post_init__(self) -> None:
        self._check_records()
        for name in ("block_size", "blocks", "max_n", "embedding_size", "kv_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 1 <= self.sentences[0] <= self.sentences[1]:
            raise ValueError(f"sentences must be at least 1, and the least first, got {self.sentences}")
        if self.chained is not None and self.chained < 1:
            raise ValueError(f"chained must be at least 1, got {self.chained}")
        if self.context_length < 0 or self.keep_requests < 0:
            raise ValueError("context_length and keep_requests must not be negative")

    def _check_records(self) -> None:
        """Raise TypeError where something stands for a record that is none."""
        rates = [each[0] if isinstance(each, tuple | list) and len(each) == 2 else each for each in self.fault_rates]
        given: dict[str, tuple[Iterable[object], type]] = {
            "replies": (self.replies, Reply),
            "rules": (self.rules, Rule),
            "faults": ([each for each in self.faults if each is not None], Fault),
            "fault_rates": (rates, Fault),
            "timing": ([self.timing], Timing),
        }
        for name, (records, kind) in given.items():
            wrong = [each for each in records if not isinstance(each, kind)]
            if wrong:
                raise TypeError(f"{name}: {wrong[0]!r:.60} is no {kind.__name__}; write {kind.__name__}(...)")


@attrs.frozen
class Choice:
    """One choice of an answer. `matched` is the stop string or token that ended it. `ends` are the token counts at the end
    of each message, where a script has `pieces`; else empty. `row_seeds` has a seed for the logprobs of each token where they
    have their own. `pauses` are `(tokens, seconds)`: behind so many tokens it waits so long."""

    ids: Sequence[int]
    finish: FinishReason
    matched: str | int | None = None
    ends: tuple[int, ...] = ()
    logprob_seed: int = 0
    row_seeds: Sequence[int] = ()
    pauses: tuple[tuple[int, float], ...] = ()


@attrs.frozen
class Plan:
    """The whole answer of a request, and the fault that its script has for it."""

    choices: tuple[Choice, ...]
    prompt_tokens: int
    fault: Fault | None = None


@attrs.frozen
class _Draft:
    """A reply before it is cut: the ids of each piece, its finish reason, and its pauses, `(tokens, seconds)`. `parted`: each
    piece is a message of its own."""

    pieces: Sequence[Sequence[int]]
    finish: FinishReason = "stop"
    pauses: tuple[tuple[int, float], ...] = ()
    parted: bool = False


@attrs.frozen
class SimulatedModel:
    """The facts about the model that any dialect has a field for. `media` are the kinds ("image", "video", "audio") it
    takes."""

    model: str
    tokenizer_path: str
    model_type: str
    architectures: tuple[str, ...]
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    pad_token_id: int | None
    is_generation: bool
    pooled: PoolKind
    labels: tuple[str, ...]
    supports_vision: bool
    media: frozenset[str]
    default_sampling: Mapping[str, object]


class EngineCore:
    """One engine's answers and its prefix cache. Deterministic for a given `config`, `vocabulary` and order of requests."""

    def __init__(self, config: SimulatorConfig, vocabulary: Vocabulary) -> None:
        self.config = config
        self.vocabulary = vocabulary
        self.context_length = config.context_length or vocabulary.context_length
        self.cache = PrefixCache(config.block_size, config.blocks)
        self.script = Script(config.replies, repeat=config.repeat)
        self.adapters = Adapters(config.adapters, config.max_adapters)
        self._shapes = Shapes()
        self._pool = sentences(_POOL_SEED + config.seed)
        self._words: tuple[int, ...] = ()  # of chained replies, made when the first is asked for

    def model_info(self) -> SimulatedModel:
        """The facts about its model."""
        words = self.vocabulary
        pooled: PoolKind = "embed" if self.config.generation_model else self.config.pooled
        defaults = {
            name: words.generation[name] for name in ("temperature", "top_p", "top_k") if name in words.generation
        }
        return SimulatedModel(
            model=self.config.model,
            tokenizer_path=self.config.model_folder,
            model_type=words.model_type,
            architectures=words.architectures if pooled == "embed" else ("SimForSequenceClassification",),
            context_length=self.context_length,
            vocab_size=words.size,
            eos_token_ids=words.eos_ids,
            pad_token_id=words.generation.get("pad_token_id"),
            is_generation=self.config.generation_model,
            pooled=pooled,
            labels=self.config.labels if pooled == "classify" else ("LABEL_0",) if pooled == "score" else (),
            supports_vision=words.sees,
            media=frozenset(words.kinds),
            default_sampling=defaults,
        )

    # ------------------------------------------------------------------------------------------------- what is refused

    def check_prompt(self, ids: Sequence[int]) -> None:
        """Raise Refused for an empty prompt, unknown token ids, and a prompt that fills the context."""
        if not ids:
            raise Refused("The decoder prompt cannot be empty")
        if (highest := max(ids)) >= self.vocabulary.size:
            raise Refused(f"Token id {highest} is out of vocabulary")
        if len(ids) >= self.context_length:
            raise Refused(
                f"The decoder prompt (length {len(ids)}) is longer than the maximum model length of {self.context_length}."
            )

    def _check_media(self, request: EngineRequest) -> None:
        seen = _seen(request)
        words = self.vocabulary
        if any(not (words.hears if media.modality == "audio" else words.sees) for media in seen):
            raise Refused("This model does not support multimodal input")
        check_names(seen, words.model_type)
        check_media(seen, request.input_ids, words.merge, words.mels, words.model_type)
        check_files(seen, request.input_ids, words.anchor)

    def _check_sampling(self, asked: Sampling) -> None:
        wrong = [
            (
                asked.max_tokens is not None and asked.max_tokens < 1,
                f"max_tokens must be at least 1, got {asked.max_tokens}",
            ),
            (not 1 <= asked.n <= self.config.max_n, f"n must be between 1 and {self.config.max_n}, got {asked.n}"),
            ((asked.temperature or 0) < 0, f"temperature must be non-negative, got {asked.temperature}"),
            (not 0 < (1 if asked.top_p is None else asked.top_p) <= 1, f"top_p must be in (0, 1], got {asked.top_p}"),
            (
                max(asked.logprobs or 0, asked.prompt_logprobs or 0) > self.config.max_logprobs,
                f"Requested logprobs greater than max allowed: {self.config.max_logprobs}",
            ),
            (
                any(not 0 <= token < self.vocabulary.size for token in asked.logit_bias or ()),
                "a token id of logit_bias is out of vocabulary",
            ),
            (
                (asked.min_tokens or 0) > (asked.max_tokens or asked.min_tokens or 0),
                "min_tokens must not be above max_tokens",
            ),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise Refused(message)

    # ----------------------------------------------------------------------------------------------------- the answer

    def plan(self, request: EngineRequest) -> Plan:
        """The answer to `request`. Raises Refused. Called once for each request, since it takes a reply off the script."""
        if not self.config.generation_model:
            raise Refused("This model does not support the 'generate' task")
        asked = request.sampling
        self.check_prompt(request.input_ids)
        self._check_sampling(asked)
        self._check_media(request)
        self.adapters.check(request.lora)
        if request.constraint is not None and request.constraint.kind not in self.config.constraints:
            raise Refused(f"{request.constraint.kind} is not supported")
        if (request.data_parallel_rank or 0) >= self.config.ranks:
            raise Refused(f"data_parallel_rank {request.data_parallel_rank} is out of range [0, {self.config.ranks}).")
        room = self.context_length - len(request.input_ids)
        limit = min(room, asked.max_tokens or room)
        base_seed, prompt = self._base_seed(request), self.vocabulary.decode(request.input_ids)
        scripted = self.script.next(prompt)
        seeds = [f"{base_seed}/{0 if asked.temperature == 0 else index}" for index in range(asked.n)]
        if self.config.chained is not None and scripted is None and request.constraint is None:
            links = tuple(self._chained(request, limit, index, self.config.chained) for index in range(asked.n))
            return Plan(links, len(request.input_ids))
        shaped = scripted is None and request.constraint is not None
        reply = scripted or next((rule.reply for rule in self.config.rules if rule.fits(prompt)), None)
        choices = tuple(self._choice(request, prompt, reply, limit, seed, shaped=shaped) for seed in seeds)
        return Plan(choices, len(request.input_ids), None if shaped or reply is None else reply.fault)

    def _chained(self, request: EngineRequest, limit: int, index: int, length: int) -> Choice:
        """One choice of a chained reply."""
        asked = request.sampling
        self._words = self._words or tuple(sorted({token for text in self._pool for token in self._with_space(text)}))
        ids, seeds = chained(
            [*(request.lora or "").encode(), *request.input_ids],
            self._words,
            self.vocabulary.eos_ids[0],
            asked,
            length=length,
            limit=limit,
            choice=index,
        )
        finish: FinishReason = "stop" if ids and ids[-1] in self.vocabulary.eos_ids else "length"
        matched, end = self._stopped(ids, asked)
        if end is not None:
            del ids[end:]
            finish = "stop"
        return Choice(ids, finish, matched, row_seeds=seeds)

    def _with_space(self, text: str) -> tuple[int, ...]:
        return self.vocabulary.encode(f" {text}")

    def _base_seed(self, request: EngineRequest) -> str:
        """The seed of a request's answer: of its prompt, media and adapter, its own seed and the engine's."""
        digest = blake2b(request.input_ids.buffer, digest_size=8).hexdigest()
        return f"{self.config.seed}/{request.sampling.seed}/{digest}{_hashes(request)}{request.lora or ''}"

    def cached_tokens(self, request: EngineRequest) -> int:
        """How many leading tokens of the prompt the prefix cache has."""
        salt, lora = request.cache_salt or "", request.lora or ""
        return self.cache.lookup(request.input_ids, salt, media_spans(_seen(request)), lora)

    def store_prefix(self, request: EngineRequest, generated: Sequence[int]) -> list[CacheChange]:
        """Put the prompt, and what was generated after it, into the prefix cache; returns what changed there."""
        ids = [*request.input_ids, *generated]
        salt, lora = request.cache_salt or "", request.lora or ""
        return self.cache.store(ids, salt, media_spans(_seen(request)), lora)

    def _choice(
        self, request: EngineRequest, prompt: str, reply: Reply | None, limit: int, seed: str, *, shaped: bool
    ) -> Choice:
        """One choice: the reply's tokens and its end token, cut at the limit and at the first stop."""
        rng, asked = Random(seed), request.sampling
        draft = self._drafted(request, prompt, reply, rng, limit, shaped=shaped)
        ids, finish = [token for piece in draft.pieces for token in piece], draft.finish
        self._lengthen(ids, limit if asked.ignore_eos else min(asked.min_tokens or 0, limit), rng)
        if finish == "stop" and not asked.ignore_eos:
            ids.append(self.vocabulary.eos_ids[0])
        if len(ids) > limit or asked.ignore_eos:
            del ids[limit:]
            finish = "length"
        matched, end = self._stopped(ids, asked)
        if end is not None:
            del ids[end:]
            finish = "stop"
        ends = _ends(draft.pieces) if draft.parted else ()
        if ends:
            ends = (*[each for each in ends if each < len(ids)], len(ids))
        return Choice(ids, finish, matched, ends, rng.getrandbits(32), pauses=draft.pauses)

    def _drafted(
        self, request: EngineRequest, prompt: str, reply: Reply | None, rng: Random, limit: int, *, shaped: bool
    ) -> _Draft:
        """The reply before it is cut: what satisfies the request's constraint (`shaped`), `reply`, or what is made up."""
        if shaped and request.constraint is not None:
            try:
                text = self._shapes.text(request.constraint, rng)
            except Unfollowable as error:
                raise Refused(str(error)) from error
            if text is not None:
                return _Draft([self.vocabulary.encode(text)])
        thinking = prompt.endswith(_THINKING)
        if reply is None and self.config.call_tools:
            reply = called_tool(prompt, self._shapes, rng) or asked_fields(prompt, self._shapes, rng)
        if reply is None and _seen(request) and _SHAPES in prompt.casefold():
            reply = Reply(describe_media(_seen(request)))
        if reply is None and thinking:
            reply = Reply(text=self._free_text(rng), reasoning=self._free_text(rng))
        if reply is not None:
            return self._scripted(reply, thinking=thinking)
        ids: list[int] = []
        for at in range(rng.randint(*self.config.sentences)):
            ids += self._sentence(rng, first=not at)
        self._lengthen(ids, min(self.config.reply_tokens or 0, limit), rng)
        return _Draft([ids])

    def _scripted(self, reply: Reply, *, thinking: bool) -> _Draft:
        pieces = [self.vocabulary.encode(piece) for piece in reply.texts(thinking=thinking)]
        pauses = zip(
            _ends(pieces), [seconds for _, seconds in reply.pauses], strict=False
        )  # none behind the last piece
        return _Draft(pieces, reply.finish, tuple(pauses), parted=len(pieces) > 1 and not reply.pauses)

    def _free_text(self, rng: Random) -> str:
        return f"{rng.choice(self._pool)} {rng.choice(self._pool)}"

    def _sentence(self, rng: Random, *, first: bool = False) -> tuple[int, ...]:
        """The ids of one sentence. Joined, the ids of sentences equal those of the joined text, since no token spans a full
        stop and the space after it."""
        text = rng.choice(self._pool)
        return self.vocabulary.encode(text if first else f" {text}")

    def _lengthen(self, ids: list[int], least: int, rng: Random) -> None:
        """Append sentences until there are at least `least` ids."""
        while len(ids) < least:
            ids += self._sentence(rng)

    def _stopped(self, ids: list[int], asked: Sampling) -> tuple[str | int | None, int | None]:
        """The stop id or stop string that ends the reply first, and the number of tokens up to its end; (None, None) without
        one."""
        best: int | None = None
        least = asked.min_tokens or 0
        matched: str | int | None = None
        wanted = set(asked.stop_token_ids)
        if wanted:
            best = next((at + 1 for at, token in enumerate(ids) if token in wanted and at + 1 > least), None)
            matched = ids[best - 1] if best is not None else None
        if asked.stop:
            ended = self._stop_string(ids, asked)
            if ended is not None and (best is None or ended[1] < best):
                matched, best = ended
        return matched, best

    def _stop_string(self, ids: list[int], asked: Sampling) -> tuple[str, int] | None:
        """The stop string that is complete first, and the number of tokens up to its end. Stops within the first
        `min_tokens` do not count."""

        def text(count: int) -> str:
            return self.vocabulary.decode(ids[:count], skip_special_tokens=asked.skip_special_tokens)

        whole, before = text(len(ids)), len(text(asked.min_tokens)) if asked.min_tokens else 0
        places = [(whole.find(stop, max(0, before - len(stop) + 1)), stop) for stop in asked.stop if stop]
        found = [(at + len(stop), stop) for at, stop in places if at >= 0]
        if not found:
            return None
        end, stop = min(found)
        # a character whose last bytes are missing is there as one too, and it is another one
        complete = whole[:end]
        return stop, bisect_left(range(len(ids)), 1, key=lambda count: text(count).startswith(complete))

    # ------------------------------------------------------------------------------------------------------- logprobs

    def logprobs(self, choice: Choice, start: int, end: int, most: int) -> list[EngineLogprob]:
        """One row for each of the tokens `start` to `end` of a choice, with the `most` likeliest tokens, most likely first.

        The probabilities of a row sum to less than 1. The same choice gives the same rows.
        """
        if choice.row_seeds:
            return [self._logprob_row(choice.ids[at], f"{choice.row_seeds[at]}", most) for at in range(start, end)]
        return [self._logprob_row(choice.ids[at], f"{choice.logprob_seed}/{at}", most) for at in range(start, end)]

    def prompt_logprobs(self, ids: Sequence[int], most: int) -> list[EngineLogprob | None]:
        """One row for each token of a prompt; None for the first, which nothing predicts."""
        rows = [self._logprob_row(token, f"prompt/{at}/{token}", most) for at, token in enumerate(ids[1:])]
        return [None, *rows]

    def _logprob_row(self, token: int, seed: str, most: int) -> EngineLogprob:
        rng = Random(seed)
        share = 0.35 + 0.6 * rng.random()
        value = _log(share)
        top, left = [(token, value)], 1 - share
        named = list(self.config.alternatives)
        while len(top) < most:
            named_one = bool(named)
            other = named.pop(0) if named else rng.randrange(self.vocabulary.size)
            if any(other == known for known, _ in top):
                continue
            taken = left * (0.2 + 0.6 * rng.random() if named_one else 0.5)
            left -= taken
            top.append((other, _log(min(taken, share * 0.99))))
        return EngineLogprob(token, value, tuple(sorted(top, key=lambda pair: -pair[1])) if most > 0 else ())

    # -------------------------------------------------------------------------------------------------------- embeddings

    def pooled(self, ids: Sequence[int], types: Sequence[int] = ()) -> list[float]:
        """What its model makes of a prompt: a vector, or the raw numbers of its classes or of a pair, of which `types` tells
        the two texts apart. Raises Refused when it writes text, and for types that are not as many as the ids."""
        if self.config.generation_model or self.config.pooled == "embed":
            return self.embedding(ids)
        if types and (len(types) != len(ids) or not set(types) <= {0, 1}):
            raise Refused("token_type_ids must be 0 or 1, one for each id")
        self.check_prompt(ids[:-1] if len(ids) == self.context_length else ids)
        rng = Random(blake2b(bytes(str((list(ids), list(types))), "ascii"), digest_size=8).hexdigest())
        return [rng.gauss(0, 1) for _ in self.model_info().labels]

    def embedding(self, ids: Sequence[int]) -> list[float]:
        """A vector of norm 1 that depends on the ids alone. Raises Refused when it is no embedding model."""
        if self.config.generation_model or self.config.pooled != "embed":
            raise Refused("This model does not support the 'embed' task")
        self.check_prompt(
            ids[:-1] if len(ids) == self.context_length else ids
        )  # nothing follows: it may fill the context
        rng = Random(blake2b(bytes(str(list(ids)), "ascii"), digest_size=8).hexdigest())
        values = [rng.gauss(0, 1) for _ in range(self.config.embedding_size)]
        norm = sum(value * value for value in values) ** 0.5
        return [value / norm for value in values]


def _ends(pieces: Sequence[Sequence[int]]) -> tuple[int, ...]:
    ends, total = [], 0
    for piece in pieces:
        total += len(piece)
        ends.append(total)
    return tuple(ends)


def _seen(request: EngineRequest) -> Sequence[SeenMedia]:
    """The media that a `ServerCodec` has read into the request."""
    return cast("Sequence[SeenMedia]", request.multimodal or ())


def _hashes(request: EngineRequest) -> str:
    seen = _seen(request)
    return "".join(f"/{each}" for media in seen for each in media.hashes)


def _log(probability: float) -> float:
    return math.log(max(probability, 1e-12))
