"""A network and clocks that exist in memory alone: members of a mesh with messages that are lost, doubled, late or out of order.

Time goes in steps of a member's period. What a membership knows is modelled by what it could find out: a member is there for
another one while words can go both ways between them, or over a third one; it is lost once that has not been so for `find_out_s`.
"""

import heapq
import random
from collections.abc import Callable, Iterator

import attrs

from smg_core.mesh.base import SeenMember
from smg_core.mesh.heartbeats import Heartbeats
from smg_core.mesh.state.entries import MeshChange, Space, Writer
from smg_core.mesh.state.format import FORMATS
from smg_core.mesh.state.node import Node, NodeTerms

STEP_S = 0.1


@attrs.define(eq=False)
class Member:
    """One member: its node, the difference of its clocks from true time, and what it has said, to be compared."""

    name: str
    node: Node
    skew_s: float = 0.0
    stopped: bool = False
    said: dict[bytes, bytes] = attrs.field(factory=dict)

    def now(self, at: float) -> float:
        return at + self.skew_s


class Network:
    """`count` members; `loss`, `doubled` and `late_s` are of every message, until `heal`. `cut` are the pairs (from, to) between
    which nothing goes."""

    def __init__(
        self,
        count: int,
        rng: random.Random,
        *,
        loss: float = 0.0,
        doubled: float = 0.0,
        late_s: float = 0.0,
        terms: NodeTerms | None = None,
        find_out_s: float = 4.0,
    ) -> None:
        self.rng, self.loss, self.doubled, self.late_s = rng, loss, doubled, late_s
        self.terms = terms or NodeTerms()
        self.find_out_s = find_out_s
        self.at = 1_000_000.0
        self.cut: set[tuple[str, str]] = set()
        self.members: dict[str, Member] = {}
        self._messages: list[tuple[float, int, str, str, bytes]] = []
        self._number = 0
        self._apart_since: dict[tuple[str, str], float] = {}
        self._lost: set[tuple[str, str]] = set()
        self.hear: Callable[[Member, list[MeshChange]], None] = lambda member, changes: None
        for number in range(count):
            self.start(f"m{number}")

    # ------------------------------------------------------------------------------------------------------------- members

    def start(self, name: str, *, epoch_back: int = 0) -> Member:
        """A member begins, or begins anew without memory; its clock may have been set back meanwhile."""
        epoch = int(self.at * 1000) - epoch_back
        node = Node(Writer(name, epoch), self.terms, self.rng, self.at)
        member = self.members[name] = Member(name, node)
        for other in self.members.values():
            if other.stopped:  # it is found again once it goes on
                self._lost |= {(name, other.name), (other.name, name)}
            elif other is not member:
                self._apart_since.pop((name, other.name), None)
                self._lost.discard((name, other.name))
                self._post(member, node.joined(other.name, FORMATS, self.at))
                self._lost.discard((other.name, name))
                self._post(other, other.node.joined(name, FORMATS, other.now(self.at)))
        return member

    def say(self, name: str, key: bytes, value: bytes, space: Space = Space.HEALTH) -> None:
        """A member says something."""
        member = self.members[name]
        member.said[key] = value
        member.node.put(space, key, value, 3600.0, member.now(self.at))

    def start_with_memory(self, name: str) -> Member:
        """A member begins anew, and says again what it had said."""
        said = self.members[name].said
        member = self.start(name)
        for key, value in said.items():
            self.say(name, key, value)
        return member

    def jump(self, name: str, seconds: float) -> None:
        """A member's clock is set forward by so much: its process was stopped for so long, and sees it now."""
        self.members[name].skew_s += seconds

    # ------------------------------------------------------------------------------------------------------------- network

    def split(self, *sides: set[str]) -> None:
        """Nothing goes from one side to another."""
        for one in sides:
            for other in sides:
                if one is not other:
                    self.cut |= {(a, b) for a in one for b in other}

    def heal(self) -> None:
        """All goes well from now on."""
        self.cut.clear()
        self.loss = self.doubled = self.late_s = 0.0

    def _post(self, sender: Member, sends: list) -> None:
        for send in sends:
            for name in [send.to] if send.to is not None else list(sender.node.peers):
                self._carry(sender.name, name, send.data)

    def _carry(self, sender: str, name: str, data: bytes) -> None:
        for _ in range(2 if self.rng.random() < self.doubled else 1):
            if self.rng.random() >= self.loss and (sender, name) not in self.cut:
                self._number += 1
                due = self.at + self.rng.random() * self.late_s
                heapq.heappush(self._messages, (due, self._number, sender, name, data))

    def _can_talk(self, one: str, other: str) -> bool:
        return (one, other) not in self.cut and (other, one) not in self.cut

    def _reaches(self, one: str, other: str) -> bool:
        if self.members[one].stopped or self.members[other].stopped:
            return False
        if self._can_talk(one, other):
            return True
        return any(
            not third.stopped and self._can_talk(one, third.name) and self._can_talk(third.name, other)
            for third in self.members.values()
        )

    def _membership(self) -> None:
        for one in self.members.values():
            if one.stopped:
                continue
            for other in self.members:
                pair = (one.name, other)
                if other == one.name:
                    continue
                if self._reaches(one.name, other):
                    self._apart_since.pop(pair, None)
                    if pair in self._lost:
                        self._lost.discard(pair)
                        self._post(one, one.node.joined(other, FORMATS, one.now(self.at)))
                elif pair not in self._lost:
                    since = self._apart_since.setdefault(pair, self.at)
                    if self.at - since >= self.find_out_s:
                        self._lost.add(pair)
                        one.node.lost(other, one.now(self.at))

    def run(self, seconds: float, each_step: Callable[[], None] = lambda: None) -> None:
        """Let so many seconds pass."""
        for _ in range(round(seconds / STEP_S)):
            self.at += STEP_S
            self._membership()
            each_step()
            for member in list(self.members.values()):
                if not member.stopped:
                    self._post(member, member.node.tick(member.now(self.at)))
            self._deliver()

    def _deliver(self) -> None:
        while self._messages and self._messages[0][0] <= self.at:
            _, _, sender, name, data = heapq.heappop(self._messages)
            member = self.members[name]
            if not member.stopped and (sender, name) not in self.cut:
                self._arrives(member, sender, data)

    def _arrives(self, member: Member, sender: str, data: bytes) -> None:
        self._post(member, member.node.received(sender, data, member.now(self.at)))
        self.hear(member, member.node.take_changes())

    # -------------------------------------------------------------------------------------------------------------- reading

    def views(self) -> Iterator[tuple[str, dict[tuple[str, bytes], bytes]]]:
        """What each member that runs knows of what those that run say."""
        running = {each.name for each in self.members.values() if not each.stopped}
        for member in self.members.values():
            if not member.stopped:
                replica = member.node.replica
                yield (
                    member.name,
                    {
                        (writer.name, place.key): value
                        for writer, entries in replica.content().items()
                        if writer.name in running and replica.latest(writer.name) == writer
                        for place, (_, value) in entries.items()
                        if place.space not in (Space.ACKS, Space.COUNTER)
                    },
                )

    def expected(self) -> dict[tuple[str, bytes], bytes]:
        """What all that run say."""
        return {
            (each.name, key): value
            for each in self.members.values()
            if not each.stopped
            for key, value in each.said.items()
        }


ACTS = [
    "halves",
    "one way",
    "partial",
    "stop",
    "jump",
    "restart",
    "restart with memory",
    "clock set back",
    "loss",
    "heal",
]


def act(network: Network, rng: random.Random, what: str) -> None:
    """Something happens to the network, or to one member."""
    names = list(network.members)
    name, other = rng.sample(names, 2)
    one = set(rng.sample(names, rng.randrange(1, len(names))))
    if what == "halves":
        network.split(one, set(names) - one)
    elif what == "one way":
        network.cut |= {(a, b) for a in one for b in set(names) - one}
    elif what == "partial":
        network.cut |= {(name, other), (other, name)}
    elif what == "stop":
        network.members[name].stopped = not network.members[name].stopped
    elif what == "jump":
        network.jump(name, rng.choice([10.0, 30.0]))
    elif what == "restart with memory":
        network.start_with_memory(name)
    elif what == "loss":
        network.loss, network.doubled, network.late_s = rng.random() * 0.3, rng.random() * 0.3, rng.random() * 0.5
    elif what == "heal":
        network.heal()
    else:
        network.start(name, epoch_back=86_400_000 if what == "clock set back" else 0)


_BEAT = b"beat "


@attrs.frozen
class _Ears:
    """What heartbeats tell one member of the others."""

    network: "BeatingNetwork"
    member: Member

    def came(self, member: SeenMember) -> None:
        network, node = self.network, self.member.node
        network._post(self.member, node.joined(member.name, FORMATS, self.member.now(network.at)))

    def suspected(self, name: str) -> None:
        self.network.suspicions += 1

    def recovered(self, name: str) -> None: ...

    def lost(self, name: str) -> None:
        self.network.losses += 1
        self.member.node.lost(name, self.member.now(self.network.at))

    left = lost

    def heard(self, sender: str, data: bytes) -> None: ...


class BeatingNetwork(Network):
    """A network whose members know of each other by heartbeats alone, which go as all messages go: they come late, twice, or
    not."""

    beat_s, suspect_s, dead_s = 0.6, 1.5, 4.0

    def __init__(self, count: int, rng: random.Random, **network: float) -> None:
        self.beats: dict[str, Heartbeats] = {}
        self.suspicions = self.losses = 0
        self._next_beat: dict[str, float] = {}
        super().__init__(count, rng, find_out_s=self.dead_s + self.beat_s, **network)  # type: ignore[arg-type]

    def start(self, name: str, *, epoch_back: int = 0) -> Member:
        node = Node(Writer(name, int(self.at * 1000) - epoch_back), self.terms, self.rng, self.at)
        member = self.members[name] = Member(name, node)
        self.beats[name] = Heartbeats(_Ears(self, member), self.suspect_s, self.dead_s, 1024)
        self._next_beat[name] = self.at
        return member

    def _membership(self) -> None:
        for name, member in self.members.items():
            if member.stopped:
                continue
            if self.at >= self._next_beat[name]:
                self._next_beat[name] = self.at + self.beat_s
                for other in self.members:
                    if other != name:
                        self._carry(name, other, _BEAT + b"%d" % member.node.own.epoch)
            self.beats[name].look(member.now(self.at))

    def _arrives(self, member: Member, sender: str, data: bytes) -> None:
        beats = self.beats[member.name]
        if data.startswith(_BEAT):
            beats.heard(SeenMember(sender), int(data.removeprefix(_BEAT)), member.now(self.at))
        elif beats.knows(sender):
            super()._arrives(member, sender, data)
