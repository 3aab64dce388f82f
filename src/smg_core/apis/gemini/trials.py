"""The requests that generateContent is tried with. Pure. Above: the row of the API."""

from collections.abc import Iterator

from smg_core.json_types import Json, JsonObject
from smg_core.trials import CITY, PERSON, QUESTION, TOOL, WHO, ApiTrial, ApiTrials

__all__ = ["TRIALS"]


class _Gemini(ApiTrials):
    """The model stands in the path, and so does what is asked of it."""

    def request(self, model: str, fields: JsonObject, *, streamed: bool) -> tuple[str, JsonObject]:
        """The path and the body of one request."""
        path, body = super().request(model, fields, streamed=False)
        verb = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        rest = {name: value for name, value in body.items() if name != "model"}
        return f"{path}/{body['model']}:{verb}", rest


def _trials(model: str) -> Iterator[ApiTrial]:
    tools: Json = [{"functionDeclarations": [{**TOOL, "parametersJsonSchema": CITY}]}]
    asked: Json = {"role": "user", "parts": [{"text": QUESTION}]}
    hello: Json = [{"role": "user", "parts": [{"text": "Say hello."}]}]
    call: Json = {"name": "get_weather", "args": {"city": "Paris"}}
    result: Json = {"name": "get_weather", "response": {"result": "Sunny."}}
    turns: Json = [
        asked,
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": result}]},
    ]
    schema: Json = {"responseMimeType": "application/json", "responseJsonSchema": PERSON}
    yield "text", "text", {"contents": hello}
    demanded: Json = {"functionCallingConfig": {"mode": "ANY"}}
    yield "tool call", "call", {"contents": [asked], "tools": tools, "toolConfig": demanded}
    none: Json = {"functionCallingConfig": {"mode": "NONE"}}
    yield "two turns", "text", {"contents": turns, "tools": tools, "toolConfig": none}
    yield "JSON schema", "schema", {"contents": [{"parts": [{"text": WHO}]}], "generationConfig": schema}
    wishes: Json = {"responseLogprobs": True, "logprobs": 2}
    yield "logprobs", "logprobs", {"contents": hello, "generationConfig": wishes}
    yield "unknown role", "refusal", {"contents": [{"role": "wizard", "parts": [{"text": "x"}]}]}
    yield "no contents", "refusal", {}
    yield "unknown model", "refusal", {"model": f"{model}-that-nobody-serves", "contents": hello}


TRIALS = _Gemini("generate_content", "/v1beta/models", _trials, "maxOutputTokens", settings="generationConfig")
