"""vLLM's HTTP server as the embedded engine speaks it: bodies are read into our records, chunks written as vLLM writes them.

Decides how each message is put; pure. Above: server.http_server. The other side of engines.codecs.vllm.http_codec: the two
share no code, so that a fault of one shows at the other. A codec of this kind is made for each request, since the usage counts
what came before.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.codecs.base import ChoiceSlice
from smg_simulator.engine.adapters import Adapters
from smg_simulator.engine.engine import SimulatedModel
from smg_simulator.engine.refusal import Refused

__all__ = ["VllmHttpServerCodec", "VllmTokensServerCodec", "aborted_ids", "model_list"]


class _StreamOptions(Struct, forbid_unknown_fields=True):
    include_usage: bool = False


class _Body(Struct, forbid_unknown_fields=True):
    """The fields of `/v1/completions` that are read here. One that is not known is refused, which vLLM would pass over."""

    prompt: list[int]
    request_id: str
    return_token_ids: bool = False
    model: str | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    n: int = 1
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None
    return_tokens_as_token_ids: bool = False
    stream: bool = False
    stream_options: _StreamOptions | None = None
    structured_outputs: dict[str, Any] | None = None
    cache_salt: str | None = None


_BODIES = msgspec.json.Decoder(_Body)
_KINDS = {"json": "json_schema", "regex": "regex", "grammar": "grammar", "structural_tag": "structural_tag"}


class VllmHttpServerCodec:
    """`/v1/completions` for one request (`ServerCodec`, as far as a call needs it)."""

    service = "vllm-http"
    methods: Mapping[str, str] = {}
    unique_ids = replays = recalls = repeats_all = False
    ends_aborted = streams = True

    def __init__(self, model: str) -> None:
        self._model = model
        self._counted: dict[int, int] = {}
        self._prompt = self._cached = 0
        self._by_id = False

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        try:
            got = _BODIES.decode(message)
        except msgspec.DecodeError as error:
            raise Refused(str(error)) from error
        if got.n > 1 and got.temperature == 0:
            raise Refused(f"n must be 1 when using greedy sampling, got {got.n}.")
        if not got.stream or not got.return_token_ids:
            raise Refused("only streams of token ids are answered here")
        self._by_id = got.return_tokens_as_token_ids
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(got.prompt),
            sampling=_sampling(got),
            constraint=_constraint(got.structured_outputs),
            cache_salt=got.cache_salt,
            lora=None if got.model in (None, self._model) else got.model,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        return self._chunk(request_id, piece, piece.ids, None, None)

    def complete(
        self,
        request_id: str,
        piece: ChoiceSlice,
        *,
        finish: str,
        matched: str | int | None,
        streamed: bool,
        kv_transfer: str | None,
    ) -> list[bytes]:
        return [self._chunk(request_id, piece, (), finish, matched)]

    def ending(self, request_id: str) -> list[bytes]:
        """What follows the last choice: the usage, and the mark of the end."""
        made = sum(self._counted.values())
        usage = {
            "prompt_tokens": self._prompt,
            "completion_tokens": made,
            "total_tokens": self._prompt + made,
            "prompt_tokens_details": {"cached_tokens": self._cached},
        }
        return [json.dumps({"id": f"cmpl-{request_id}", "choices": [], "usage": usage}).encode(), b"[DONE]"]

    def failure(self, code: str, message: str) -> bytes | None:
        return json.dumps({"error": {"message": message, "type": "InternalServerError", "code": 500}}).encode()

    def _chunk(
        self, request_id: str, piece: ChoiceSlice, ids: Sequence[int], finish: str | None, matched: str | int | None
    ) -> bytes:
        self._prompt, self._cached = piece.prompt_tokens, piece.cached_tokens
        self._counted[piece.index] = piece.completion_tokens
        choice = {
            "index": piece.index,
            "text": "",
            "token_ids": list(ids),
            "logprobs": self._logprobs(piece) if piece.logprobs and ids else None,
            "finish_reason": finish,
            "stop_reason": matched,
        }
        return json.dumps(
            {"id": f"cmpl-{request_id}", "object": "text_completion", "model": self._model, "choices": [choice]}
        ).encode()

    def _logprobs(self, piece: ChoiceSlice) -> dict[str, object]:
        rows = piece.logprobs
        tops = [dict([(row.token_id, row.logprob), *row.top]) for row in rows]
        return {
            "tokens": [self._name(row.token_id) for row in rows],
            "token_logprobs": [row.logprob for row in rows],
            "top_logprobs": [{self._name(token): value for token, value in top.items()} for top in tops],
            "text_offset": [0] * len(rows),
        }

    def _name(self, token: int) -> str:
        return f"token_id:{token}" if self._by_id else "?"


class _Params(Struct, forbid_unknown_fields=True):
    """The sampling parameters of `/inference/v1/generate` that are read here."""

    detokenize: bool = True
    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    n: int = 1
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    logit_bias: dict[int, float] | None = None
    logprobs: int | None = None
    structured_outputs: dict[str, Any] | None = None


class _TokensBody(Struct, forbid_unknown_fields=True):
    request_id: str
    token_ids: list[int]
    sampling_params: _Params
    model: str | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    cache_salt: str | None = None


_TOKENS_BODIES = msgspec.json.Decoder(_TokensBody)


class VllmTokensServerCodec(VllmHttpServerCodec):
    """`/inference/v1/generate` for one request."""

    service = "vllm-tokens-http"

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        try:
            got = _TOKENS_BODIES.decode(message)
        except msgspec.DecodeError as error:
            raise Refused(str(error)) from error
        asked = got.sampling_params
        if asked.stop and not asked.detokenize:
            raise Refused("stop strings are only supported when detokenize is True")
        if asked.n > 1 and asked.temperature == 0:
            raise Refused(f"n must be 1 when using greedy sampling, got {asked.n}.")
        if not got.stream:
            raise Refused("only streams are answered here")
        return EngineRequest(
            id=got.request_id,
            input_ids=TokenIds(got.token_ids),
            sampling=Sampling(
                max_tokens=asked.max_tokens,
                min_tokens=asked.min_tokens or None,
                temperature=asked.temperature,
                top_p=asked.top_p,
                top_k=asked.top_k or None,
                min_p=asked.min_p or None,
                frequency_penalty=asked.frequency_penalty or None,
                presence_penalty=asked.presence_penalty or None,
                repetition_penalty=asked.repetition_penalty,
                seed=asked.seed,
                stop=tuple(asked.stop),
                stop_token_ids=tuple(asked.stop_token_ids),
                ignore_eos=asked.ignore_eos,
                include_stop=asked.include_stop_str_in_output,
                logit_bias=asked.logit_bias,
                n=asked.n,
                logprobs=asked.logprobs,
            ),
            constraint=_constraint(asked.structured_outputs),
            cache_salt=got.cache_salt,
            lora=None if got.model in (None, self._model) else got.model,
        )

    def _logprobs(self, piece: ChoiceSlice) -> dict[str, object]:
        return {"content": [_row(row) for row in piece.logprobs]}


def _row(row: EngineLogprob) -> dict[str, object]:
    top = [{"token_id": token, "logprob": value, "rank": None} for token, value in row.top]
    return {"token_id": row.token_id, "logprob": row.logprob, "rank": None, "top_logprobs": top}


def aborted_ids(message: bytes) -> set[str]:
    """The requests that a body of `/inference/v1/abort_requests` names. Raises Refused."""
    try:
        return set(msgspec.json.decode(message, type=dict[str, list[str]])["request_ids"])
    except (msgspec.DecodeError, KeyError) as error:
        raise Refused("requests to abort are named by request_ids") from error


def model_list(info: SimulatedModel, adapters: Adapters) -> bytes:
    """The answer to `/v1/models`, with the fields of all dialects: the model, and its adapters."""
    model = {
        "id": info.model,
        "object": "model",
        "root": info.tokenizer_path,
        "max_model_len": info.context_length,
        "meta": {"n_ctx": info.context_length, "n_vocab": info.vocab_size},
    }
    held = [{"id": each.id, "object": "model", "root": each.path, "parent": info.model} for each in adapters]
    return json.dumps({"object": "list", "data": [model, *held]}).encode()


def _sampling(got: _Body) -> Sampling:
    return Sampling(
        max_tokens=got.max_tokens,
        min_tokens=got.min_tokens or None,
        temperature=got.temperature,
        top_p=got.top_p,
        top_k=got.top_k,
        min_p=got.min_p,
        frequency_penalty=got.frequency_penalty,
        presence_penalty=got.presence_penalty,
        repetition_penalty=got.repetition_penalty,
        seed=got.seed,
        stop=tuple(got.stop),
        stop_token_ids=tuple(got.stop_token_ids),
        ignore_eos=got.ignore_eos,
        skip_special_tokens=got.skip_special_tokens,
        include_stop=got.include_stop_str_in_output,
        logit_bias={int(token): bias for token, bias in (got.logit_bias or {}).items()} or None,
        n=got.n,
        logprobs=got.logprobs,
    )


def _constraint(asked: dict[str, Any] | None) -> Constraint | None:
    if asked is None:
        return None
    if len(asked) != 1:
        raise Refused("structured_outputs has one kind of constraint")
    ((kind, value),) = asked.items()
    if kind == "choice":
        return Constraint("choice", choices=tuple(value))
    if kind == "json_object":
        return Constraint("json_object")
    if kind not in _KINDS:
        raise Refused(f"structured_outputs knows no {kind!r}")
    return Constraint(_KINDS[kind], value if isinstance(value, str) else json.dumps(value))
