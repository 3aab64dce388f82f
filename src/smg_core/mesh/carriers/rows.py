"""The carriers by name; each is loaded when it is first asked for (edge: it imports them).

A further one is a module and a row here. Above: the gateway's mesh. Below: the carriers.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

import attrs

from smg_core.clock import Clock
from smg_core.extras import missing
from smg_core.mesh.base import MeshLink
from smg_core.mesh.settings import MeshConfig
from smg_core.settings import ConfigError

__all__ = ["CARRIERS", "CarrierRow", "LinkTerms", "mesh_link"]


@attrs.frozen
class LinkTerms:
    """What a link is made of: the settings, this member's name, its keys, what it says of its formats and its software, and the
    place of the server where the settings of the mesh name none."""

    settings: MeshConfig
    name: str
    keys: Sequence[bytes]
    formats: str
    version: str
    clock: Clock
    url: str | None = None


@attrs.frozen
class CarrierRow:
    """A carrier: the module and the class of its links, and the extra that brings what it needs."""

    module: str
    link: str
    extra: str = ""


CARRIERS: dict[str, CarrierRow] = {
    "local": CarrierRow("smg_core.mesh.carriers.local", "LocalLink"),
    "valkey": CarrierRow("smg_core.mesh.carriers.valkey", "ValkeyLink", "redis"),
    "gossip": CarrierRow("smg_core.mesh.carriers.gossip", "GossipLink", "mesh"),
}


def mesh_link(terms: LinkTerms) -> MeshLink:
    """The link that the settings name. Raises ConfigError where it cannot be, or its library is missing."""
    row = CARRIERS[terms.settings.kind]
    try:
        link = getattr(import_module(row.module), row.link)
    except ModuleNotFoundError as error:
        raise ConfigError(missing(f"mesh.kind {terms.settings.kind}", error, row.extra)) from None
    return cast("MeshLink", link(terms))
