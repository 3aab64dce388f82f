"""The row of a public API (edge): all that other parts of the gateway know of it, in one record.

`apis.ALL` lists the rows; `table_of` makes of them what is handed to the rooms that need it. Pure. Above: every API, the
assembly. Below: the route table, the services.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from smg_core.auth.roles import GENERAL_PERMISSIONS
from smg_core.http.endpoint import Endpoint, Handler
from smg_core.http.envelopes import EnvelopeRule, Envelopes
from smg_core.http.routes import Route
from smg_core.serving.api_table import ApiTable
from smg_core.serving.services import Services
from smg_core.trials import ApiTrials
from smg_core.wire.base import ErrorEncoder

__all__ = ["ApiContext", "ApiName", "ApiSpec", "BatchTarget", "again", "table_of", "trials_of"]


@attrs.frozen
class BatchTarget:
    """Where the requests of a batch go that name a path: the handler that answers them, the permission that their callers need,
    the envelope of their errors."""

    answer: Handler
    needs: str
    error: ErrorEncoder


@attrs.frozen
class ApiContext:
    """What an API makes its routes with: the services of the gateway, and `batched`, into which it puts what its paths are for
    requests of batches. An API that reads `batched` does so when it is called, since the APIs behind it fill it too."""

    services: Services
    batched: dict[str, BatchTarget] = attrs.field(factory=dict)


@attrs.frozen
class ApiName:
    """What the requests of an API are called: `name` in logs, metrics and `Origin.api`, `operation` in the conventions of
    OpenTelemetry for GenAI."""

    name: str
    operation: str = "chat"


@attrs.frozen
class ApiSpec:
    """A public API. `permissions` are those that its routes need, and what each permits; `envelopes` say which paths have errors
    in its words; `routes` makes its routes, with their descriptions, over one gateway; `trials` are the requests that it is tried
    with, on other servers and on every engine."""

    names: tuple[ApiName, ...]
    permissions: Mapping[str, str]
    routes: Callable[[ApiContext], Sequence[Route[Endpoint]]]
    envelopes: tuple[EnvelopeRule, ...] = ()
    trials: ApiTrials | None = None


def table_of(specs: Iterable[ApiSpec]) -> ApiTable:
    """The table of these APIs."""
    found = tuple(specs)
    names = [name for spec in found for name in spec.names]
    return ApiTable(
        permissions={
            **{name: text for spec in found for name, text in spec.permissions.items()},
            **GENERAL_PERMISSIONS,
        },
        envelopes=Envelopes(rule for spec in found for rule in spec.envelopes),
        operations={name.name: name.operation for name in names if name.operation != "chat"},
    )


def trials_of(specs: Iterable[ApiSpec]) -> dict[str, ApiTrials]:
    """The trials of the APIs that have some, by the name of each."""
    return {spec.trials.api: spec.trials for spec in specs if spec.trials is not None}


def again(endpoint: Endpoint, ending: str = "v1") -> Endpoint:
    """The same endpoint for its second path or method; the name of its description gets the ending."""
    about = endpoint.about
    if about is None:
        return endpoint
    return attrs.evolve(endpoint, about=attrs.evolve(about, name=f"{about.name}_{ending}"))
