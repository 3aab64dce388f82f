"""Of several processes at most one leads, and one does whenever one takes requests, in whatever order they start and end."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.tiers import examples

from smg_core.processes.leader_election import LEADING, Leadership, ProcessWord
from smg_core.processes.succession import Succession

SLOTS = 3


def test_the_first_process_leads_from_its_start_and_no_other() -> None:
    leadership = Leadership()

    assert leadership.started(1, 0, succeeds=False) == [(1, "lead")]
    assert leadership.started(2, 1, succeeds=False) == []
    assert leadership.ready(2, 1, None, succeeds=False) == leadership.ready(1, 0, None, succeeds=False) == []


def test_while_the_first_slot_cannot_start_one_that_serves_leads_and_goes_on_leading() -> None:
    leadership = Leadership()
    leadership.started(1, 0, succeeds=False)

    assert leadership.ended(1, {1: 2, 2: 3}) == [(2, "lead")]
    assert leadership.started(4, 0, succeeds=False) == []
    assert leadership.ended(4, {1: 2, 2: 3}) == []
    assert leadership.started(5, 0, succeeds=False) == leadership.ready(5, 0, None, succeeds=False) == []
    assert leadership.ended(2, {0: 5, 2: 3}) == [(5, "lead")]


def test_where_none_serves_the_next_that_does_leads_or_the_first_slot_when_it_starts() -> None:
    one, other = Leadership(), Leadership()
    for leadership in (one, other):
        leadership.started(1, 0, succeeds=False)
        assert leadership.ended(1, {}) == []

    assert one.ready(2, 1, None, succeeds=False) == [(2, "lead")]
    assert other.started(3, 0, succeeds=False) == [(3, "lead")]


def test_the_first_process_of_new_settings_leads_and_whoever_led_follows() -> None:
    leadership = Leadership()
    leadership.started(1, 0, succeeds=False)
    assert leadership.started(2, 0, succeeds=True) == []
    assert leadership.ready(2, 0, 1, succeeds=True) == [(2, "revise")]
    leadership.ended(2, {1: 3})

    assert leadership.ready(4, 0, None, succeeds=True) == [(3, "follow"), (4, "revise")]


def test_a_process_that_leads_and_is_replaced_in_another_slot_is_followed_by_its_successor() -> None:
    leadership = Leadership()
    leadership.started(1, 0, succeeds=False)
    leadership.ended(1, {1: 2})

    assert leadership.ready(3, 1, 2, succeeds=True) == [(3, "lead")]


class Processes(RuleBasedStateMachine):
    """Processes that start, come up, end and are replaced, as a supervisor has it."""

    @initialize()
    def begun(self) -> None:
        self.succession, self.leadership = Succession(SLOTS), Leadership()
        self.slots: dict[int, int] = {}  # of the processes that are alive, by their numbers
        self.up: set[int] = set()
        self.lead: set[int] = set()
        self.down: set[int] = set()
        self.lost: set[int] = set()
        for slot in range(SLOTS):
            self.start(slot)

    def start(self, slot: int, *, succeeds: bool = False) -> int:
        number = self.succession.number()
        self.slots[number] = slot
        self.say(self.leadership.started(number, slot, succeeds=succeeds))
        return number

    def say(self, words: list[ProcessWord]) -> None:
        for number, word in words:
            assert number in self.slots
            (self.lead.discard if word == "follow" else self.lead.add)(number)

    @rule(data=st.data())
    def comes_up(self, data: st.DataObject) -> None:
        if coming := sorted(self.slots.keys() - self.up):
            number = data.draw(st.sampled_from(coming))
            self.up.add(number)
            succeeds = number == self.succession.starting
            leaving = self.succession.ready(number, self.slots[number])
            if leaving is not None:
                self.lead.discard(leaving)  # it is told to retire
            self.say(self.leadership.ready(number, self.slots[number], leaving, succeeds=succeeds))
            if succeeds:
                self.lost.discard(self.slots[number])

    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        if not self.slots:
            return
        number = data.draw(st.sampled_from(sorted(self.slots)))
        slot = self.slots.pop(number)
        self.lead.discard(number)
        self.up.discard(number)
        role = self.succession.ended(number, slot)
        self.say(self.leadership.ended(number, self.succession.all_serving))
        starting = self.succession.starting
        if role == "successor":
            if self.succession.serving(slot) is None and slot in self.lost:
                self.lost.discard(slot)
                self.start(slot)
        elif role == "serving":
            succeeded = starting is not None and self.slots[starting] == slot
            (self.lost if succeeded else self.down).add(slot)

    @rule(data=st.data())
    def is_started_again(self, data: st.DataObject) -> None:
        if self.down:
            slot = data.draw(st.sampled_from(sorted(self.down)))
            self.down.discard(slot)
            self.start(slot)

    @rule()
    def all_are_replaced(self) -> None:
        self.succession.begin()

    @rule()
    def one_is_succeeded(self) -> None:
        slot = self.succession.next_slot(self.down)
        if slot is not None:
            if slot in self.down:
                self.down.discard(slot)
                self.lost.add(slot)
            self.succession.started(self.start(slot, succeeds=True))

    @invariant()
    def at_most_one_leads_and_one_does_where_one_serves(self) -> None:
        if not hasattr(self, "slots"):
            return
        assert len(self.lead) <= 1
        assert self.lead == ({self.leadership.leader} if self.leadership.leader is not None else set())
        if self.succession.all_serving:
            assert self.lead

    @invariant()
    def one_that_does_not_serve_leads_only_from_its_start_in_the_first_slot(self) -> None:
        for number in getattr(self, "lead", set()) - set(getattr(self, "up", ())):
            assert self.slots[number] == LEADING


Processes.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestProcesses = pytest.mark.filterwarnings("error")(Processes.TestCase)
