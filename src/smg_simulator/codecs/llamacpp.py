"""llama.cpp's HTTP server as the embedded engine speaks it: bodies are read into our records, messages written as that server
writes them.

Decides how each message is put; pure. Above: server.http_server. The other side of engines.codecs.llamacpp.http_codec: the
two share no code, so that a fault of one shows at the other. A codec of this kind is made for each request. Like the real
server, a stream names one id a message and leaves out those of a character that is not complete; a whole answer names all.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from smg_core.engines.base import EngineLogprob, EngineRequest
from smg_core.engines.constraint import Constraint
from smg_core.request import Sampling
from smg_core.tokens import TokenIds
from smg_simulator.codecs.base import ChoiceEnd, ChoiceSlice, given_fields
from smg_simulator.codecs.http_bodies import HttpAnswers, OptionalNumbers, read_json_body
from smg_simulator.engine.refusal import Refused

__all__ = ["LlamaCppServerCodec"]

_BETWEEN = b"\n\ndata: "
"""Joins several events into one write."""


class _Body(OptionalNumbers, kw_only=True, forbid_unknown_fields=True):
    """The fields of `/completion` that are read here. One that is not known is refused, which the real server would pass over."""

    prompt: list[int]
    stream: bool = False
    return_tokens: bool = False
    response_fields: list[str] = msgspec.field(default_factory=list)
    n_predict: int = -1
    repeat_penalty: float | None = None
    repeat_last_n: int = 64
    ignore_eos: bool = False
    logit_bias: list[tuple[int, float]] = msgspec.field(default_factory=list)
    n_probs: int = 0
    json_schema: dict[str, Any] | None = None
    grammar: str | None = None


_BODIES = msgspec.json.Decoder(_Body)


class LlamaCppServerCodec(HttpAnswers):
    """`/completion` for one request. `decode` gives the text of ids; `name` is the id
    of the request, which its body has none for. `streams`: the answer is a stream of events, else one object."""

    service = "llamacpp-http"
    fault = "server_error"

    def __init__(self, name: str, decode: Callable[[Sequence[int]], str]) -> None:
        self._name = name
        self._decode = decode
        self._made: list[int] = []
        self._rows: list[EngineLogprob] = []
        self._written_ids = 0  # ids whose text was written
        self._fields: frozenset[str] = frozenset()
        self.streams = True

    def request(self, message: bytes, encode: Callable[[str], Sequence[int]]) -> EngineRequest:
        got = read_json_body(_BODIES, message)
        if got.repeat_last_n < 0:
            raise Refused("Field 'repeat_last_n': Value must not be negative")
        if not got.return_tokens:
            raise Refused("only token ids are answered here")
        self.streams = got.stream
        self._fields = frozenset(got.response_fields)
        return EngineRequest(
            id=self._name,
            input_ids=TokenIds(got.prompt),
            sampling=_sampling(got),
            constraint=_constraint(got),
        )

    def chunk(self, request_id: str, piece: ChoiceSlice) -> bytes:
        """An event for each token whose text is complete with it."""
        rows: Sequence[EngineLogprob | None] = piece.logprobs or [None] * len(piece.ids)
        events = []
        for token, row in zip(piece.ids, rows, strict=True):
            self._made.append(token)
            text = self._decode(self._made[self._written_ids :])
            if text.endswith("\ufffd"):
                continue  # a part of a character
            self._written_ids = len(self._made)
            if row is not None:
                self._rows.append(row)
            if self.streams:
                events.append(self._event(piece, token, text, row))
        return _BETWEEN.join(events)

    def _event(self, piece: ChoiceSlice, token: int, text: str, row: EngineLogprob | None) -> bytes:
        event: dict[str, object] = {
            "index": 0,
            "content": text,
            "tokens": [token],
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": len(self._made),
            "tokens_evaluated": piece.prompt_tokens,
        }
        if row is not None:
            event["completion_probabilities"] = [_row(row)]
        return json.dumps(event).encode()

    def complete(self, request_id: str, piece: ChoiceSlice, end: ChoiceEnd) -> list[bytes]:
        last: dict[str, object] = {
            "index": 0,
            "content": "" if self.streams else self._decode(self._made),
            "tokens": [] if self.streams else self._made,
            "id_slot": 0,
            "stop": True,
            "model": "sim",
            "tokens_predicted": len(self._made),
            "tokens_evaluated": piece.prompt_tokens,
            "generation_settings": {"n_probs": 0},
            "prompt": "",
            "truncated": False,
            "stop_type": {"stop": "eos", "length": "limit"}.get(end.finish, "none"),
            "stopping_word": "",
            "tokens_cached": piece.prompt_tokens + len(self._made),
            "timings": {"cache_n": piece.cached_tokens, "prompt_n": piece.prompt_tokens - piece.cached_tokens},
        }
        if self._rows and not self.streams:
            last["completion_probabilities"] = [_row(each) for each in self._rows]
        if self._fields:
            last = {name: value for name, value in last.items() if name in self._fields}
        return [json.dumps(last).encode()]

    def ending(self, request_id: str) -> list[bytes]:
        """What follows the last message: nothing."""
        return []


def _row(row: EngineLogprob) -> dict[str, object]:
    top = [{"id": token, "token": "", "bytes": [], "logprob": value} for token, value in row.top]
    return {"id": row.token_id, "token": "", "bytes": [], "logprob": row.logprob, "top_logprobs": top}


def _sampling(got: _Body) -> Sampling:
    return Sampling(
        max_tokens=None if got.n_predict < 0 else got.n_predict,
        **given_fields(got, "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "seed"),
        repetition_penalty=got.repeat_penalty,
        ignore_eos=got.ignore_eos,
        logit_bias=dict(got.logit_bias) or None,
        logprobs=got.n_probs or None,
    )


def _constraint(got: _Body) -> Constraint | None:
    if got.grammar is not None:
        return Constraint("grammar", got.grammar)
    return None if got.json_schema is None else Constraint("json_schema", json.dumps(got.json_schema))
