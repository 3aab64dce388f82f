"""The plugins of a gateway, in order, and which of them an exchange meets (edge).

Decides that by route, tenant and kind. Above: `server`, `storing`. Below: `chain`, which runs those of one exchange.
"""

import attrs

from smg_core.middleware.base import About, Middleware
from smg_core.middleware.chain import NamesOf, PluginChain, PluginRules, ReportHappened, When
from smg_core.middleware.entries import ASGI, Link

__all__ = ["PluginPlan"]


@attrs.frozen
class PluginPlan:
    """All plugins, in order. A plan is never changed: another takes its place."""

    links: tuple[Link, ...] = ()
    rules: PluginRules = attrs.field(factory=PluginRules)

    def chain(self, about: About, report: ReportHappened, names_of: NamesOf | None = None) -> PluginChain | None:
        """The chain of an exchange whose route is known; None where no plugin is on that route. `names_of` has all names of what
        a request for a model may lead to, by default the one that it has."""
        found = [each for each in self.links if each.entry.kind != ASGI and each.entry.is_on_route(about)]
        return PluginChain(found, about, self.rules, report, names_of or (lambda name: (name,))) if found else None

    def on_arrival(self, about: About | None = None) -> tuple[Middleware, ...]:
        """What meets a connection only once, when it is opened: ASGI middleware, and plugins that are asked whose it is. All of
        it, or what applies to one connection."""
        return tuple(
            each.middleware
            for each in self.links
            if (each.entry.kind == ASGI or each.entry.when == "before_identity")
            and (about is None or each.entry.applies(about))
        )

    @property
    def has_asgi(self) -> bool:
        """Whether there is ASGI middleware at all."""
        return any(each.entry.kind == ASGI for each in self.links)

    def around(self, about: About, when: When) -> tuple[Link, ...]:
        """The ASGI middleware that stands around an exchange at this time, the outermost first."""
        return tuple(
            each
            for each in self.links
            if each.entry.kind == ASGI and each.entry.when == when and each.entry.applies(about)
        )
