"""A worker's entry in messages between processes: what it is to be, or that it is to go.

Decides how that is written (MessagePack); pure. Above: fleet.roster. Below: worker. A key may be among a worker's headers:
what is written here goes from one process of a gateway to another, and nowhere else.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import msgspec

from smg_core.engines.connections.credential import CredentialSpec
from smg_core.engines.connections.target import Tls
from smg_core.workers.worker import WorkerSpec

__all__ = ["RosterEntry", "read_entry", "written_entry"]


@attrs.frozen
class RosterEntry:
    """What a worker is to be: `spec`, None for one that is to go at once; whose it is; whether an operator drains it, so that it
    gets no new requests, and whether its calls go on elsewhere (`move`). With `retire_s` it gets none either, and goes when its
    requests have ended, or after so many seconds, which are over at `retires_at` (seconds since the Unix epoch)."""

    name: str
    spec: WorkerSpec | None
    source: str = "program"
    draining: bool = False
    move: bool = False
    retire_s: float | None = None
    retires_at: float = 0.0

    @property
    def takes_requests(self) -> bool:
        return not self.draining and self.retire_s is None


def written_entry(entry: RosterEntry) -> bytes:
    """The bytes of an entry."""
    fields = attrs.asdict(entry, recurse=False)
    if entry.spec is not None:
        spec = attrs.asdict(entry.spec, recurse=False)
        if entry.spec.tls is not None:
            spec["tls"] = {
                name: _material(value) for name, value in attrs.asdict(entry.spec.tls, recurse=False).items()
            }
        fields["spec"] = spec
    return msgspec.msgpack.encode(fields)


def read_entry(data: bytes) -> RosterEntry:
    """The entry that `written_entry` has written."""
    fields = msgspec.msgpack.decode(data)
    if fields["spec"] is not None:
        spec = {name: _tuples(value) for name, value in fields["spec"].items()}
        if fields["spec"]["tls"] is not None:
            spec["tls"] = Tls(**fields["spec"]["tls"])  # which makes paths of texts
        if fields["spec"]["credential"] is not None:
            spec["credential"] = msgspec.convert(fields["spec"]["credential"], CredentialSpec)
        fields["spec"] = WorkerSpec(**spec)
    return RosterEntry(**fields)


def _material(value: object) -> object:
    """A path is told from the bytes of a certificate by its type."""
    return str(value) if isinstance(value, Path) else value


def _tuples(value: object) -> Any:
    """Lists as the tuples that they were."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(_tuples(each) for each in value)
    return value
