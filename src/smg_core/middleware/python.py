"""Plugins in Python (edge): the class that they are derived from, and how the source of an entry becomes a middleware.

A source is MODULE:ATTRIBUTE, or the name of an entry point of the group `smg.plugins`. Above: plugins.registry. Below: `base`,
`entries`, `asgi`.
"""

import importlib
from collections.abc import Awaitable, Sequence
from inspect import iscoroutinefunction, signature
from pathlib import Path
from typing import Any, ClassVar

import attrs
import msgspec

from smg_core.events import Event
from smg_core.middleware.asgi import AsgiMiddleware
from smg_core.middleware.base import (
    CONTINUE,
    HOOKS,
    About,
    AnswerPiece,
    Continue,
    End,
    EventVerdict,
    Failure,
    HeadVerdict,
    HookName,
    Middleware,
    PieceMode,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.middleware.entries import ASGI, Entry, entry_of_object, entry_of_source
from smg_core.outside_words.exceptions import words_of_fault
from smg_core.request import GenerationRequest
from smg_core.settings import ConfigError, nearest

__all__ = ["ENTRY_POINTS", "GivenPlugin", "PythonPlugin", "given_plugins", "python_middleware"]

ENTRY_POINTS = "smg.plugins"
"""The group of entry points by whose names installed packages offer plugins."""


@attrs.frozen
class _NoSettings:
    """The settings of a plugin that takes none."""


class PythonPlugin:
    """A plugin in Python; derive from it and write the hooks that are wanted, which are those of `PluginSession`.

    An instance belongs to one exchange, so what it keeps in `self` is of that exchange alone. `about` says which one it is.
    `shared` is what `prepare` made, once for all exchanges. `Settings` is an attrs class, a dataclass or a msgspec struct: the
    `config` of the plugin's entry is read into one, and what does not fit stops the start. Hooks run on the event loop: work of
    more than a millisecond belongs into a thread (`asyncio.to_thread`).
    """

    Settings: ClassVar[type] = _NoSettings
    pieces: ClassVar[PieceMode] = "wire"
    """What `on_piece` is shown: "wire", what leaves in the words of an API, or "text", what the model says."""

    def __init__(self, about: About, shared: Any) -> None:
        self.about = about
        self.shared = shared

    @classmethod
    def prepare(cls, settings: Any) -> Any:
        """What all exchanges share; called when the plugin is loaded. Without it, that is the settings. ValueError says that they
        cannot be used."""
        return settings

    @classmethod
    def dispose(cls, shared: Any) -> None:
        """The plugin was removed or replaced, or the gateway ends: free what `prepare` took. Exchanges that began before may
        still use it."""

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return CONTINUE

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return CONTINUE

    def on_event(self, event: Event) -> EventVerdict:
        return CONTINUE

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return CONTINUE

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        return CONTINUE, CONTINUE

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        return CONTINUE

    async def on_end(self, end: End) -> str:
        return ""

    async def on_error(self, failure: Failure) -> Continue | Reject:
        return CONTINUE

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        return CONTINUE

    async def on_stored(self, call: StorageCall) -> None:
        return None

    def close(self) -> None:
        """The exchange is over."""


class _PluginClass:
    """The middleware of a class derived from `PythonPlugin`: its hooks are those that the class writes."""

    def __init__(self, name: str, made_of: type[PythonPlugin], shared: Any) -> None:
        self.name = name
        self._class, self._shared = made_of, shared
        self.hooks: frozenset[HookName] = frozenset(
            hook for hook in HOOKS if getattr(made_of, f"on_{hook}") is not getattr(PythonPlugin, f"on_{hook}")
        )
        self.pieces: PieceMode = made_of.pieces if "piece" in self.hooks else "none"

    def begin(self, about: About) -> PythonPlugin:
        return self._class(about, self._shared)

    def close(self) -> None:
        self._class.dispose(self._shared)


def python_middleware(entry: Entry, given: object = None) -> Middleware:
    """The middleware of an entry whose source is code in Python, which is imported and called; `given` is that code where a
    program has it. Raises ConfigError, whatever that code raises."""
    where = f"plugin {entry.name}: {entry.source}"
    try:
        return _made(entry, _found(entry.source) if given is None else given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error.args[0]}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # its import and what it calls run here, and may raise anything
        raise ConfigError(f"{where}: {type(error).__name__}: {words_of_fault(error)}") from error


def _found(source: str) -> Any:
    """What the source names. Raises what its import raises, and ConfigError."""
    module, colon, attribute = source.partition(":")
    if colon:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
        return found
    from importlib.metadata import entry_points  # loads much, and few plugins are named so

    installed = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if source not in installed:
        names = ", ".join(sorted(installed)) or "none"
        raise ConfigError(
            f"neither a component (.wasm) nor MODULE:ATTRIBUTE, and no package has an entry point {source!r} of "
            f"the group {ENTRY_POINTS} (there are: {names})"
        )
    return installed[source].load()


def _made(entry: Entry, found: Any) -> Middleware:
    if not callable(found):
        raise ConfigError(f"a plugin is a class or a function, not {type(found).__name__}")
    if entry.kind == ASGI:
        wrapping = AsgiMiddleware(entry.name, found, entry.config)
        if not callable(wrapping.call):
            raise ConfigError("what it makes is no ASGI app: it cannot be called")
        return wrapping
    if isinstance(found, type) and issubclass(found, PythonPlugin):
        _check_hooks(found)
        return _PluginClass(entry.name, found, found.prepare(_settings(found, entry)))
    return _checked(found(entry.config))


@attrs.frozen
class GivenPlugin:
    """A plugin that a program gives: its entry, and its class, None where the entry's source names it."""

    entry: Entry
    code: object = None


def given_plugins(given: Sequence[object]) -> tuple[GivenPlugin, ...]:
    """The plugins of `Gateway(middleware=...)`: classes derived from `PythonPlugin`, ASGI middleware whose first argument is
    `app`, and texts as `middleware.plugins` has them. Raises ConfigError for what is none of these."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"middleware: expected a list of classes, not {type(given).__name__}: middleware=[...]")
    return tuple(_given(each) for each in given)


def _given(each: object) -> GivenPlugin:
    if isinstance(each, str):
        if each.endswith(".wasm") and not Path(each).expanduser().is_file():
            raise ConfigError(f"middleware: there is no file {each}")
        return GivenPlugin(entry_of_source(each))
    if isinstance(each, type) and issubclass(each, PythonPlugin):
        try:
            _check_hooks(each)
        except ConfigError as error:
            raise ConfigError(f"middleware: {each.__qualname__}: {error.args[0]}") from None
        return GivenPlugin(entry_of_object(each), each)
    if isinstance(each, type) and next(iter(signature(each).parameters), "") == "app":
        try:
            signature(each).bind(None)
        except TypeError as error:
            raise ConfigError(
                f"middleware: {each.__qualname__} is made with app alone, and needs more: {error}"
            ) from None
        return GivenPlugin(entry_of_object(each, ASGI), each)
    what = f"the class {each.__qualname__}" if isinstance(each, type) else f"of the type {type(each).__qualname__}"
    raise ConfigError(
        f"middleware: {what} is no plugin; give a class derived from PythonPlugin, or ASGI middleware whose first argument is app"
    )


_PLAIN = ("on_piece", "on_event")  # hooks that are called for each token, and may be plain functions


def _check_hooks(plugin: type[PythonPlugin]) -> None:
    """Raises ConfigError for a hook that would never be called, and for one that cannot be awaited."""
    hooks = [f"on_{hook}" for hook in HOOKS]
    for name in dir(plugin):
        if name.startswith("on_") and name not in hooks:
            raise ConfigError(f"there is no hook {name}{nearest(name, hooks)}")
        if name in hooks and name not in _PLAIN and not iscoroutinefunction(getattr(plugin, name)):
            raise ConfigError(f"{name} is no coroutine: write async def {name}")
    if iscoroutinefunction(plugin.on_event):
        raise ConfigError("on_event is a coroutine: write def on_event")
    if plugin.pieces not in ("wire", "text"):
        raise ConfigError(f"pieces: expected wire or text, not {str(plugin.pieces)[:60]}")


def _settings(plugin: type[PythonPlugin], entry: Entry) -> Any:
    """The configuration of an entry as the settings of its plugin. Raises ConfigError."""
    known = (
        {field.encode_name for field in msgspec.structs.fields(plugin.Settings)}
        if _is_struct(plugin)
        else _names(plugin)
    )
    strange = next((name for name in entry.config if name not in known), None)
    if strange is not None:
        raise ConfigError(f"config: there is no {strange[:60]}; it takes {', '.join(sorted(known)) or 'nothing'}")
    try:
        return msgspec.convert(dict(entry.config), plugin.Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"config: {error}") from None


def _is_struct(plugin: type[PythonPlugin]) -> bool:
    return issubclass(plugin.Settings, msgspec.Struct)


def _names(plugin: type[PythonPlugin]) -> set[str]:
    """The names of the fields of an attrs class or a dataclass."""
    if attrs.has(plugin.Settings):
        return {field.name for field in attrs.fields(plugin.Settings)}
    return set(getattr(plugin.Settings, "__dataclass_fields__", {}))


def _checked(made: Any) -> Middleware:
    """What code has made, if it can be used as a middleware. Raises ConfigError."""
    hooks = getattr(made, "hooks", None)
    if not isinstance(hooks, frozenset) or not callable(getattr(made, "begin", None)):
        raise ConfigError("what it makes has no hooks and begin; derive from PythonPlugin, or say kind: asgi")
    if not hooks <= set(HOOKS):
        raise ConfigError(f"there is no hook {min(hooks - set(HOOKS))}; there are {', '.join(HOOKS)}")
    if getattr(made, "pieces", "none") not in ("none", "wire", "text"):
        raise ConfigError("pieces: expected none, wire or text")
    middleware: Middleware = made
    return middleware
