"""Compares the settings of the gateways of a mesh, section by section, and warns where they differ.

Pure. Nothing is taken over: what differs is named in the log and at the admin door, by sections and never by values. Sections
that are each gateway's own (where it listens, its name in the mesh) are not compared. Above: the opening. Below: the settings,
the state of the mesh.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

import attrs
import msgspec

from smg_core.config.config import Config
from smg_core.mesh.state.entries import MeshChange, Space
from smg_core.mesh.state.node import Node, SideStanding

__all__ = ["SettingsPart", "sections_of"]

_log = logging.getLogger("smg.mesh")

_OWN = frozenset({"server", "mesh", "admin", "tls", "channel"})
_LASTS_S, _AGAIN_S = 3600.0, 600.0
_sections = msgspec.msgpack.Decoder(dict[str, bytes]).decode


def sections_of(config: Config) -> dict[str, bytes]:
    """A hash of each section that gateways should have alike, without its secrets."""
    found = {}
    for section in attrs.fields(Config):
        if section.name not in _OWN:
            record = getattr(config, section.name)
            fields = [each.name for each in attrs.fields(type(record)) if not each.metadata.get("secret")]
            text = repr([(name, getattr(record, name)) for name in fields])
            found[section.name] = blake2b(text.encode(), digest_size=8).digest()
    return found


class SettingsPart:
    """The settings of one gateway, which `config` returns as they are now. `differing` has the sections by gateway."""

    spaces = frozenset({Space.SETTINGS})

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._of: Config | None = None
        self._own: dict[str, bytes] = {}
        self._spoke_at = float("-inf")
        self._others: dict[str, dict[str, bytes]] = {}
        self.differing: Mapping[str, tuple[str, ...]] = {}

    def stands(self, standing: SideStanding, now: float) -> None:
        """It makes no difference here how many there are."""

    def tell(self, node: Node, now: float) -> None:
        """Say what the settings are when they have changed, and from time to time."""
        config = self._config()
        if config is self._of and now - self._spoke_at < _AGAIN_S:
            return
        if config is not self._of:
            self._of, self._own = config, sections_of(config)
            self._compare()
        self._spoke_at = now
        node.put(Space.SETTINGS, b"", msgspec.msgpack.encode(self._own), _LASTS_S, now)

    def hear(self, changes: Sequence[MeshChange], now: float) -> None:
        """Others have said what their settings are."""
        for change in changes:
            try:
                sections = _sections(change.value) if change.value else None
            except msgspec.MsgspecError:
                continue
            if sections is None:
                self._others.pop(change.writer.name, None)
            else:
                self._others[change.writer.name] = sections
        self._compare()

    def _compare(self) -> None:
        before, found = self.differing, {}
        for name, theirs in self._others.items():
            sections = tuple(each for each, value in self._own.items() if theirs.get(each, value) != value)
            if sections:
                found[name] = sections
        self.differing = found
        for name, sections in found.items():
            if before.get(name) != sections:
                _log.warning("mesh: gateway %s has other settings in the sections %s", name, ", ".join(sections))
