"""SGLang's HTTP server as the embedded engine speaks it: bodies are read into our records, chunks written as SGLang writes them.

Decides how each message is put; pure. Above: server.http_server. The other side of engines.codecs.sglang.http_codec: the
two share no code, so that a fault of one shows at the other. A codec of this kind is made for each request, since a chunk
holds all ids so far, unless the server was started to send new ones only.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.codecs.base import ChoiceEnd, ChoiceSlice, EngineState, given_fields, set_fields, stop_fields
from smg_simulator.codecs.http_bodies import HttpAnswers, PlainNumbers, read_json_body
from smg_simulator.engine.refusal import Refused

__all__ = ["SglangHttpServerCodec", "aborted_id", "server_info"]


class _Params(PlainNumbers, kw_only=True, forbid_unknown_fields=True):
    """The sampling parameters of `/generate` that are read here."""

    max_new_tokens: int | None = 128
    min_new_tokens: int = 0
    top_k: int = -1
    sampling_seed: int | None = None
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    logit_bias: dict[str, float] | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | None = None


class _Body(Struct, forbid_unknown_fields=True):
    """The fields of `/generate` that are read here; one that is not known is refused."""

    rid: str
    input_ids: list[int]
    sampling_params: _Params
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int = -1
    top_logprobs_num: int = 0
    lora_path: str | None = None
    extra_key: str | None = None
    data_parallel_rank: int | None = None


_BODIES = msgspec.json.Decoder(_Body)
_KINDS = {"json_schema": "json_schema", "regex": "regex", "ebnf": "grammar", "structural_tag": "structural_tag"}


class SglangHttpServerCodec(HttpAnswers):
    """`/generate` for one request. `incremental`: chunks hold new ids only."""

    service = "sglang-http"

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._ids: list[int] = []
        self._rows: list[EngineLogprob] = []

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = read_json_body(_BODIES, message)
        if not got.stream:
            raise Refused("only streams are answered here")
        return EngineRequest(
            id=got.rid,
            input_ids=TokenIds(got.input_ids),
            sampling=_sampling(got),
            constraint=_constraint(got.sampling_params),
            data_parallel_rank=got.data_parallel_rank,
            cache_salt=got.extra_key,
            lora=got.lora_path,
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        return self._chunk(request_id, piece, piece.ids, None)

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        reason: dict[str, object] = {"type": end.finish}
        if end.finish == "stop":
            ended_by = piece.ids[-1] if piece.ids else None  # the end token
            reason["matched"] = ended_by if end.matched is None else end.matched
        return [self._chunk(request_id, piece, (), reason)]

    def ending(self, request_id: str) -> list[bytes]:
        """What follows the last chunk: the mark of the end."""
        return [b"[DONE]"]

    def _chunk(
        self, request_id: str, piece: ChoiceSlice, ids: Sequence[int], finish: dict[str, object] | None
    ) -> bytes:
        new_rows = list(piece.logprobs) if ids else []
        self._ids += ids
        self._rows += new_rows
        rows = new_rows if self._incremental else self._rows
        meta: dict[str, object] = {
            "id": request_id,
            "finish_reason": finish,
            "prompt_tokens": piece.prompt_tokens,
            "completion_tokens": piece.completion_tokens,
            "cached_tokens": piece.cached_tokens,
        }
        if rows:
            meta["output_token_logprobs"] = [_row(each) for each in rows]
            meta["output_top_logprobs"] = [_top(each) for each in rows]
        if piece.prompt_logprobs:
            prompt = piece.prompt_logprobs
            meta["input_token_logprobs"] = [_first() if each is None else _row(each) for each in prompt]
            meta["input_top_logprobs"] = [None if each is None else _top(each) for each in prompt]
        output = list(ids) if self._incremental else self._ids
        return json.dumps({"text": "", "output_ids": output, "meta_info": meta}).encode()


def _row(row: EngineLogprob) -> list[object]:
    return [row.logprob, row.token_id, None]


def _first() -> list[object]:
    return [None, 0, None]


def _top(row: EngineLogprob) -> list[list[object]]:
    return [[value, token, None] for token, value in row.top]


def aborted_id(message: bytes) -> str:
    """The request that a body of `/abort_request` names. Raises Refused."""
    try:
        asked: dict[str, Any] = msgspec.json.decode(message, type=dict[str, Any])
        return str(asked["rid"])
    except (msgspec.DecodeError, KeyError) as error:
        raise Refused("a request to abort is named by rid") from error


def server_info(state: EngineState) -> bytes:
    """The answer to `/get_server_info`."""
    info = {
        "context_length": state.context_length,
        "page_size": state.block_size,
        "dp_size": state.ranks,
        "version": "simulator",
    }
    return json.dumps(info).encode()


def _sampling(got: _Body) -> Sampling:
    params, scored = got.sampling_params, got.return_logprob
    return Sampling(
        max_tokens=params.max_new_tokens,
        min_tokens=params.min_new_tokens or None,
        **given_fields(params, "temperature", "top_p", "top_k", "repetition_penalty", "skip_special_tokens"),
        **set_fields(params, "min_p", "frequency_penalty", "presence_penalty"),
        **stop_fields(params),
        seed=params.sampling_seed,
        include_stop=params.no_stop_trim,
        logit_bias={int(token): bias for token, bias in (params.logit_bias or {}).items()} or None,
        logprobs=got.top_logprobs_num if scored else None,
        prompt_logprobs=got.top_logprobs_num if scored and got.logprob_start_len >= 0 else None,
    )


def _constraint(params: _Params) -> Constraint | None:
    for field, kind in _KINDS.items():
        if (value := getattr(params, field)) is not None:
            return Constraint(kind, value)
    return None
