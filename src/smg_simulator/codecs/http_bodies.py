"""Common parts of the HTTP bodies of several engines, as the embedded engine reads and writes them.

Above: the codecs of `vllm_http`, `sglang_http` and `llamacpp`. Below: `base`. Decides nothing; pure.
"""

import json
from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import Struct

from smg_simulator.engine.refusal import Refused

__all__ = ["HttpAnswers", "OptionalNumbers", "PlainNumbers", "read_json_body"]

B = TypeVar("B")


class OptionalNumbers(Struct, kw_only=True, forbid_unknown_fields=True):
    """Numbers of sampling that a body may leave out, each for the server to choose."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None


class PlainNumbers(Struct, kw_only=True, forbid_unknown_fields=True):
    """The same where each has a value that changes nothing, and what ends an answer."""

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: list[str] = []
    stop_token_ids: list[int] = []
    ignore_eos: bool = False


class HttpAnswers:
    """The habits of a dialect over HTTP (`ServerCodec`, as far as a call needs it). `fault`: the name of its own errors."""

    methods: Mapping[str, str] = {}
    unique_ids = replays = recalls = repeats_all = False
    ends_aborted = streams = True
    fault = "InternalServerError"

    def failure(self, code: str, message: str) -> bytes | None:
        return json.dumps({"error": {"message": message, "type": self.fault, "code": 500}}).encode()


def read_json_body(decoder: msgspec.json.Decoder[B], message: bytes) -> B:
    """The body of a request. Raises Refused for one that cannot be read."""
    try:
        return decoder.decode(message)
    except msgspec.DecodeError as error:
        raise Refused(str(error)) from error
