"""The role of a guardrail, the question to its check, and the answer.

Pure. Above: everything in this room, and programs that give a gateway checks of their own. Below: the usage of an answer.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

import attrs

from smg_core.events import Usage
from smg_core.settings import ConfigError

__all__ = [
    "NOTHING_FOUND",
    "PLACES",
    "GuardCheck",
    "GuardFault",
    "GuardFindings",
    "GuardPlace",
    "GuardQuestion",
    "GuardSpan",
    "Guardrail",
]

GuardPlace = Literal["input", "output", "arguments"]
"""Where a text stands: in what goes to a model, in what the model says, in the arguments of a tool that it calls."""
PLACES: tuple[GuardPlace, ...] = get_args(GuardPlace)
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_LABEL = re.compile(r"[^A-Za-z0-9_.\-]+")
_LONGEST_LABEL = 64


class GuardFault(Exception):
    """A check failed, or answered with what is no answer. `reason` is for the operator: a client never sees it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@attrs.frozen
class GuardQuestion:
    """The question to a check: a `text` of a request for `model` of a tenant, or the addresses (URLs, `data:` among them) of
    `pictures` that stand beside it, where the check sees those."""

    text: str
    place: GuardPlace
    tenant: str = ""
    principal: str = ""
    model: str = ""
    pictures: tuple[str, ...] = ()


@attrs.frozen(order=True)
class GuardSpan:
    """A part of the text, from the character `start` to the one before `end`, that may not pass; `label` says what it is."""

    start: int
    end: int
    label: str = "REDACTED"

    @property
    def mask(self) -> str:
        """The text in its place."""
        return f"<{_LABEL.sub('_', self.label[:_LONGEST_LABEL]) or 'REDACTED'}>"


@attrs.frozen
class GuardFindings:
    """The findings of a check: the reasons why the text as a whole may not pass, and the parts of it that may not. Neither: it
    passes. `usage` is what the check has cost in tokens of `model`, where that is known."""

    blocked: tuple[str, ...] = ()
    spans: tuple[GuardSpan, ...] = ()
    usage: Usage | None = None
    model: str = ""


NOTHING_FOUND = GuardFindings()

GuardCheck = Callable[[GuardQuestion], "Awaitable[GuardFindings | None] | GuardFindings | None"]
"""Answers a question; None: nothing was found. A plain function runs in a thread. Whatever it raises is a failure."""


@attrs.frozen
class Guardrail:
    """One guardrail: what is asked (`check`), about what (`on`), of whose requests (`tenants`, `models`; all where empty), and
    what becomes of it.

    `action`: what is found in parts of a text is masked ("mask"), or holds all of it back ("block"). `on_failure`: where the
    check fails, the request is refused ("closed") or goes on ("open"). `unseen`: pictures, recordings and documents that the
    check cannot be shown are refused ("refuse") or go by ("pass"). A check has `timeout_s` seconds, the wait for one of its
    `at_once` places among them. It is shown at most `chars` characters at a time, and `pictures` says whether it sees those.
    `kind` is what it asks, in the accounts."""

    name: str
    check: GuardCheck
    on: tuple[GuardPlace, ...] = PLACES
    action: Literal["block", "mask"] = "block"
    on_failure: Literal["closed", "open"] = "closed"
    unseen: Literal["refuse", "pass"] = "refuse"
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    timeout_s: float = 5.0
    at_once: int = 64
    chars: int = 20_000
    pictures: bool = False
    kind: str = "python"

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError("name: a guardrail has a name of letters, digits, '_', '.' and '-', 64 at most")
        if not callable(self.check):
            raise ConfigError(f"check: expected a function of one question, not {type(self.check).__name__}")
        for field in ("on", "tenants", "models"):
            given = getattr(self, field)
            if not isinstance(given, tuple | list | set | frozenset) or any(
                not isinstance(each, str) for each in given
            ):
                raise ConfigError(f"{field}: expected a list of texts, not {given!r}")
        if not self.on or any(each not in PLACES for each in self.on):
            raise ConfigError(f"on: expected some of {', '.join(PLACES)}")
        for field, known in (
            ("action", ("block", "mask")),
            ("on_failure", ("closed", "open")),
            ("unseen", ("refuse", "pass")),
        ):
            if getattr(self, field) not in known:
                raise ConfigError(f"{field}: expected one of {', '.join(known)}")
        for field, least, most in (("timeout_s", 0.01, 300), ("at_once", 1, 65_536), ("chars", 64, 10_000_000)):
            given = getattr(self, field)
            if not isinstance(given, int | float) or not least <= given <= most:
                raise ConfigError(f"{field}: {given!r} is not in {least:,} to {most:,}")

    def is_for(self, tenant: str, models: frozenset[str]) -> bool:
        """Whether it is asked about requests of this tenant that may lead to these models."""
        return (not self.tenants or tenant in self.tenants) and (not self.models or not models.isdisjoint(self.models))
