"""Settings of a request's parts: time-outs, shared engines, formats, tools run here, pooled work.

Records of settings: `config` gathers them, with those of the other rooms. Below: `settings`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from smg_core.settings import ConfigError, bound, option

__all__ = ["DisaggregationConfig", "McpConfig", "PoolingConfig", "StructuredConfig", "TimeoutsConfig"]


@attrs.frozen
class TimeoutsConfig:
    """The time that each part of a request may take, and the bounds of times that requests ask for; see
    [Time-outs](timeouts.md)."""

    connect_s: float = option(
        5.0, "Seconds to get a connection to an engine; then another engine is tried.", at_least=0.01, at_most=600
    )
    first_token_s: float = option(
        120.0,
        "Seconds from asking an engine to its first token, queue and prefill; then another engine is tried.",
        at_least=0.05,
        at_most=86400,
    )
    token_s: float = option(
        60.0,
        "Seconds between two tokens of an engine; then another engine is tried, or goes on with an answer that has begun.",
        at_least=0.05,
        at_most=86400,
    )
    request_s: float | None = option(
        600.0,
        "Seconds that a request whose answer leaves whole may take, over all engines that are tried; null for any.",
        at_least=0.05,
        at_most=604800,
    )
    stream_s: float | None = option(
        None,
        "Seconds that a request whose answer is streamed may take, over all engines that are tried; without it, any.",
        at_least=0.05,
        at_most=604800,
    )
    write_s: float = option(
        60.0, "Seconds a client may take nothing of an answer that waits for it.", at_least=0.1, at_most=86400
    )
    silence_s: float = option(
        15.0,
        "Seconds without a word after which a stream that has begun gets its API's keep-alive; 0 for never.",
        at_least=0,
        at_most=86400,
    )
    commit_s: float | None = option(
        None,
        "Seconds after which the head of a streamed answer goes out before its first token, for proxies that wait no longer: "
        "from then on errors come in the stream, and no other model stands in (routing.fallbacks); other engines are still "
        "tried. Without it, the first token brings the head.",
        at_least=0.05,
        at_most=86400,
    )
    models: tuple[str, ...] = option(
        (),
        "A time-out of one model, before those of all models, as NAME=TIMEOUT:SECONDS (llama=first_token:300); without "
        "SECONDS there is none (llama=request:); may be repeated.",
    )
    least_s: float = bound(
        0.05, "Least seconds that a request's header may set for any time-out.", at_least=0.001, at_most=3600
    )
    connect_most_s: float = bound(
        60.0, "Most seconds that a request's header x-smg-connect-timeout may set.", at_least=0, at_most=604800
    )
    first_token_most_s: float = bound(
        3600.0, "Most seconds that a request's header x-smg-first-token-timeout may set.", at_least=0, at_most=604800
    )
    token_most_s: float = bound(
        3600.0, "Most seconds that a request's header x-smg-token-timeout may set.", at_least=0, at_most=604800
    )
    request_most_s: float = bound(
        86400.0, "Most seconds that a request's header x-smg-request-timeout may set.", at_least=0, at_most=604800
    )
    write_most_s: float = bound(
        600.0, "Most seconds that a request's header x-smg-write-timeout may set.", at_least=0, at_most=604800
    )

    def of_models(self) -> Mapping[str, "TimeoutsConfig"]:
        """These time-outs for each model of `models`. Raises ConfigError for what is no time-out of a model."""
        found: dict[str, TimeoutsConfig] = {}
        for entry in self.models:
            model, _, bound = entry.rpartition("=")
            timeout, _, text = bound.partition(":")
            if not model or timeout not in _OF_MODELS:
                known = f"NAME=TIMEOUT:SECONDS, TIMEOUT one of {', '.join(_OF_MODELS)}"
                raise ConfigError(f"timeouts.models: {entry}: expected {known}")
            try:
                seconds: Any = float(text) if text else None
                found[model] = attrs.evolve(found.get(model, self), **{f"{timeout}_s": seconds})
            except ValueError as error:
                raise ConfigError(f"timeouts.models: {entry}: {error}") from None
        return found


_OF_MODELS = ("connect", "first_token", "token", "request", "stream", "write")


@attrs.frozen
class DisaggregationConfig:
    """Requests that several engines work on: one reads the prompt, another writes the answer, others encode media; see
    [Prefill and decode](prefill-decode.md)."""

    without_prefill: Literal["fail", "decode_alone"] = option(
        "fail",
        "What becomes of a request for a model of decode engines while no prefill engine of it is ready: fail answers 503, "
        "decode_alone has the decode engine read the prompt too.",
    )
    without_encode: Literal["fail", "prefill_alone"] = option(
        "fail",
        "What becomes of a request with media for a model that has encode engines while none of them is ready: fail answers "
        "503, prefill_alone has the prefill engine encode the media too.",
    )
    encode_s: float = bound(
        10.0,
        "Seconds that an encode engine may take to accept a medium; then another one is tried.",
        at_least=0.05,
        at_most=3600,
    )
    local_tokens: int = option(
        0,
        "Tokens of a prompt, at most, that a decode engine may lack in its cache to read the prompt itself, without a prefill "
        "engine; 0: prefill engines read all prompts. For engines of vLLM and of the neutral contract.",
        at_least=0,
        at_most=1 << 22,
    )
    local_queue_tokens: int = bound(
        8192,
        "Prompt tokens that wait at the least busy prefill engine, beyond those at the decode engine, for which disaggregation."
        "local_tokens counts once more; 0: it counts once, whatever waits.",
        at_least=0,
        at_most=1 << 30,
    )
    transfer_cost: float = bound(
        0.0,
        "What it costs to hand the cache of a prompt's token to an engine on another host, as a share of reading the token; both "
        "engines are chosen with it in mind.",
        at_least=0,
        at_most=100,
    )
    transfer_s: float = bound(
        30.0,
        "Seconds from the end of the prefill to the first token, in which the cache goes from one engine to the other; then "
        "another pair is tried.",
        at_least=0.05,
        at_most=3600,
    )
    end_s: float = bound(
        1.0,
        "Seconds that a prefill engine may take to say that it is done after the other engine's first token, which is held back "
        "as long.",
        at_least=0.01,
        at_most=600,
    )


@attrs.frozen
class StructuredConfig:
    """Answers that are to be of a format: JSON, or JSON of a schema."""

    on_violation: Literal["report", "error", "repair"] = option(
        "report",
        "What becomes of an answer that is not of the format: report gives the text as it is, with x-smg-format-violation in the "
        "head of an answer that leaves whole; error answers 422; repair mends what is sure (a cut, a code fence, words behind "
        "the JSON) and reports the rest. With error and repair, JSON may also be asked of engines that cannot be held to it.",
    )


@attrs.frozen
class McpConfig:
    """Tools that the gateway runs for the model, by the Model Context Protocol; see [Tools in the gateway](mcp.md)."""

    config: str | None = option(
        None,
        "File that describes the servers of tools, their policies and credentials (YAML); without it and without "
        "mcp.request_servers, the gateway runs no tool.",
    )
    request_servers: bool = option(
        False,
        "Whether a request may name servers of its own by their URL; they are reached from the gateway's network.",
    )
    chat: bool = option(
        False,
        "Whether Chat Completions takes servers of tools (type mcp) too, which is an extension of that API.",
    )
    serve: Literal["off", "stateless", "sessions"] = option(
        "off",
        "Whether this gateway is an MCP server itself, at /mcp, with the tools of mcp.config and the program's functions; "
        "sessions: clients may have one, by which they are told of changes and cancel calls.",
    )
    serve_batch: int = bound(
        32,
        "Most messages that one body may have at /mcp, in the versions of the protocol that allow several.",
        at_least=1,
        at_most=1000,
    )
    serve_page: int = bound(
        256, "Tools, resources or prompts of one page of a list at /mcp.", at_least=1, at_most=100_000
    )
    serve_streams: int = bound(
        256,
        "Most clients of /mcp that are told of changes at the same time, in one process.",
        at_least=0,
        at_most=100_000,
    )
    serve_watch_s: float = bound(
        5.0, "Seconds after which a client of /mcp that is told of changes hears of one.", at_least=0.01, at_most=3600
    )
    turns: int = option(
        16, "Most turns of the model in one response; then it ends incomplete.", at_least=1, at_most=10_000
    )
    calls: int = bound(
        64, "Most calls of tools in one response, whatever max_tool_calls says.", at_least=1, at_most=10_000
    )
    at_once: int = bound(8, "Calls of tools in one turn that run at the same time.", at_least=1, at_most=1000)
    loop_s: float | None = bound(
        600.0,
        "Seconds from the beginning of a request after which no further turn begins; null for any.",
        at_least=0.05,
        at_most=604800,
    )
    servers: int = bound(16, "Most servers of tools in one request.", at_least=1, at_most=1000)
    tools: int = bound(
        512, "Most tools that the servers of tools may offer to one request.", at_least=1, at_most=100_000
    )
    search_from: int | None = bound(
        128,
        "From how many tools on a model is offered a search in place of tools: for the servers with the most of them, as many "
        "as it takes to stay below; null for never.",
        at_least=1,
        at_most=100_000,
    )
    lists: int = bound(
        64, "Lists of servers' tools that are kept, one for each server and tenant.", at_least=1, at_most=100_000
    )
    search_indexes: int = bound(
        16, "Indexes of tools that are kept, one for each set of tools that was searched.", at_least=1, at_most=10_000
    )
    progress: int = bound(
        100,
        "Most notifications of progress that are passed on to the client for one call of a tool.",
        at_least=0,
        at_most=100_000,
    )


@attrs.frozen
class PoolingConfig:
    """Embeddings: what one request may ask for, and how its inputs are spread over engines; see [Embeddings](embeddings.md)."""

    inputs: int = bound(2048, "Most inputs of one request.", at_least=1, at_most=1 << 20)
    tokens: int = bound(
        1_000_000, "Most tokens of one request, all of its inputs together.", at_least=1, at_most=1 << 30
    )
    prefixes: tuple[str, ...] = option(
        (),
        "Words before an input, as TASK=TEXT or MODEL/TASK=TEXT, for models trained with such words: TASK is query, "
        "document, classification, clustering, similarity, question_answering, fact_verification or code_query; "
        "repeatable.",
    )
    calls_at_once: int = bound(
        64, "Most calls that engines work on at the same time for one request.", at_least=1, at_most=65536
    )
    scoring: tuple[str, ...] = option(
        (),
        "How the models that rerank and score do it where this cannot be seen from their engines, as MODEL=cosine, "
        "MODEL=cross_encoder or MODEL=generative; repeatable.",
    )
    rerank_task: str = bound(
        "Judge whether the Document meets the requirements based on the Query and the Instruct provided. "
        'Note that the answer can only be "yes" or "no".',
        "What a generative reranker is told in its system message; the words are those of Qwen3-Reranker.",
    )
    rerank_question: str = bound(
        "<Instruct>: {instruction}\\n<Query>: {query}\\n<Document>: {document}",
        "What a generative reranker is asked for one document; {instruction}, {query} and {document} are replaced, "
        "and a backslash with n is a line break.",
    )
    rerank_instruction: str = bound(
        "Given a web search query, retrieve relevant passages that answer the query",
        "What is put for {instruction} in pooling.rerank_question where a request has none.",
    )
    rerank_labels: tuple[str, ...] = bound(
        ("yes", "no"), "The two answers of a generative reranker, that for a document which fits first; a token each."
    )
    label_alternatives: int = bound(
        20,
        "Most likely next tokens that an engine is asked for, to find those in them that a request or a reranker asks about; an "
        "engine's own maximum bounds it.",
        at_least=2,
        at_most=100_000,
    )
    bare_rerank: bool = option(
        False, "Whether requests in SGLang's form of rerank are answered with a bare list, as SGLang does."
    )
    tokens_at_once: int = bound(
        65_536,
        "Most tokens that engines work on at the same time for one request; one call may always be under way.",
        at_least=1,
        at_most=1 << 30,
    )

    def prefix(self, model: str, task: str) -> str:
        """The words before an input of this model for this task; "" where there are none."""
        return self._prefixes.get(f"{model}/{task}") or self._prefixes.get(task, "")

    @property
    def _prefixes(self) -> dict[str, str]:
        return {name: text for name, _, text in (row.partition("=") for row in self.prefixes)}

    def method(self, model: str) -> str:
        """The method by which this model scores pairs, as the operator says; "" where nothing is said."""
        return self._methods.get(model, "")

    @property
    def _methods(self) -> dict[str, str]:
        return {name: method for name, _, method in (row.rpartition("=") for row in self.scoring)}

    def check(self) -> None:
        """Raise ConfigError for unknown tasks or methods, and for answers of rerankers other than two."""
        for row in self.scoring:
            name, equals, method = row.rpartition("=")
            if not equals or not name or method not in METHODS:
                raise ConfigError(f"pooling.scoring: {row}: expected MODEL=METHOD, METHOD one of {', '.join(METHODS)}")
        if len(set(self.rerank_labels)) != 2:
            raise ConfigError("pooling.rerank_labels: expected two different answers")
        for row in self.prefixes:
            place, equals, text = row.partition("=")
            if not equals or not text or place.rpartition("/")[2] not in TASKS:
                raise ConfigError(
                    f"pooling.prefixes: {row}: expected TASK=TEXT or MODEL/TASK=TEXT, TASK one of {', '.join(TASKS)}"
                )


METHODS = ("cosine", "cross_encoder", "generative")
"""How pairs of texts are scored: by the vectors of both, by a model that reads both at once, or by how likely a model that
writes text says yes."""

TASKS = (
    *("query", "document", "classification", "clustering", "similarity"),
    *("question_answering", "fact_verification", "code_query"),
)
"""What vectors are for, in the words of the settings."""
