"""Which model a request gets whose name is split between several, and which one comes next where that cannot answer.

Pure: a function of the settings and of the request, so that all turns of a request, and all requests of a conversation, get the
same model, in every process. Above: pipeline.preparing and pipeline.flow. Below: the settings.
"""

from collections.abc import Mapping
from hashlib import blake2b

from smg_core.errors import EngineFailed, NoWorker, Overloaded, PromptTooLong, SmgError, WorkerBusy, WorkerError
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig

__all__ = ["FALLBACK_REASONS", "ModelChoice", "fallback_reason"]

FALLBACK_REASONS: tuple[tuple[type[SmgError], str], ...] = (
    (PromptTooLong, "context"),
    (NoWorker, "no_worker"),
    (Overloaded, "overloaded"),
    (WorkerBusy, "overloaded"),
    (EngineFailed, "failed"),
    (WorkerError, "failed"),
)
"""The reason that an error is for asking another model; the first row that fits counts. Other errors are no reason."""

_KEY = "x-smg-routing-key"
_BYTES = 8


def fallback_reason(error: SmgError) -> str:
    """Why another model may be asked after `error`; "" where it may not."""
    return next((reason for kind, reason in FALLBACK_REASONS if isinstance(error, kind)), "")


class ModelChoice:
    """The splits and fallbacks of `settings`."""

    def __init__(self, settings: RoutingConfig) -> None:
        self._splits = settings.of_splits()
        self._fallbacks = settings.of_fallbacks()
        self._reasons = frozenset(settings.fallback_on)
        self._header = settings.split_header.lower()

    def foremost(self, name: str) -> str:
        """The model of the largest share of `name`; `name` itself where it is not split."""
        shares = self._splits.get(name)
        return name if shares is None else max(shares, key=lambda model: shares[model])

    def model(self, request: GenerationRequest) -> str:
        """The model that a request gets for the name that it asks for: the one that its header names, where that is one of the
        split, else by share. The name itself where it is not split."""
        shares = self._splits.get(request.model)
        if shares is None:
            return request.model
        named = request.headers.get(self._header, "") if self._header else ""
        return named if named in shares else _drawn(shares, _place(request))

    def chain(self, request: GenerationRequest) -> tuple[str, ...]:
        """The models that a request may get, one after the other. The first is the one that it gets; where the name stands for
        another model by an alias, the chain of the name as it was asked for counts."""
        first = self.model(request)
        return (first, *self._fallbacks.get(first, self._fallbacks.get(request.model, ())))

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


def _place(request: GenerationRequest) -> float:
    """Where in 0 to 1 a request lies: equal for all of one conversation or user, as far as the client names either."""
    key = (
        request.headers.get(_KEY)
        or request.session_key
        or request.cache_key
        or request.history.conversation_id
        or request.user
        or request.id
    )
    text = "\0".join((request.model, request.caller.tenant, key))
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=_BYTES).digest()) / (1 << 8 * _BYTES)
