"""A gateway before a provider that runs on the loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
from tests.providers.answers import KEY, Format, script
from tests.providers.client_apis import ClientApi
from tests.providers.fake import FakeProvider, providing
from tests.shared import PATIENCE

from smg_core import Config, Gateway
from smg_core.testing import MemoryObserver
from smg_core.workers.settings import BreakerConfig, WorkersConfig
from smg_core.workers.worker import WorkerSpec

__all__ = ["House", "before"]


@attrs.frozen
class House:
    """A gateway before one provider."""

    gateway: Gateway
    http: httpx.AsyncClient
    provider: FakeProvider
    form: Format
    observer: MemoryObserver

    def says(self, case: str) -> None:
        """What the provider says from now on; what it heard is forgotten."""
        self.provider.script = script(self.form, case)
        self.provider.heard.clear()

    async def ask(self, api: ClientApi, body: dict[str, Any], *, stream: bool = False) -> httpx.Response:
        """The answer to a body of an API."""
        path, sent = api.asked(body, stream=stream)
        return await self.http.post(path, json=sent)


@asynccontextmanager
async def before(form: Format, config: Config | None = None) -> AsyncIterator[House]:
    """A gateway whose only worker is the provider of `form`, under its own name and as "m"."""
    config = attrs.evolve(
        config or Config(), workers=WorkersConfig(health_interval_s=3600.0), breaker=BreakerConfig(failures=0)
    )
    config = attrs.evolve(config, model=attrs.evolve(config.model, served_names=("m",)))
    observer = MemoryObserver()
    async with providing(script(form, "text")) as provider:
        headers = () if form.credential is not None else (("authorization", f"Bearer {KEY}"),)
        spec = WorkerSpec(
            provider.url, dialect=form.kind, model=form.model, headers=headers, credential=form.credential
        )
        async with Gateway([spec], config=config, observer=observer) as gateway:
            await gateway.ready()
            async with gateway.http_client(httpx, base_url="http://gateway", timeout=PATIENCE) as http:
                yield House(gateway, http, provider, form, observer)
