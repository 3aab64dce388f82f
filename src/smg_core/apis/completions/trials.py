"""The requests that Completions is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json
from smg_core.trials import PERSON, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


def _trials(model: str) -> Iterator[ApiTrial]:
    schema: Json = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
    yield "text", "text", {"prompt": "Say hello."}
    yield "token ids", "text", {"prompt": [1, 2, 3]}
    yield "JSON schema", "schema", {"prompt": WHO, "response_format": schema}
    yield "logprobs", "logprobs", {"prompt": "Say hello.", "logprobs": 2}
    yield "no prompt", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "prompt": "Hello"}


TRIALS = ApiTrials(
    "completions",
    "/v1/completions",
    _trials,
    "max_tokens",
    streamed={"stream_options": {"include_usage": True}},
)
