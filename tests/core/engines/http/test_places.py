"""Places for connections: none is free while one waits that may have it, none is lost, some are for questions."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from smg_core.engines.http.places import ConnectionPlaces, PlaceKind
from smg_core.engines.settings import EnginesConfig

PLACES, KEPT = 2, 1


@attrs.define(eq=False)
class Caller:
    """A call: `has` is its place; one that has left takes none."""

    number: int
    question: bool
    heard: int = 0
    has: PlaceKind | None = None
    left: bool = False

    def take(self, given: PlaceKind | None) -> bool:
        if not self.left:
            self.has = given
        return not self.left


@attrs.define
class House:
    """Calls that come, end, and leave while they wait."""

    places: ConnectionPlaces[PlaceKind] = attrs.field(
        factory=lambda: ConnectionPlaces(EnginesConfig(http_connections=PLACES, question_calls=KEPT), "here")
    )
    calls: list[Caller] = attrs.field(factory=list)
    come: int = 0

    def comes(self, question: bool) -> None:
        caller = Caller(self.come, question)
        self.come += 1
        free = self.places.has_free(question)
        caller.has = self.places.take(question)
        assert free is (caller.has is not None)
        if caller.has is None:
            self.places.waiting.add(caller, 0)
        self.calls.append(caller)

    def ends(self, which: int) -> None:
        if holding := [each for each in self.calls if each.has is not None]:
            caller = holding[which % len(holding)]
            self.calls.remove(caller)
            assert caller.has is not None
            self.places.give_back(caller.has)

    def leaves(self, which: int, told: bool) -> None:
        """`told`: the queue knows of it at once; else it learns that when it would give the caller something."""
        if waiting := [each for each in self.calls if each.has is None]:
            caller = waiting[which % len(waiting)]
            self.calls.remove(caller)
            caller.left = True
            if told:
                self.places.waiting.remove(caller)

    def check(self) -> None:
        held = [each.has for each in self.calls]
        waiting = [each for each in self.calls if each.has is None]
        assert held.count(PlaceKind.ANY) <= PLACES
        assert held.count(PlaceKind.QUESTIONS) <= KEPT
        assert all(each.question for each in self.calls if each.has is PlaceKind.QUESTIONS)
        if waiting:
            assert held.count(PlaceKind.ANY) == PLACES
        if any(each.question for each in waiting):
            assert held.count(PlaceKind.QUESTIONS) == KEPT
        for question in (
            False,
            True,
        ):  # in their order: nobody who came later has been served before one who still waits
            oldest = min((each.number for each in waiting if each.question is question), default=self.come)
            served = [each.number for each in self.calls if each.has is not None and each.question is question]
            assert all(number < oldest for number in served)


STEPS = st.one_of(
    st.tuples(st.just("comes"), st.booleans()),
    st.tuples(st.just("ends"), st.integers(0, 9)),
    st.tuples(st.just("leaves"), st.integers(0, 9), st.booleans()),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_comes_ends_and_leaves_a_free_place_goes_to_the_oldest_that_may_have_it(
    steps: list[tuple[str, int, bool]],
) -> None:
    house = House()
    for name, *arguments in steps:
        getattr(house, name)(*arguments)
        house.check()
    while house.calls:
        house.ends(0)
        house.check()

    taken = [house.places.take(True) for _ in range(PLACES + KEPT + 1)]
    assert taken == [PlaceKind.ANY] * PLACES + [PlaceKind.QUESTIONS] * KEPT + [None]
