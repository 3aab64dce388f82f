"""The start, drain and end of a gateway, for the app and operators (edge): a role. Above: app, operation, admin."""

from collections.abc import Callable, Sequence
from typing import Protocol

from smg_core.config.config import Config
from smg_core.serving.services import Services
from smg_core.serving.spec import ApiSpec

__all__ = ["Lifecycle"]


class Lifecycle(Protocol):
    """A gateway that can be started and ended, with its services and the rows of its APIs."""

    @property
    def services(self) -> Services: ...

    @property
    def apis(self) -> Sequence[ApiSpec]: ...

    async def start(self) -> None: ...

    async def rest(self, *, for_good: bool = False) -> None: ...

    async def ready(self, timeout: float | None, /) -> None: ...

    def when_stopped(self, tell: Callable[[], object], /) -> None: ...

    def adopt(self, config: Config, /) -> None: ...
