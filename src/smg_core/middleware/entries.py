"""An operator's entry for each plugin: where it is, when it runs, and what happens when it fails.

Decides whether a list of plugins makes sense, and whether one of them applies to an exchange. Pure: the text of a file is handed
in. Above: `chain`, `wasm`, `server`. Below: `smg_core.settings`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from smg_core.middleware.base import About, Middleware
from smg_core.settings import ConfigError, nearest

__all__ = [
    "ASGI",
    "_COMPUTING_MS",
    "_WAITING_MS",
    "Entry",
    "Limits",
    "check_plugins",
    "entry_name",
    "entry_of_object",
    "entry_of_source",
    "parse_entries",
]

ASGI = "asgi"
"""The kind of an entry that is an ASGI middleware."""
_COMPUTING_MS, _WAITING_MS = 50.0, 5000.0
"""The deadline of a call of a component, which computes, and of a hook in Python, which may wait for others."""
_GRANTS = ("clock", "random", "tenant", "wasi")
_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false", dict: "an object"}


def _within(least: float, most: float) -> Any:
    def check(instance: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
        if not least <= value <= most:
            raise ConfigError(f"{attribute.name}: {value} is not in {least:,} to {most:,}")

    return check


def _one_of(*choices: str) -> Any:
    def check(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        for each in value if isinstance(value, tuple) else (value,):
            if each not in choices:
                raise ConfigError(f"{attribute.name}: expected one of {', '.join(choices)}, not {str(each)[:60]}")

    return check


@attrs.frozen
class Limits:
    """The limits of one call of a component, and of one instance of it. `deadline_ms`: milliseconds of a call, also of a hook in
    Python that waits; `instances`: how many exist at once; `waiting_ms`: how long an exchange waits for one; `memory_mib`: memory
    of one; `stack_kib`: its stack; `log_lines`: lines that it may log within a minute."""

    deadline_ms: float = attrs.field(default=_COMPUTING_MS, validator=_within(1, 300_000))
    memory_mib: float = attrs.field(default=16.0, validator=_within(0.0625, 4096))
    stack_kib: int = attrs.field(default=256, validator=_within(16, 4096))
    instances: int = attrs.field(default=256, validator=_within(1, 65536))
    waiting_ms: float = attrs.field(default=1000.0, validator=_within(0, 300_000))
    log_lines: int = attrs.field(default=60, validator=_within(0, 1_000_000))


@attrs.frozen
class Entry:
    """One plugin. `config` is its own configuration, which it checks at the start. `routes` (patterns, with * at the end for a
    beginning), `models` and `tenants` say where it runs, all of them if empty; one for some models runs at answers to requests
    that name none, too. `on_failure`: "closed" refuses the request, "open"
    goes on without the plugin. `when`: "after_identity", or "before_identity" where nobody's name is known. `share`: whose
    requests one instance may meet, one after the other: those of one "tenant", of "all", or one "exchange". `kind`: "plugin"
    has hooks, "asgi" is a class or function that wraps an ASGI app. `unseen`: what the plugin has a hook for and cannot be shown,
    since it is no UTF-8 or too large, is refused ("refuse") or goes by ("pass")."""

    source: str
    name: str = attrs.field(validator=attrs.validators.matches_re(r"[A-Za-z0-9_.\-]{1,64}"))
    config: Mapping[str, object] = attrs.field(factory=dict)
    routes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    on_failure: str = attrs.field(default="closed", validator=_one_of("closed", "open"))
    when: str = attrs.field(default="after_identity", validator=_one_of("after_identity", "before_identity"))
    share: str = attrs.field(default="tenant", validator=_one_of("tenant", "all", "exchange"))
    grants: tuple[str, ...] = attrs.field(default=(), validator=_one_of(*_GRANTS))
    kind: str = attrs.field(default="plugin", validator=_one_of("plugin", ASGI))
    unseen: str = attrs.field(default="refuse", validator=_one_of("refuse", "pass"))
    limits: Limits = attrs.field(factory=Limits)

    def __attrs_post_init__(self) -> None:
        if "tenant" in self.grants and self.when != "before_identity":
            raise ConfigError("grants: tenant needs when: before_identity")
        if self.when == "before_identity" and (self.tenants or self.models):
            raise ConfigError("when: before_identity, neither tenant nor model is known")
        if self.kind == ASGI and (self.models or self.grants or self.source.endswith(".wasm")):
            raise ConfigError("kind: asgi, which is code in Python, goes with neither models nor grants")

    @property
    def is_component(self) -> bool:
        """Whether it is a component; it is code in Python otherwise."""
        return self.source.endswith(".wasm")

    def applies(self, about: About) -> bool:
        """Whether it runs in an exchange, as far as its route and tenant say."""
        if self.tenants and about.tenant not in self.tenants:
            return False
        return self.is_on_route(about)

    def is_on_route(self, about: About) -> bool:
        """Whether it runs on the route of an exchange, for the tenants that it is for."""
        return not self.routes or any(_matches(each, about) for each in self.routes)


@attrs.frozen
class Link:
    """A plugin in its place: what the operator said of it, and its code."""

    entry: Entry
    middleware: Middleware

    @property
    def within(self) -> float | None:
        """Seconds that a hook may wait, None for a component: the sandbox keeps its deadline."""
        return None if self.entry.is_component else self.entry.limits.deadline_ms / 1000


def _matches(wanted: str, about: About) -> bool:
    if wanted.endswith("*"):
        return about.path.startswith(wanted[:-1])
    return wanted in (about.route, about.path)


def entry_of_source(source: str) -> Entry:
    """A plugin of which nothing but the source is said: its name is the file's or the attribute's. Raises ConfigError."""
    return parse_entries([{"source": source}], f"middleware.plugins: {source}")[0]


def entry_of_object(code: type, kind: str = "plugin") -> Entry:
    """A plugin whose class a program has; its source says which. Raises ConfigError for a name that no plugin may have."""
    source = f"{code.__module__}:{code.__qualname__}"
    return parse_entries([{"source": source, "name": code.__name__, "kind": kind}], f"middleware: {code.__qualname__}")[
        0
    ]


def parse_entries(found: object, source: str) -> tuple[Entry, ...]:
    """The plugins of a list of objects, as JSON or YAML has it; `source` begins every complaint. Raises ConfigError."""
    if not isinstance(found, list):
        raise ConfigError(f"{source}: expected a list of plugins")
    entries = [_entry(each, f"{source}: plugin {number}") for number, each in enumerate(found, 1)]
    check_plugins(entries, source)
    return tuple(entries)


def check_plugins(entries: Sequence[Entry], source: str) -> None:
    """Raises ConfigError where two plugins have one name, and where ASGI middleware is listed behind a plugin that it would
    stand around: requests meet all in the order of the list."""
    names = [each.name for each in entries]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise ConfigError(f"{source}: two plugins are called {twice}; give them names")
    inside = ""
    for each in entries:
        if each.kind != ASGI:
            inside = inside or each.name
        elif inside:
            raise ConfigError(
                f"{source}: {each.name} is of kind asgi, which stands around plugins with hooks: list it before {inside}"
            )


def _entry(found: object, source: str) -> Entry:
    if not isinstance(found, dict) or not isinstance(found.get("source"), str):
        raise ConfigError(f"{source}: expected an object with a source")
    given = dict(found)
    given.setdefault("name", entry_name(given["source"]))
    limits = {name: given.pop(name) for name in [field.name for field in attrs.fields(Limits)] if name in given}
    if not given["source"].endswith(".wasm"):
        limits.setdefault("deadline_ms", _WAITING_MS)
    known = [field.name for field in attrs.fields(Entry) if field.name != "limits"]
    for name in given:
        if name not in known:
            near = nearest(str(name), [*known, *(field.name for field in attrs.fields(Limits))])
            raise ConfigError(f"{source}: there is no {str(name)[:60]} of a plugin{near}")
    try:
        return Entry(**{name: _value(name, each) for name, each in given.items()}, limits=_limits(limits))
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"{source} ({str(given['name'])[:60]}): {error.args[0]}") from None


def entry_name(source: str) -> str:
    """The name of a plugin of which only the source is said."""
    return source.rsplit("/", 1)[-1].rsplit(":", 1)[-1].removesuffix(".wasm")


def _value(name: str, value: object) -> Any:
    if name in ("routes", "models", "tenants", "grants"):
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise ConfigError(f"{name}: expected a list of strings")
        return tuple(value)
    wanted = dict if name == "config" else str
    if not isinstance(value, wanted):
        raise ConfigError(f"{name}: expected {_KINDS[wanted]}")
    return value


def _limits(given: Mapping[str, object]) -> Limits:
    for field in attrs.fields(Limits):
        value = given.get(field.name, 0)
        wanted = (int, float) if field.type is float else (int,)
        if isinstance(value, bool) or not isinstance(value, wanted):
            raise ConfigError(f"{field.name}: expected {_KINDS[field.type or int]}")
    return Limits(**given)  # type: ignore[arg-type]
