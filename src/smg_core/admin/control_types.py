"""The input and output of the admin door's routes about the gateway itself: its models, policies, settings, log and requests, for
its `/admin/openapi.json`. Above: the routes. Pure."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from smg_core.json_types import Json

__all__ = [
    "ConfigRows",
    "DrainBody",
    "Drained",
    "Level",
    "LevelBody",
    "ModelRow",
    "ModelRows",
    "PolicyRow",
    "PolicyRows",
    "ReloadAnswer",
    "ReloadBody",
    "SettingRow",
    "UndrainBody",
]

_Day = Annotated[float, Meta(ge=0, le=86400)]
_Level = Literal["debug", "info", "warning", "error"]


class PluginBody(Struct, forbid_unknown_fields=True):
    """What a plugin is to be: `entry` as in the file of plugins, without its name."""

    entry: dict[str, Any]


class PluginRow(Struct):
    """A plugin of this process. `kind`: "plugin" or "asgi"; `busy`: exchanges that have an instance of it; `problem`: why a newer
    one is not here; `counts`: what it changed, rejected and failed at; `counters`: a component's own."""

    name: str
    source: str
    kind: str
    when: str
    on_failure: str
    hooks: list[str]
    sha256: str
    busy: int
    problem: str
    counts: dict[str, float]
    counters: dict[str, float]


class PluginRows(Struct):
    """The plugins, in the order in which requests meet them."""

    plugins: list[PluginRow]


class ModelRow(Struct):
    """A name that clients may ask for: `primary` is the first name of its model, `adapter` the LoRA adapter that it means. The
    workers serve it in any state; `ready` of them are ready. `engine_input` is "ids" for
    engines that take token ids, else "chat"."""

    name: str
    primary: str
    adapter: str
    root: str
    context_length: int
    vocabulary: int
    parser: str
    media: list[str]
    engine_input: str = field(name="door")
    workers: list[str]
    ready: int


class ModelRows(Struct):
    """All names that are served, sorted."""

    models: list[ModelRow]


class PolicyRow(Struct):
    """The policy in use for one model and role, and how many workers it may choose from now."""

    model: str
    role: str
    policy: str
    ready: int


class PolicyRows(Struct):
    """The policies in use: one is made with the first request for its model and role."""

    policies: list[PolicyRow]


class SettingRow(Struct):
    """A setting as it is in use, secrets masked. `source` says where it came from, as far as that is known; `live` when a change
    counts that is read again, "" for one that needs a restart."""

    path: str
    value: Json
    default: Json
    source: str
    live: str


class ConfigRows(Struct):
    """The settings in use."""

    settings: list[SettingRow]


class ReloadBody(Struct, forbid_unknown_fields=True):
    """A body that says nothing."""


class ReloadAnswer(Struct):
    """What became of the settings that were read again: `changed` are in use now, `needs_restart` differ from what is in use and
    need one. The workers are the settings' own."""

    changed: list[str]
    needs_restart: list[str]
    workers_added: list[str]
    workers_changed: list[str]
    workers_retired: list[str]


class DrainBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`wait_s`: seconds for which the answer waits until no request is left."""

    wait_s: _Day = 0.0


class UndrainBody(Struct, forbid_unknown_fields=True):
    """A body that says nothing."""


class Drained(Struct):
    """Whether the gateway takes requests, and how many are under way in all its processes."""

    taking: bool
    left: int


class LevelBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """`duration_s`: seconds after which the level of the settings counts again; null: until it is changed."""

    level: _Level
    duration_s: Annotated[float, Meta(gt=0, le=86400)] | None = None


class Level(Struct):
    """The level of the log; `until` when that of the settings counts again, in seconds since 1970."""

    level: str
    configured: str
    until: float | None
