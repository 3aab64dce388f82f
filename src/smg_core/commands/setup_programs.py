"""The settings of each program for a gateway as its model, for `smg-gateway setup`.

Decides for each of `PROGRAMS` which values stand in which of its own files, which variables it is started with, and what of it
will not work. Pure. Above: setup, which asks the gateway and writes. Knows no socket and no setting of the gateway.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence

import attrs

from smg_config_files.changes import Put, with_changes
from smg_config_files.yaml_changes import ListItem
from smg_core.json_types import Json, JsonObject

__all__ = [
    "PROGRAMS",
    "ListedModel",
    "Program",
    "ServedGateway",
    "Setup",
    "SetupFile",
    "choose_model",
    "printed",
    "served_models",
    "shortcomings",
]

_NO_KEY = "none"
_LONG = 128_000
"""Tokens of a context from which on a quarter of it is as much as any of the programs asks for as output."""
_MOST_OUTPUT = 32_000
_ANSWER = 4096
"""Tokens that a context has to leave for an answer behind a program's first prompt."""


@attrs.frozen
class ListedModel:
    """A model of a gateway: its name, and how many tokens its prompt and output may have together (0: not known)."""

    name: str
    context_length: int = 0

    @property
    def output_bound(self) -> int:
        """The most tokens of output where the context is short, 0 where it is long or not known."""
        return self.context_length // 4 if 0 < self.context_length < _LONG else 0


@attrs.frozen
class ServedGateway:
    """What a program is told of: the gateway's URL without a slash at its end, its model, whether WebSockets work there, and the
    name of the environment variable that has the key of the gateway, "" where it needs none."""

    url: str
    model: ListedModel
    sockets: bool = True
    key: str = ""


@attrs.frozen
class SetupFile:
    """A file of a program, at `name` in the folder that `variable` names or else in `folder` of the user's own; `other` is there
    in place of it in some homes. `form` is one that `smg_config_files.changes` knows."""

    name: str
    form: str
    puts: tuple[Put, ...]
    variable: str = ""
    folder: str = ""
    other: str = ""


@attrs.frozen
class Setup:
    """What a program is told: in its files, and by variables, whose values are words of a shell. `exports` are what it is told
    without any file."""

    files: tuple[SetupFile, ...]
    variables: Mapping[str, str] = attrs.Factory(dict)
    exports: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen
class Program:
    """A program that can use a gateway: the path of the API that it asks (or how that begins), about how many tokens its first
    prompt has, how it is started, and what it is told."""

    path: str
    first_prompt: int
    start: str
    setup_of: Callable[[ServedGateway], Setup]
    without: str = ""
    """What of it does not work, as a sentence."""


def served_models(listing: Json) -> list[ListedModel]:
    """The models of an answer of `GET /v1/models`. Raises ValueError where it is no such answer."""
    data = listing.get("data") if isinstance(listing, dict) else None
    if isinstance(data, list):
        return [_served(each) for each in data if isinstance(each, dict) and isinstance(each.get("id"), str)]
    raise ValueError("the answer is no list of models")


def _served(entry: JsonObject) -> ListedModel:
    length = entry.get("max_model_len")
    return ListedModel(str(entry["id"]), length if isinstance(length, int) else 0)


def choose_model(served: Sequence[ListedModel], name: str | None) -> ListedModel:
    """The model called `name`, or the only one where there is no name. Raises ValueError with the names there are."""
    chosen = [each for each in served if name is None or each.name == name]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(each.name for each in served) or "none"
    if name is None:
        raise ValueError(f"name one of the gateway's models with --model; it serves: {names}")
    raise ValueError(f"the gateway does not serve {name}; it serves: {names}")


def shortcomings(name: str, model: ListedModel) -> list[str]:
    """What will not work of a program with a model, a line each."""
    program, context = PROGRAMS[name], model.context_length
    lines = [program.without] if program.without else []
    if 0 < context < program.first_prompt + _ANSWER:
        lines.append(
            f"{name} will not work with {model.name}: its first prompt alone has about {program.first_prompt} tokens, and "
            f"prompt and answer together may have {context}"
        )
    return lines


def printed(setup: Setup) -> str:
    """What is written into each file where it has nothing yet, and the variables, for a person to copy."""
    parts = list[str]()
    for file in setup.files if not setup.exports else ():
        mark, where = "//" if file.form == "json" else "#", "/".join(filter(None, ("~", file.folder, file.name)))
        parts.append(f"{mark} {where}\n{with_changes('', file.form, file.puts)}")
    variables = {**setup.exports, **setup.variables}
    if variables:
        parts.append(
            "# in the shell that starts it\n" + "".join(f"export {name}={each}\n" for name, each in variables.items())
        )
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------------ the programs


def _codex(gateway: ServedGateway) -> Setup:
    """Codex takes an unknown model's context to be large and would compact too late. Over a WebSocket it sends only what is new
    of a session."""
    provider: dict[str, object] = {"name": "smg", "base_url": f"{gateway.url}/v1", "wire_api": "responses"}
    if gateway.sockets:
        provider["supports_websockets"] = True
    if gateway.key:
        provider["env_key"] = gateway.key
    model = gateway.model
    puts = [Put(("model",), model.name), Put(("model_provider",), "smg")]
    if model.context_length:
        puts.append(Put(("model_context_window",), model.context_length))
    puts.append(Put(("model_providers", "smg"), provider))
    return Setup((SetupFile("config.toml", "toml", tuple(puts), "CODEX_HOME", ".codex"),))


def _claude_code(gateway: ServedGateway) -> Setup:
    """Claude Code asks for several models by name, small ones for its side requests; here all are one, and a gateway with
    `model.aliases` needs none of these names. It takes an unknown model's context to be 200,000 tokens."""
    kinds = ("MODEL", "SMALL_FAST_MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    variables = {"ANTHROPIC_BASE_URL": gateway.url, **{f"ANTHROPIC_{kind}": gateway.model.name for kind in kinds}}
    variables |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **_claude_code_bounds(gateway.model)}
    key = f"printenv {gateway.key}" if gateway.key else f"echo {_NO_KEY}"
    puts = [Put(("env", name), value) for name, value in variables.items()]
    # The first member comes to stand last: a new one is written behind the brace.
    file = SetupFile(
        "settings.json", "json", (Put(("apiKeyHelper",), key), *reversed(puts)), "CLAUDE_CONFIG_DIR", ".claude"
    )
    exports = {name: shlex.quote(value) for name, value in variables.items()}
    exports["ANTHROPIC_AUTH_TOKEN"] = f'"${gateway.key}"' if gateway.key else _NO_KEY
    return Setup((file,), exports=exports)


def _claude_code_bounds(model: ListedModel) -> dict[str, str]:
    """Variables for a context under the 200,000 tokens that Claude Code takes a model's to be. It summarises a session by a
    window of 100,000 at least, or before, at a share of that."""
    context, variables = model.context_length, dict[str, str]()
    if model.output_bound:
        variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(model.output_bound)
    if 0 < context < 200_000:
        variables["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(max(context, 100_000))
    if 0 < context < 100_000:
        variables["CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"] = str(80 * context // 100_000)
    return variables


def _gemini(gateway: ServedGateway) -> Setup:
    """Gemini CLI summarises at a share of the context, which it takes to be 1,048,576 tokens where it does not know a model."""
    model = gateway.model
    puts = [Put(("security", "auth", "selectedType"), "gemini-api-key"), Put(("model", "name"), model.name)]
    if 0 < model.context_length < 1 << 20:
        puts.append(Put(("model", "compressionThreshold"), round(0.7 * model.context_length / (1 << 20), 4)))
    variables = [Put(("GOOGLE_GEMINI_BASE_URL",), gateway.url)]
    if not gateway.key:
        variables.append(Put(("GEMINI_API_KEY",), _NO_KEY))
    files = (
        SetupFile(".gemini/settings.json", "json", tuple(puts), "GEMINI_CLI_HOME"),
        SetupFile(".gemini/.env", "env", tuple(variables), "GEMINI_CLI_HOME"),
    )
    return Setup(files, {"GEMINI_API_KEY": f'"${gateway.key}"'} if gateway.key else {})


def _opencode(gateway: ServedGateway) -> Setup:
    """OpenCode asks for as many tokens as the limit of a model's output says, and summarises by its context."""
    model = gateway.model
    entry: dict[str, object] = {"name": model.name}
    if model.context_length:
        entry["limit"] = {"context": model.context_length, "output": model.output_bound or _MOST_OUTPUT}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "smg",
        "options": {"baseURL": f"{gateway.url}/v1", "apiKey": f"{{env:{gateway.key}}}" if gateway.key else _NO_KEY},
        "models": {model.name: entry},
    }
    puts = (
        Put(("provider", "smg"), provider),
        Put(("model",), f"smg/{model.name}"),
        Put(("$schema",), "https://opencode.ai/config.json", default=True),
    )
    name = "opencode/opencode.json"
    return Setup((SetupFile(name, "json", puts, "XDG_CONFIG_HOME", ".config", f"{name}c"),))


def _aider(gateway: ServedGateway) -> Setup:
    """Aider speaks to any such API as to OpenAI's, by a name with a prefix, and warns of a model that it has no figures of."""
    model, puts = gateway.model, [Put(("model",), f"openai/{gateway.model.name}")]
    puts.append(Put(("openai-api-base",), f"{gateway.url}/v1"))
    if not gateway.key:
        puts.append(Put(("openai-api-key",), _NO_KEY))
    files = [SetupFile(".aider.conf.yml", "yaml", tuple(puts))]
    if model.context_length:
        output = model.output_bound or _MOST_OUTPUT
        figures = {"max_tokens": output, "max_input_tokens": model.context_length, "max_output_tokens": output}
        figures |= {"input_cost_per_token": 0, "output_cost_per_token": 0}
        put = Put((f"openai/{model.name}",), {**figures, "litellm_provider": "openai", "mode": "chat"})
        files.append(SetupFile(".aider.model.metadata.json", "json", (put,)))
    return Setup(tuple(files), {"AIDER_OPENAI_API_KEY": f'"${gateway.key}"'} if gateway.key else {})


def _continue(gateway: ServedGateway) -> Setup:
    """Continue's extensions and its command `cn` share a file."""
    model = gateway.model
    entry: dict[str, object] = {"name": "smg", "provider": "openai", "model": model.name}
    entry |= {"apiBase": f"{gateway.url}/v1", "apiKey": f"${{{{ secrets.{gateway.key} }}}}" if gateway.key else _NO_KEY}
    entry |= {"roles": ["chat", "edit", "apply"], "capabilities": ["tool_use"]}
    if model.context_length:
        bounds = {"contextLength": model.context_length, "maxTokens": model.output_bound or _MOST_OUTPUT}
        entry["defaultCompletionOptions"] = bounds
    puts = (
        Put(("name",), "smg", default=True),
        Put(("version",), "1.0.0", default=True),
        Put(("schema",), "v1", default=True),
        Put(("models", ListItem("name", "smg")), entry),
    )
    return Setup((SetupFile("config.yaml", "yaml", puts, "CONTINUE_GLOBAL_DIR", ".continue"),))


_CHAT = "/v1/chat/completions"
PROGRAMS: Mapping[str, Program] = {
    "aider": Program(
        _CHAT,
        1_000,
        "aider",
        _aider,
        "aider calls no tools: the model writes its edits as text, which small models often get wrong",
    ),
    "claude-code": Program("/v1/messages", 29_600, "claude", _claude_code),
    "codex": Program("/v1/responses", 13_200, "codex", _codex),
    "continue": Program(_CHAT, 2_700, "cn (/model chooses smg among others), or Continue in an editor", _continue),
    "gemini": Program("/v1beta/models/", 17_600, "gemini", _gemini),
    "opencode": Program(_CHAT, 11_100, "opencode", _opencode),
}
"""Each program. First prompts were counted by the tokenizer of `smg_simulator`, in the versions that docs/clients.md names."""
