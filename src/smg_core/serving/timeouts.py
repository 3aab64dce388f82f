"""Decides the time-outs of a request, by the settings, its model and its headers.

The only place where they are decided, for every API and every kind of engine. A header beats the model's settings, which beat
the general ones; settings bound what a header may set. Pure. Above: the handler in `serving.inference`, which puts the result
into the `Run` of the request. Below: the settings.
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from smg_core.errors import InvalidRequest
from smg_core.http.settings import ModelConfig
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.prompt.served import ServedAs, ServedModel, as_named
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import GenerationRequest
from smg_core.serving.live import Live

__all__ = ["HEADERS", "CurrentTimeouts", "TimeoutRules"]

HEADERS: Mapping[str, str] = {
    "x-smg-connect-timeout": "connect",
    "x-smg-first-token-timeout": "first_token",
    "x-smg-token-timeout": "token",
    "x-smg-request-timeout": "request",
    "x-smg-write-timeout": "write",
}
"""Header to time-out; its value is in seconds."""

SERVER_TIMEOUT = "x-server-timeout"
"""How many seconds a client waits for all of the answer: Google's clients send it where they were given a time-out. It can only
shorten, so it needs no permission and no bound."""

_NAMES = frozenset((*HEADERS, SERVER_TIMEOUT))
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_HELD_AGAINST_WORKERS = ("connect", "first_token", "token")


class TimeoutRules:
    """The rules of one gateway. `models` are those it serves at any time, by each of their names; `served_as` says for which of
    them an alias stands."""

    def __init__(
        self, settings: TimeoutsConfig, models: Mapping[str, ServedModel], served_as: ServedAs = as_named
    ) -> None:
        self._served = models
        self._served_as = served_as
        self._general = _of(settings)
        self._models = {model: _of(each) for model, each in settings.of_models().items()}
        self._least = settings.least_s
        self._most: dict[str, float] = {name: getattr(settings, f"{name}_most_s") for name in HEADERS.values()}

    def of(self, request: GenerationRequest, headers: Mapping[str, str]) -> Timeouts:
        """The time-outs of `request`. Raises InvalidRequest for a header with an invalid or forbidden value."""
        own = self._of_model(request.model, request.caller.tenant) if self._models else None
        usual = (own or self._general)[request.stream]
        found = usual if _NAMES.isdisjoint(headers) else self._asked(usual, headers)
        waited = _waited_by(headers) if SERVER_TIMEOUT in headers and not request.background else None
        for waits in (request.deadline_s, waited):
            if waits is not None and (found.request is None or waits < found.request):
                found = replace(found, request=waits)
        return found

    def _of_model(self, name: str, tenant: str) -> tuple[Timeouts, Timeouts] | None:
        """The settings of the model that is requested as `name`, under that name, the name that it stands for, or the model's
        primary name. None where it has none of its own."""
        if (served := self._served.get(name)) is None and name not in self._models:
            name = self._served_as(name, tenant)
            served = self._served.get(name)
        return self._models.get(name) or self._models.get(served.primary if served is not None else "")

    def _asked(self, usual: Timeouts, headers: Mapping[str, str]) -> Timeouts:
        found = replace(
            usual,
            **{name: self._seconds(header, headers[header]) for header, name in HEADERS.items() if header in headers},
        )
        return replace(found, hasty=any(_shorter(found, usual, name) for name in _HELD_AGAINST_WORKERS))

    def _seconds(self, header: str, text: str) -> float:
        most = self._most[HEADERS[header]]
        if most < self._least:
            raise InvalidRequest(f"The header {header} is not taken here.", param=header)
        if _SECONDS.fullmatch(text) is None or not self._least <= (seconds := float(text)) <= most:
            raise InvalidRequest(
                f"The header {header} takes a number of seconds from {self._least:g} to {most:g}.", param=header
            )
        return seconds


class CurrentTimeouts:
    """The rules of a gateway by its settings as they are now, which can change while it runs."""

    def __init__(self, live: Live, models: Mapping[str, ServedModel]) -> None:
        self._live, self._models = live, models
        self._made = self._make()

    def _make(self) -> tuple[TimeoutsConfig, ModelConfig, TimeoutRules]:
        config = self._live.config
        rules = TimeoutRules(config.timeouts, self._models, config.model.served_as)
        return config.timeouts, config.model, rules

    def of(self, request: GenerationRequest, headers: Mapping[str, str]) -> Timeouts:
        """The time-outs of `request`, as `TimeoutRules.of` has them."""
        config = self._live.config
        if self._made[0] is not config.timeouts or self._made[1] is not config.model:
            self._made = self._make()
        return self._made[2].of(request, headers)


def _of(settings: TimeoutsConfig) -> tuple[Timeouts, Timeouts]:
    """Those of a request whose answer leaves whole, and of one whose answer is streamed."""
    whole = Timeouts(
        connect=settings.connect_s,
        first_token=settings.first_token_s,
        token=settings.token_s,
        request=settings.request_s,
        write=settings.write_s,
    )
    return whole, replace(whole, request=settings.stream_s)


def _waited_by(headers: Mapping[str, str]) -> float:
    """How long the client waits, in seconds, as it says. Raises InvalidRequest."""
    text = headers[SERVER_TIMEOUT]
    if _SECONDS.fullmatch(text) is None or not float(text):
        raise InvalidRequest(f"The header {SERVER_TIMEOUT} takes a number of seconds.", param=SERVER_TIMEOUT)
    return float(text)


def _shorter(found: Timeouts, usual: Timeouts, name: str) -> bool:
    asked: float | None = getattr(found, name)
    bound: float | None = getattr(usual, name)
    return asked is not None and (bound is None or asked < bound)
