"""Says who is there by when each was heard last: suspected after a while without a word, and gone after a longer one.

Pure: the time is an argument. For carriers whose members all hear each other, over one machine or one server; gossip has its own
way. Above: the carriers. Below: the roles.
"""

import attrs

from smg_core.mesh.base import Ears, SeenMember

__all__ = ["Heartbeats"]

_JUST_AFTER_S = 0.001


@attrs.define(eq=False)
class _Heard:
    member: SeenMember
    start: int
    at: float


class Heartbeats:
    """The members that were heard, of which `ears` are told. `most` is how many are known at once."""

    def __init__(self, ears: Ears, suspect_s: float, dead_s: float, most: int) -> None:
        self._ears, self._suspect_s, self._dead_s, self._most = ears, suspect_s, dead_s, most
        self._heard: dict[str, _Heard] = {}

    @property
    def members(self) -> list[SeenMember]:
        """Those that are there."""
        return [each.member for each in self._heard.values()]

    def knows(self, name: str) -> bool:
        """Whether a member of that name is there."""
        return name in self._heard

    def heard(self, member: SeenMember, start: int, at: float) -> None:
        """A member was heard at that time; `start` tells its starts apart."""
        known = self._heard.get(member.name)
        if known is not None and start < known.start:
            return  # a late word of an earlier start
        if known is None and len(self._heard) >= self._most:
            return
        if known is None or start > known.start:
            self._heard[member.name] = _Heard(member, start, at)
            self._ears.came(member)
            return
        fresh, known.at = at > known.at, max(known.at, at)
        if fresh and known.member.state == "suspected":
            known.member = attrs.evolve(known.member, state="alive")
            self._ears.recovered(member.name)

    def lose(self, name: str) -> bool:
        """A member is known to be gone. Whether it was there until now."""
        return self._heard.pop(name, None) is not None

    def left(self, name: str) -> None:
        """A member has said that it goes."""
        if self._heard.pop(name, None) is not None:
            self._ears.left(name)

    def look(self, now: float) -> float:
        """Suspect and lose those that were not heard for long. The seconds after which another look may find one."""
        for name, each in list(self._heard.items()):
            silent = now - each.at
            if silent > self._dead_s:
                del self._heard[name]
                self._ears.lost(name)
            elif silent > self._suspect_s and each.member.state == "alive":
                each.member = attrs.evolve(each.member, state="suspected")
                self._ears.suspected(name)
        due = (
            each.at + (self._suspect_s if each.member.state == "alive" else self._dead_s)
            for each in self._heard.values()
        )
        return max(0.0, min(due, default=float("inf")) - now) + _JUST_AFTER_S
