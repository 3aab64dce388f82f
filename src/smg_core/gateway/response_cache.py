"""Makes the cache of answers from the settings, and has it go by others while the gateway runs (edge).

A gateway without it loads nothing of it. Above: the assembly. Below: `response_cache`.
"""

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from smg_core.channel.base import Notice
from smg_core.channel.settling import known_everywhere
from smg_core.extras import missing
from smg_core.serving.services import Services
from smg_core.settings import ConfigError

if TYPE_CHECKING:
    from smg_core.response_cache.caching import ResponseCaching

__all__ = ["adopt_caching", "begin_caching"]

_FORGET, _FORGET_ALL = "response_cache.forget", "response_cache.forget_all"
"""The kinds of messages by which processes tell each other whose answers to forget."""


async def begin_caching(services: Services, stack: AsyncExitStack) -> None:
    """Keep answers from now on, where the settings say so, until `stack` ends. Raises ConfigError where the library for the store
    is missing."""
    adopt_caching(services)
    stack.push_async_callback(_end, services)


def adopt_caching(services: Services) -> None:
    """Go by what the settings say of the cache of answers. Raises ConfigError where the library for its store is missing."""
    live = services.live
    settings = live.config.response_cache
    if not settings.kept_s:
        if live.caching is not None:
            live.caching.clear()
        live.caching = None
        return
    from smg_core.response_cache.caching import ResponseCaching
    from smg_core.response_cache.flight import Follow, follow_flight

    caching = services.side_tasks.one_of(ResponseCaching, lambda: _made(services))
    services.running.history.on_erased = caching.erase
    if settings.store is not None and caching.store is None:
        try:
            from smg_core.response_cache.answer_store import AnswerStore
        except ModuleNotFoundError as error:
            raise ConfigError(missing("response_cache.store", error)) from None
        try:
            caching.store = AnswerStore(settings.store, services.clock, settings.store_timeout_s)
        except ValueError as error:
            raise ConfigError(f"response_cache.store: {error}") from None
    caching.adopt(settings)
    services.running.driver.learn({Follow: follow_flight})
    live.caching = caching


def _made(services: Services) -> "ResponseCaching":
    """The cache of answers of a gateway."""
    from smg_core.response_cache.caching import ResponseCaching

    live = services.live
    caching = ResponseCaching(
        services.clock,
        lambda request: services.lookup.served(request.model, request.caller),
        lambda name: [
            f"{key}={value}" for worker in services.registry.of(name) for key, value in worker.facts.reported
        ],
        lambda tenant, principal: services.running.history.keeps(tenant, principal),
        lambda request: "" if live.guarding is None else live.guarding.mark(request.caller, request.model),
        services.side_tasks.note_end,
        lambda tenant: _tell(services, tenant),
    )

    def heard(notice: Notice) -> None:
        caching.forget(notice.body.decode("utf-8", "surrogatepass"))

    services.channel.subscribe(_FORGET, heard)
    services.channel.subscribe(_FORGET_ALL, lambda notice: caching.forget(None))
    return caching


async def _tell(services: Services, tenant: str | None) -> None:
    """Have all processes forget a tenant's answers, or all. Raises Overloaded where it is not known whether they have."""
    body = b"" if tenant is None else tenant.encode("utf-8", "surrogatepass")
    number = await services.channel.publish(_FORGET_ALL if tenant is None else _FORGET, body)
    await known_everywhere(services.channel, number, services.live.config.channel.publish_s)


async def _end(services: Services) -> None:
    caching, services.live.caching = services.live.caching, None
    if caching is not None:
        await caching.close()
