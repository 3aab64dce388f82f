"""Deviations of providers of Chat Completions from OpenAI: one row each.

A field that is in none of a row's tables is refused by name, so that nothing reaches a provider which ignores it in silence.
Pure. Above: body, format, the rows of kinds. Sources: the providers' own references.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

__all__ = ["CHAT_PROFILES", "ChatProfile", "EffortForm"]

EffortForm = Literal["none", "word", "deepseek", "openrouter", "together"]
"""How a provider is told how much to reason: by the word `reasoning_effort`; by DeepSeek's `thinking` switch; by OpenRouter's
object `reasoning`; by Together's switch in it."""

_COMMON = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "temperature", "top_p", "stop", "tools", "tool_choice"),
        *("response_format", "max_tokens", "max_completion_tokens", "seed", "user"),
    }
)
_PENALTIES = frozenset({"frequency_penalty", "presence_penalty"})
_LOGPROBS = frozenset({"logprobs", "top_logprobs"})
_OPENAI = frozenset(
    {
        *("n", "logit_bias", "parallel_tool_calls", "reasoning_effort", "service_tier", "verbosity", "metadata"),
        *("prompt_cache_key", "store", "modalities", "audio", "prediction", "safety_identifier", "web_search_options"),
        *("prompt_cache_options", "prompt_cache_retention", "moderation", "functions", "function_call"),
    }
)


@attrs.frozen
class ChatProfile:
    """One provider's deviations.

    `takes` are the top-level fields of a body, by the name that OpenAI has for them; `renamed` what some are called there. `path`
    is that of the API where the URL has none. `bound` is the name of the bound on tokens ("": the client's own). `extras`: it may
    be sent what engines add to OpenAI's API, of which `takes` lists the fields. `required` is its word for a tool that has to be
    called; `subset`: it takes a list of allowed tools. `call_id` is the length of the ids of calls, which then have letters and
    digits alone. `names`: messages may have a name; `nulls`: a message may have no content. `texts`: content of text alone is one
    string. `prefix`: a talk that ends with the assistant is gone on with where that message says so. `marks`: blocks may have
    marks for the cache. `efforts` are the words for how much to reason, in the `effort` form; `returned` is the field in which
    earlier reasoning goes back, "" for none. `least_temperature` is sent for 0. `most` bounds numbers by their fields.
    `usage_asked`: it is asked for its counts. `forced_reasoning`: a call may be demanded while the model reasons. `json_schema`:
    it is held to a schema, and not to JSON alone. `documents`: it reads PDF itself. `embeds`: it makes vectors of texts at
    `/embeddings`; `scores`: and scores of documents at `/rerank`; `pictures`: it has OpenAI's routes for pictures. `details`: it
    has details of its reasoning, which it wants back unchanged. `lists`: it lists its models at `/models`."""

    name: str
    takes: frozenset[str]
    path: str = "/v1"
    bound: str = "max_tokens"
    extras: bool = True
    renamed: Mapping[str, str] = attrs.field(factory=dict)
    required: str = "required"
    subset: bool = False
    call_id: int = 0
    names: bool = True
    nulls: bool = True
    texts: bool = False
    prefix: bool = False
    marks: bool = False
    effort: EffortForm = "word"
    efforts: tuple[str, ...] = ("low", "medium", "high")
    returned: str = ""
    least_temperature: float | None = None
    most: Mapping[str, tuple[float, float]] = attrs.field(factory=dict)
    usage_asked: bool = True
    forced_reasoning: bool = True
    json_schema: bool = True
    documents: bool = False
    embeds: bool = False
    scores: bool = False
    pictures: bool = False
    details: bool = False
    lists: bool = True


AZURE = ChatProfile(
    "azure",
    _COMMON | _PENALTIES | _LOGPROBS | _OPENAI | {"data_sources"},
    path="/openai/v1",
    bound="",
    extras=False,
    subset=True,
    documents=True,
    embeds=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    pictures=True,
    lists=False,  # of models, and not of what is deployed
)

OPENAI = attrs.evolve(AZURE, name="openai-chat", takes=AZURE.takes - {"data_sources"}, path="/v1", lists=True)

_ROWS = (
    OPENAI,
    AZURE,
    ChatProfile(
        "bedrock-mantle",
        _COMMON | _PENALTIES | _LOGPROBS | {"n", "parallel_tool_calls", "reasoning_effort", "service_tier"},
        bound="max_completion_tokens",
    ),
    ChatProfile(
        "xai",
        # its reasoning models refuse penalties and stop strings; those that do not reason are not told apart here
        _COMMON | _LOGPROBS | {"n", "parallel_tool_calls", "reasoning_effort", "prompt_cache_key"},
        bound="max_completion_tokens",
        efforts=("low", "medium", "high"),
        pictures=True,
    ),
    ChatProfile(
        "mistral",
        (_COMMON - {"user", "stream_options"}) | _PENALTIES | {"n", "parallel_tool_calls", "prompt_cache_key"},
        renamed={"seed": "random_seed"},
        embeds=True,
        required="any",
        call_id=9,
        prefix=True,
        effort="none",
        usage_asked=False,
    ),
    ChatProfile(
        "deepseek",
        (_COMMON - {"seed", "user"}) | _PENALTIES | _LOGPROBS,
        path="",
        texts=True,
        effort="deepseek",
        returned="reasoning_content",
        forced_reasoning=False,
        json_schema=False,
    ),
    ChatProfile(
        "openrouter",
        _COMMON
        | _PENALTIES
        | _LOGPROBS
        | {"logit_bias", "parallel_tool_calls", "top_k", "min_p", "repetition_penalty", "metadata", "verbosity"}
        | {"provider", "models", "route", "transforms", "plugins", "top_a", "usage", "service_tier"},
        marks=True,
        embeds=True,
        documents=True,
        effort="openrouter",
        efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        returned="reasoning",
        details=True,
    ),
    ChatProfile(
        "groq",
        (_COMMON - {"n"}) | {"parallel_tool_calls", "reasoning_effort", "service_tier", "reasoning_format"},
        bound="max_completion_tokens",
        names=False,
        nulls=False,
        efforts=("none", "default", "low", "medium", "high"),
        least_temperature=1e-8,
    ),
    ChatProfile(
        "together",
        _COMMON
        | _PENALTIES
        | {"n", "logit_bias", "logprobs", "top_k", "min_p", "repetition_penalty", "reasoning_effort", "safety_model"},
        effort="together",
        embeds=True,
        scores=True,
    ),
    ChatProfile(
        "fireworks",
        _COMMON
        | _PENALTIES
        | _LOGPROBS
        | {"n", "logit_bias", "top_k", "min_p", "repetition_penalty", "reasoning_effort", "parallel_tool_calls"},
        required="any",
        embeds=True,
        scores=True,
        returned="reasoning_content",
    ),
    ChatProfile(
        "cohere",
        (_COMMON - {"user", "stream_options"}) | _PENALTIES | {"reasoning_effort"},
        efforts=("none", "high"),
        embeds=True,
        most={"frequency_penalty": (0.0, 1.0), "presence_penalty": (0.0, 1.0), "top_p": (0.01, 0.99)},
        usage_asked=False,
        lists=False,  # at another address than that of this API
    ),
)

CHAT_PROFILES: Mapping[str, ChatProfile] = {each.name: each for each in _ROWS}
"""The rows by the names of their kinds."""
