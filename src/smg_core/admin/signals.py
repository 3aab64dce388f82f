"""Signals for an autoscaler, at the admin door (edge).

`/admin/signals`: how busy the workers of each model and role are together, over all processes, for KEDA and for adapters of the
HPA, which read a number out of JSON. Above: admin.app. Below: workers.pools.
"""

import msgspec
from msgspec import Struct

from smg_core.http.endpoint import Endpoint
from smg_core.http.exchange import Exchange
from smg_core.http.routes import Route
from smg_core.pool_sample import PoolSampled
from smg_core.serving.services import Services
from smg_core.wire.operation import Operation, OperationResponse

__all__ = ["SIGNALS", "PoolSignals", "signal_routes"]


class PoolSignals(Struct):
    """The pools of workers. `totals` are sums over those that are shown; `wait_s` is the longest. `prefill_share`: of each model
    that has both, how many of its ready workers for prefill and decode read prompts, and how many of their requests are
    theirs, both 0 to 1: where the second is larger, the pools' ratio asks for more prefill workers."""

    pools: tuple[PoolSampled, ...]
    totals: PoolSampled
    prefill_share: dict[str, tuple[float, float]]


SIGNALS = Operation(
    "adminSignals",
    "How busy the workers of each model and role are together: for autoscalers. `?model=` and `?role=` name those that count.",
    "workers",
    None,
    (OperationResponse(200, "The pools.", PoolSignals),),
)


def signal_routes(services: Services) -> tuple[Route[Endpoint], ...]:
    """The route."""

    async def answer(exchange: Exchange) -> None:
        registry = services.registry
        pools = registry.pools.sampled(registry, services.clock.monotonic())
        asked = {name: values[-1] for name in ("model", "role") if (values := exchange.query.get(name))}
        chosen = tuple([each for each in pools if all(getattr(each, name) == value for name, value in asked.items())])
        found = PoolSignals(chosen, _total(chosen, asked), _shares(chosen))
        exchange.take_id(services.ids, "req_")
        headers = [(b"content-type", b"application/json"), services.request_ids.header(exchange.name)]
        await exchange.respond(200, msgspec.json.encode(found), headers)

    return (Route("GET", "/admin/signals", Endpoint(answer, "admin.workers", about=SIGNALS)),)


def _total(pools: tuple[PoolSampled, ...], asked: dict[str, str]) -> PoolSampled:
    rates = [each.ended_a_second for each in pools if each.ended_a_second is not None]
    waits = [each.wait_s for each in pools]
    known = [each for each in waits if each is not None]
    workers = sum(each.workers for each in pools)
    return PoolSampled(
        model=asked.get("model", ""),
        role=asked.get("role", ""),
        workers=workers,
        ready=sum(each.ready for each in pools),
        in_flight=sum(each.in_flight for each in pools),
        waiting=sum(each.waiting for each in pools),
        running=sum(each.running for each in pools),
        waiting_tokens=sum(each.waiting_tokens for each in pools),
        kv_usage=sum(each.kv_usage * each.workers for each in pools) / workers if workers else 0.0,
        ended_a_second=sum(rates) if rates else None,
        wait_s=max(known, default=0.0) if len(known) == len(waits) else None,
    )


def _shares(pools: tuple[PoolSampled, ...]) -> dict[str, tuple[float, float]]:
    """Of each model with pools for prefill and decode, prefill's share of the ready workers and of their requests."""
    by_model: dict[str, dict[str, PoolSampled]] = {}
    for each in pools:
        by_model.setdefault(each.model, {})[each.role] = each
    found = {}
    for model, roles in by_model.items():
        if "prefill" in roles and "decode" in roles:
            prefill, decode = roles["prefill"], roles["decode"]
            found[model] = (
                _share(prefill.ready, decode.ready),
                _share(prefill.in_flight + prefill.waiting, decode.in_flight + decode.waiting),
            )
    return found


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0
