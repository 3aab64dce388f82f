"""The stages that a trace shows, and the attributes of its spans: the table that documentation and tests are held to.

Names are those of OpenTelemetry's semantic conventions (HTTP, GenAI) where there are such, else begin with "smg.". Pure. Above:
`spans`. Below: nothing.
"""

from collections.abc import Mapping

__all__ = ["ATTRIBUTES", "EVENTS", "STAGES"]

STAGES: Mapping[str, str] = {
    "queue": "From the request's head until it is decoded and admitted; in the background, until its work begins",
    "render": "The chat template",
    "encode": "The prompt's text becomes tokens",
    "media": "Pictures, clips and recordings are fetched, processed and placed",
    "select": "A policy chooses a worker, for each role",
    "first_token": "From the engine's call to its first output, of an answer that comes in pieces",
    "decode": "From the first output to the end of the call",
    "store": "One call of the history",
    "execute_tool": "One call of a tool that runs in the gateway",
    "turn": "One generation of a response that has several, with its stages and the tools that were called after it",
    "prompt": "One prompt of a request that has several, with its stages",
}
"""The spans below that of a request, beside the calls of engines; `execute_tool` and `store` have the tool's or the call's name
behind theirs."""

EVENTS: Mapping[str, str] = {
    "retry": "The call failed, and another worker is asked",
    "migration": "The answer goes on with another worker",
    "hedge": "The answer was late, and another worker was asked too",
    "format_violation": "The text of a choice broke the format that was asked for",
    "reasoning_left_out": "Sealed reasoning did not open, and is not in the prompt",
}

ATTRIBUTES: Mapping[str, str] = {
    "client.address": "Address of the client",
    "error.type": "Class of the error; on an HTTP span of a client's fault too, whose status stays unset",
    "gen_ai.input.messages": "The prompt's last messages, as JSON; only with `traces.content`",
    "gen_ai.operation.name": "`chat`, `text_completion`, `generate_content`, `embeddings`, or `execute_tool`",
    "gen_ai.output.messages": "The answers' beginnings, as JSON; only with `traces.content`",
    "gen_ai.provider.name": "Dialect of the engine: `vllm`, `sglang`, `openai`, ...",
    "gen_ai.request.choice.count": "Choices, where more than one is asked for",
    "gen_ai.request.frequency_penalty": "As the client asked",
    "gen_ai.request.max_tokens": "As the client asked",
    "gen_ai.request.model": "The model as the client named it; on a call the served model",
    "gen_ai.request.presence_penalty": "As the client asked",
    "gen_ai.request.seed": "As the client asked",
    "gen_ai.request.stream": "Whether the answer is streamed",
    "gen_ai.request.temperature": "As the client asked",
    "gen_ai.request.top_k": "As the client asked",
    "gen_ai.request.top_p": "As the client asked",
    "gen_ai.response.finish_reasons": "Why each choice ended",
    "gen_ai.response.id": "Id of the response",
    "gen_ai.response.model": "First name of the served model",
    "gen_ai.response.time_to_first_chunk": "Seconds to the first output",
    "gen_ai.tool.name": "Name of the tool, where its server offers one of this name",
    "gen_ai.usage.cache_read.input_tokens": "Tokens of the prompt that the engine had in its cache",
    "gen_ai.usage.input_tokens": "Tokens of the prompt",
    "gen_ai.usage.output_tokens": "Tokens of the answer",
    "gen_ai.usage.reasoning.output_tokens": "Those of them that are reasoning",
    "http.request.method": "Method; `_OTHER` for one that is not HTTP's",
    "http.response.body.size": "Bytes of the answer's body",
    "http.response.status_code": "Status",
    "http.route": "Pattern of the route",
    "smg.api": "API: `chat`, `messages`, `responses`, ...",
    "smg.attempts": "Calls of engines",
    "smg.cached_characters": "Characters of the prompt that the tokenizer's cache had",
    "smg.cached_tokens.basis": "How that is known: `exact` or `approximate`",
    "smg.cached_tokens.expected": "Tokens that the policy expects in the worker's cache",
    "smg.call.attempt": "Number of the try, from 1",
    "smg.choice": "Index of the choice",
    "smg.client_request_id": "The client's own id of the request",
    "smg.delay": "Seconds after which an answer was late",
    "smg.guardrail.outcome": "`passed`, `masked`, `blocked` or `failed`",
    "smg.guardrail.place": "What the guardrail was shown: `input`, `output` or `arguments`",
    "smg.inexact": "Why the rest may differ from what the first engine would have said",
    "smg.media.count": "How many media",
    "smg.mended": "Whether the text was mended",
    "smg.outcome": "How it ended: `ok`, `client_gone`, `abandoned`, `outrun`, or the error's class",
    "smg.policy": "Name of the policy",
    "smg.rank": "Data-parallel rank that was chosen",
    "smg.reasons": "The reasons, one for each piece",
    "smg.request_id": "The gateway's id of the request, as in the log and the answer",
    "smg.retry.delay": "Seconds until the next try",
    "smg.role": "What the worker computes: `regular`, `prefill`, `decode`, `encode`, `embedding`",
    "smg.server": "Label of the tool's server",
    "smg.spans.dropped": "Spans of this request that are over `traces.spans`",
    "smg.store.method": "Method of the history",
    "smg.tenant": "The caller's tenant",
    "smg.to": "Name of the worker that was asked too",
    "smg.tokens": "Tokens that had come",
    "smg.transport": "`grpc` or `http`",
    "smg.turn": "Number of the turn or the prompt, from 1",
    "smg.worker": "Name of the worker; on a request, the last one",
    "smg.worker.next": "Name of the worker that goes on",
    "url.path": "Path, without the query",
}
