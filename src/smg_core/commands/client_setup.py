"""The lines of configuration with which a program uses a gateway as its model, for `smg-gateway setup`.

Decides the text for each program of `PROGRAMS`. Pure. Above: cli, which asks the gateway which models it serves and prints the
text. Knows no socket and no setting of the gateway.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence

import attrs

from smg_core.json_types import Json, JsonObject

__all__ = ["PROGRAMS", "ListedModel", "choose_model", "served_models"]


@attrs.frozen
class ListedModel:
    """A model of a gateway: its name, and how many tokens its prompt and output may have together (0: not known)."""

    name: str
    context_length: int = 0


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


def _codex(url: str, model: ListedModel, key: str = "") -> str:
    """Lines of ~/.codex/config.toml. Codex takes an unknown model's context to be large and would compact too late. Over a
    WebSocket it sends only what is new of a session; where none can be opened, as through some proxies, it goes on over HTTP."""
    window = f"model_context_window = {model.context_length}\n" if model.context_length else ""
    return (
        "# lines of ~/.codex/config.toml, above any [section] of it\n"
        f"model = {json.dumps(model.name)}\n"
        'model_provider = "smg"\n'
        f"{window}"
        "\n"
        "[model_providers.smg]\n"
        'name = "smg"\n'
        f"base_url = {json.dumps(url + '/v1')}\n"
        'wire_api = "responses"\n'
        "supports_websockets = true\n" + (f"env_key = {json.dumps(key)}\n" if key else "")
    )


def _claude_code(url: str, model: ListedModel, key: str = "") -> str:
    """Variables of the environment. Claude Code asks for several models by name, small ones for its side requests; here all are
    one, and a gateway with `model.aliases` needs none of these names."""
    kinds = ("MODEL", "SMALL_FAST_MODEL", "DEFAULT_OPUS_MODEL", "DEFAULT_SONNET_MODEL", "DEFAULT_HAIKU_MODEL")
    names = [f"ANTHROPIC_{kind}" for kind in kinds]
    settings = {"ANTHROPIC_BASE_URL": url, **dict.fromkeys(names, model.name)}
    settings["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    lines = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
    lines.insert(1, f'export ANTHROPIC_AUTH_TOKEN="${key}"' if key else "export ANTHROPIC_AUTH_TOKEN=none")
    return "\n".join(["# variables for `claude`, in the shell that starts it", *lines]) + "\n"


PROGRAMS: Mapping[str, Callable[[str, ListedModel, str], str]] = {"claude-code": _claude_code, "codex": _codex}
"""Each program with what makes its lines, from the gateway's URL (without a slash at its end), a model, and the name of the
environment variable that has the key of the gateway, "" where it needs none."""
