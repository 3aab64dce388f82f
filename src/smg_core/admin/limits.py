"""The limits of a caller, at the admin door (edge): which rules apply, how full they are, what a request would get.

Above: admin.app. Below: `serving.limiting`.
"""

from msgspec import Struct

from smg_core.admin.answers import admin_operation, respond_json
from smg_core.errors import InvalidRequest
from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.request import Caller
from smg_core.serving.services import Services

__all__ = ["LIMITS", "AppliedRule", "LimitsOfCaller", "limit_routes"]

_DIGITS = 12  # of a number of tokens


class AppliedRule(Struct):
    """One rule that is for the caller: how much is left of its limit, after how many seconds it is as at the beginning (null:
    not by itself), and how long the request would wait for it (0: not at all, null: until something else ends)."""

    rule: str
    limit: int
    remaining: int
    full_s: float | None
    wait_s: float | None


class LimitsOfCaller(Struct):
    """The rules that are for a caller and a model, by the model's own name, and whether a request of `tokens` of prompt would be
    admitted now. Amounts of money are in millionths of a dollar."""

    model: str
    tokens: int
    admitted: bool
    rules: list[AppliedRule]


LIMITS = admin_operation(
    "adminLimits",
    "Which limits apply to a tenant, principal, user and model (as these are named in the query), how full they are, and what a "
    "request of so many tokens would get.",
    "limits",
    None,
    LimitsOfCaller,
)


def limit_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The route."""

    async def explained(exchange: Exchange) -> None:
        query = exchange.query
        named = {name: query.get(name, ("",))[-1] for name in ("tenant", "principal", "user", "model")}
        text = query.get("tokens", ("1",))[-1]
        if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
            raise InvalidRequest(f"A number of tokens has at most {_DIGITS} digits.", param="tokens")
        await respond_json(services, exchange, _explained(services, int(text), **named))

    return (Route("GET", "/admin/limits", Endpoint(explained, "admin.config", about=LIMITS)),)


def _explained(
    services: Services, tokens: int, *, tenant: str, principal: str, user: str, model: str
) -> LimitsOfCaller:
    caller = Caller(tenant, principal)
    served, limiting = services.lookup.served_name(model, caller), services.live.limiting
    rows = [] if limiting is None else limiting.explained(caller, user, model, tokens)
    rules = [
        AppliedRule(
            rule.text,
            full.limit,
            full.remaining,
            None if full.full_us is None else full.full_us / 1_000_000,
            None if wait < 0 else wait / 1_000_000,
        )
        for rule, full, wait in rows
    ]
    return LimitsOfCaller(served, tokens, all(each.wait_s == 0 for each in rules), rules)
