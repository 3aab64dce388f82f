"""The kinds of guardrails, a row each, and the list of guardrails that an operator has written (edge).

What a kind needs is loaded where one of it is listed. Above: gateway.guardrails. Below: the adapters.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import attrs
import msgspec
from msgspec import Struct

from smg_core.engines.settings import EnginesConfig
from smg_core.guardrails.records import PLACES, GuardCheck, GuardPlace, Guardrail
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.credentials.opening import ProviderWants
    from smg_core.engines.connections.credential import CredentialSpec
    from smg_core.guardrails.adapters.asking import GuardService
    from smg_core.guardrails.adapters.classes import Classify

__all__ = ["ADAPTERS", "AdapterWorld", "OpenedRail", "RailEntry", "opened_rails"]

C = TypeVar("C")
_CLASSIFIED = 1500
"""Characters that a classifier is shown at a time: about 512 tokens, which many models take."""
_CHARACTERS = 20_000


class RailEntry(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One guardrail as it is listed: the fields of `Guardrail`, with `kind`, and that kind's own `config`."""

    name: str
    kind: str
    config: Mapping[str, Any] = {}
    on: tuple[GuardPlace, ...] = PLACES
    action: Literal["block", "mask"] = "block"
    on_failure: Literal["closed", "open"] = "closed"
    unseen: Literal["refuse", "pass"] = "refuse"
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    timeout_s: float = 5.0
    at_once: int = 64
    chars: int | None = None


@attrs.frozen
class AdapterWorld:
    """What adapters work with: the bounds of connections, and how a served model classifies."""

    limits: EnginesConfig
    classify: "Classify"


@attrs.frozen
class OpenedRail:
    """A guardrail that can be asked, and what lets go of what it has opened."""

    rail: Guardrail
    close: Callable[[], Awaitable[None]] | None = None


@attrs.frozen
class _Opened:
    check: GuardCheck
    chars: int = _CHARACTERS
    pictures: bool = False
    service: "GuardService | None" = None


def opened_rails(found: object, source: str, world: AdapterWorld) -> list[OpenedRail]:
    """The guardrails of a list of objects, as JSON or YAML has it; `source` begins every complaint. Raises ConfigError."""
    if not isinstance(found, list):
        raise ConfigError(f"{source}: expected a list of guardrails")
    rails = [_rail(each, f"{source}: guardrail {number}", world) for number, each in enumerate(found, 1)]
    names = [each.rail.name for each in rails]
    twice = next((each for each in names if names.count(each) > 1), None)
    if twice is not None:
        raise ConfigError(f"{source}: two guardrails are called {twice}")
    return rails


def _rail(found: object, source: str, world: AdapterWorld) -> OpenedRail:
    try:
        entry = msgspec.convert(found, RailEntry)
        opened = ADAPTERS.get(entry.kind, _unknown)(entry, world)
        rail = Guardrail(
            entry.name,
            opened.check,
            entry.on,
            entry.action,
            entry.on_failure,
            entry.unseen,
            entry.tenants,
            entry.models,
            entry.timeout_s,
            entry.at_once,
            entry.chars or opened.chars,
            opened.pictures,
            entry.kind,
        )
    except (msgspec.ValidationError, ConfigError, ValueError, ImportError, AttributeError, TypeError) as error:
        raise ConfigError(f"{source}: {error}") from None
    return OpenedRail(rail, None if opened.service is None else opened.service.close)


def _unknown(entry: RailEntry, world: AdapterWorld) -> NoReturn:
    raise ConfigError(f"kind: expected one of {', '.join(ADAPTERS)}")


def _config(entry: RailEntry, kind: type[C]) -> C:
    try:
        return msgspec.convert(entry.config, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"config: {error}") from None


def _service(
    entry: RailEntry,
    world: AdapterWorld,
    url: str,
    ca: str,
    credential: "CredentialSpec | None",
    wants: "ProviderWants | None" = None,
) -> "GuardService":
    from smg_core.credentials.opening import ProviderWants
    from smg_core.guardrails.adapters.asking import GuardService, ServicePlace

    place = ServicePlace(url, entry.timeout_s, ca, credential, wants or ProviderWants(), world.limits)
    return GuardService(place)


def _presidio(entry: RailEntry, world: AdapterWorld) -> _Opened:
    from smg_core.guardrails.adapters.presidio import PresidioCheck, PresidioConfig

    config = _config(entry, PresidioConfig)
    service = _service(entry, world, config.url, config.ca, config.credential)
    return _Opened(PresidioCheck(service, config), service=service)


def _moderations(entry: RailEntry, world: AdapterWorld) -> _Opened:
    from smg_core.guardrails.adapters.moderations import ModerationsCheck, ModerationsConfig

    config = _config(entry, ModerationsConfig)
    service = _service(entry, world, config.url, config.ca, config.credential)
    return _Opened(ModerationsCheck(service, config), pictures=config.pictures, service=service)


def _bedrock(entry: RailEntry, world: AdapterWorld) -> _Opened:
    from smg_core.credentials.opening import ProviderWants
    from smg_core.guardrails.adapters.bedrock import BedrockCheck, BedrockConfig

    config = _config(entry, BedrockConfig)
    if not config.region and not config.url:
        raise ConfigError("config: region: expected the region of the guardrail")
    url = config.url or f"https://bedrock-runtime.{config.region}.amazonaws.com"
    wants = ProviderWants(service="bedrock", region=config.region)
    service = _service(entry, world, url, config.ca, config.credential, wants)
    return _Opened(BedrockCheck(service, config), service=service)


def _classes(entry: RailEntry, world: AdapterWorld) -> _Opened:
    from smg_core.guardrails.adapters.classes import ClassesCheck, ClassesConfig

    return _Opened(ClassesCheck(world.classify, _config(entry, ClassesConfig)), _CLASSIFIED)


def _python(entry: RailEntry, world: AdapterWorld) -> _Opened:
    from smg_core.guardrails.adapters.python_check import PythonConfig, python_check

    return _Opened(python_check(_config(entry, PythonConfig)))


ADAPTERS: Mapping[str, Callable[[RailEntry, AdapterWorld], _Opened]] = {
    "presidio": _presidio,
    "moderations": _moderations,
    "bedrock": _bedrock,
    "classes": _classes,
    "python": _python,
}
"""What opens a guardrail of each kind."""
