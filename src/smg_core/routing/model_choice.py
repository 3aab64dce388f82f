"""The model for a name that is split between several, and the next one where that fails.

Pure: a function of the settings and of the request, so that all turns of a request, and all requests of a conversation, get the
same model, in every process. Above: pipeline.calls.preparing and pipeline.flow.flow. Below: the settings.
"""

from collections.abc import Callable, Mapping
from copy import copy
from hashlib import blake2b

from smg_core.errors import (
    EngineFailed,
    ModelNotFound,
    NotFound,
    NoWorker,
    Overloaded,
    PromptTooLong,
    SmgError,
    WorkerBusy,
    WorkerError,
)
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig

__all__ = ["FALLBACK_REASONS", "ModelChoice", "fallback_reason"]

FALLBACK_REASONS: tuple[tuple[type[SmgError], str], ...] = (
    (PromptTooLong, "context"),
    (NoWorker, "no_worker"),
    (ModelNotFound, "no_worker"),
    (Overloaded, "overloaded"),
    (WorkerBusy, "overloaded"),
    (EngineFailed, "failed"),
    (WorkerError, "failed"),
)
"""The reason that an error is for asking another model; the first row that fits counts. Other errors are none, unless another
worker may do what one could not: an outside provider that has no room, no money or no such model is as good as full or gone."""

_KEY = "x-smg-routing-key"
_BYTES = 8


StandsFor = Callable[[str, str], str]
"""The model that a name stands for by an alias, in a request of a tenant; the name itself where it is no alias."""


def _as_named(name: str, tenant: str) -> str:
    return name


def fallback_reason(error: SmgError) -> str:
    """Why another model may be asked after `error`; "" where it may not."""
    found = next((reason for kind, reason in FALLBACK_REASONS if isinstance(error, kind)), "")
    if found or not error.another_worker_may_do:
        return found
    return "no_worker" if isinstance(error, NotFound) else "overloaded"


class ModelChoice:
    """The splits and fallbacks of `settings`, and the aliases of `stands_for`. A name that stands for another is followed until
    one is a model's: an alias may stand for a name that is split, and that for an alias. A circle ends where it began."""

    def __init__(self, settings: RoutingConfig, stands_for: StandsFor = _as_named) -> None:
        self._splits = settings.of_splits()
        self._fallbacks = settings.of_fallbacks()
        self._shadows = settings.of_shadows()
        self.has_shadows = bool(self._shadows)
        self._reasons = frozenset(settings.fallback_on)
        self._header = settings.split_header.lower()
        self._stands_for = stands_for
        self._refused = 0

    def after(self, refused: int) -> "ModelChoice":
        """The same for a request that so many models of its chain, the first ones, have refused before it was run."""
        if not refused:
            return self
        other = copy(self)
        other._refused = refused
        return other

    def foremost(self, name: str, tenant: str = "") -> str:
        """The model of the largest share of `name`, for that tenant; `name` itself where it stands for none."""
        return self._names(name, tenant, lambda _, shares: max(shares, key=lambda model: shares[model]))[-1]

    def reach(self, name: str, tenant: str = "") -> frozenset[str]:
        """`name` and all that a request for it may lead to: what it stands for, the shares of a split, the models that are asked
        where another cannot answer, and so on."""
        found, ahead = set[str](), [name]
        while ahead:
            each = ahead.pop()
            if each not in found:
                found.add(each)
                ahead += [self._stands_for(each, tenant), *self._splits.get(each, ()), *self._fallbacks.get(each, ())]
        return frozenset(found)

    def model(self, request: GenerationRequest) -> str:
        """The model that a request gets for the name that it asks for: the one that its header names, where that is one of the
        split, else by share. The name itself where it stands for none."""
        if (
            request.model not in self._splits
            and self._stands_for(request.model, request.caller.tenant) == request.model
        ):
            return request.model
        return self._of_request(request.model, request)[-1]

    def chain(self, request: GenerationRequest) -> tuple[str, ...]:
        """The models that a request may get, one after the other, each once. The first is the one that it gets. The chain is that
        of this model, else of the name that stands for it, and so on up to the name that was asked for."""
        names = self._of_request(request.model, request)
        following = next((self._fallbacks[name] for name in reversed(names) if name in self._fallbacks), ())
        found = [self._of_request(name, request)[-1] for name in following]
        return tuple(dict.fromkeys((names[-1], *found)))[self._refused :]

    def shadow(self, request: GenerationRequest) -> tuple[str, str] | None:
        """The model that a request gets and the one that is to get a copy of it, None where none is. The shadow is that of the
        model, else of the name that stands for it, and so on; all requests of a conversation have one, or none."""
        if not self._shadows:
            return None
        names = self._of_request(request.model, request)
        name = next((each for each in reversed(names) if each in self._shadows), None)
        if name is None or _place(f"shadow of {name}", request) >= self._shadows[name][1]:
            return None
        model = self._of_request(self._shadows[name][0], request)[-1]
        return None if model == names[-1] else (names[-1], model)

    def _of_request(self, name: str, request: GenerationRequest) -> tuple[str, ...]:
        def drawn(name: str, shares: Mapping[str, float]) -> str:
            named = request.headers.get(self._header, "") if self._header else ""
            return named if named in shares else _drawn(shares, _place(name, request))

        return self._names(name, request.caller.tenant, drawn)

    def _names(self, name: str, tenant: str, drawn: Callable[[str, Mapping[str, float]], str]) -> tuple[str, ...]:
        """`name`, what it stands for, and so on; the last is the model. `drawn` chooses a model of a name that is split."""
        names = dict.fromkeys((name,))
        while True:
            shares = self._splits.get(name)
            name = self._stands_for(name, tenant) if shares is None else drawn(name, shares)
            if name in names:  # a model's own name may be split, and be one of its shares: then it is the last here
                del names[name]
                return (*names, name)
            names[name] = None

    def goes_on(self, error: SmgError) -> str:
        """Why the next model of a chain is asked after `error`; "" where that is the end."""
        reason = fallback_reason(error)
        return reason if reason in self._reasons else ""


def _drawn(shares: Mapping[str, float], place: float) -> str:
    """The model in whose part of all shares `place` (0 to 1) lies."""
    left = place * sum(shares.values())
    for model, share in shares.items():
        left -= share
        if left < 0:
            return model
    return list(shares)[-1]


def _place(name: str, request: GenerationRequest) -> float:
    """Where in 0 to 1 a request lies among the shares of `name`: equal for all of one conversation or user, as far as the client
    names either."""
    key = (
        request.headers.get(_KEY)
        or request.session_key
        or request.cache_key
        or request.history.conversation_id
        or request.user
        or request.id
    )
    text = "\0".join((name, request.caller.tenant, key))
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=_BYTES).digest()) / (1 << 8 * _BYTES)
