"""A guardrail within its bounds: one that hangs, fails, answers what is none, or is asked by many at once."""

import asyncio
from typing import Any

import pytest
from tests.shared import PATIENCE

from smg_core.clock import SystemClock
from smg_core.errors import GuardrailBlocked, GuardrailFailed
from smg_core.guardrails.asking import AskedFor, RailAsking, spans_found
from smg_core.guardrails.records import GuardFindings, GuardQuestion, Guardrail, GuardSpan
from smg_core.hooks import GuardrailAsked
from smg_core.request import Caller
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio


class House:
    """One guardrail, with what is told of it."""

    def __init__(self, check: Any, **said: Any) -> None:
        self.told: list[Any] = []
        self.paid: list[bool] = []
        self.asked = AskedFor(Caller("acme"), "m", "r-1", self.told.append)
        rail = Guardrail("one", check, **{"timeout_s": 0.05, **said})
        self.rail = RailAsking(rail, 8, SystemClock(), lambda caller, rail, found: self.paid.append(found is not None))

    async def ask(self, text: str = "Hello") -> GuardFindings:
        return await self.rail.ask(text, "input", self.asked)

    @property
    def outcomes(self) -> list[str]:
        return [each.outcome for each in self.told if isinstance(each, GuardrailAsked)]


async def hangs(question: GuardQuestion) -> None:
    await asyncio.Event().wait()


async def raises(question: GuardQuestion) -> None:
    raise RuntimeError(f"no: {question.text}")


async def exits(question: GuardQuestion) -> None:
    raise asyncio.CancelledError


def garbage(found: object) -> Any:
    async def check(question: GuardQuestion) -> object:
        return found

    return check


BAD_CHECKS = {
    "hangs": hangs,
    "raises": raises,
    "cancels itself": exits,
    "answers a text": garbage("fine"),
    "has a span outside": garbage(GuardFindings(spans=(GuardSpan(2, 99),))),
    "has an empty span": garbage(GuardFindings(spans=(GuardSpan(2, 2),))),
    "has a reason that is none": garbage(GuardFindings(blocked=(1,))),  # type: ignore[arg-type]
    "is a plain function that raises": lambda question: 1 / 0,
}


@pytest.mark.parametrize("what", BAD_CHECKS)
async def test_a_check_that_fails_is_closed_or_open(what: str) -> None:
    closed, opened = House(BAD_CHECKS[what]), House(BAD_CHECKS[what], on_failure="open")

    with pytest.raises(GuardrailFailed) as failure:
        await closed.ask("a secret text")
    found = await opened.ask()

    assert found == GuardFindings()
    assert "secret" not in f"{failure.value} {failure.value.message} {failure.value.detail}"
    assert closed.outcomes == opened.outcomes == ["failed"]
    assert closed.paid == opened.paid == [False]


async def test_no_more_are_asked_at_once_than_there_are_places() -> None:
    running, most = 0, 0
    going = asyncio.Event()

    async def check(question: GuardQuestion) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await going.wait()
        running -= 1

    house = House(check, at_once=3, timeout_s=PATIENCE)
    asking = [asyncio.ensure_future(house.ask(f"text {number}")) for number in range(12)]
    for _ in range(20):
        await asyncio.sleep(0)
    seen = running
    going.set()
    await asyncio.gather(*asking)

    assert (seen, most) == (3, 3)


async def test_a_check_that_takes_no_notice_of_its_end_keeps_its_place_and_no_request() -> None:
    released, begun = asyncio.Event(), 0

    async def check(question: GuardQuestion) -> None:
        nonlocal begun
        begun += 1
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    house = House(check, at_once=1, timeout_s=0.02)
    for _ in range(2):
        with pytest.raises(GuardrailFailed):
            await house.ask()
    seen = begun
    released.set()

    assert seen == 1
    assert house.outcomes == ["failed", "failed"]


async def test_one_that_fails_again_and_again_rests() -> None:
    calls = 0

    async def check(question: GuardQuestion) -> None:
        nonlocal calls
        calls += 1
        raise ValueError

    house = House(check)
    for _ in range(9):
        with pytest.raises(GuardrailFailed):
            await house.ask()

    assert calls == 5


async def test_a_long_text_is_shown_in_windows_and_found_at_its_place() -> None:
    seen: list[str] = []

    def check(question: GuardQuestion) -> GuardFindings:
        seen.append(question.text)
        at = question.text.find("forb")
        return GuardFindings(spans=(GuardSpan(at, at + 4),) if at >= 0 else ())

    house = House(check, chars=64, timeout_s=PATIENCE)
    found = await house.ask("x" * 100 + "forb" + "y" * 100)

    assert {(each.start, each.end) for each in found.spans} == {(100, 104)}
    assert max(map(len, seen)) == 64


async def test_guardrails_are_asked_in_order_and_see_what_is_left() -> None:
    seen: list[str] = []

    async def masks(question: GuardQuestion) -> GuardFindings:
        at = question.text.find("0172")
        return GuardFindings(spans=(GuardSpan(at, at + 4, "PHONE"),) if at >= 0 else ())

    async def looks(question: GuardQuestion) -> GuardFindings:
        seen.append(question.text)
        at = question.text.find("you")
        return GuardFindings(spans=(GuardSpan(at, at + 3, "WHO"),))

    one, two = House(masks, action="mask"), House(looks, action="mask")
    spans = await spans_found((one.rail, two.rail), "Call 0172, you", "input", one.asked)

    assert seen == ["Call <PHONE>, you"]
    assert spans == (GuardSpan(5, 9, "PHONE"), GuardSpan(11, 14, "WHO"))
    with pytest.raises(GuardrailBlocked, match="guardrail 'one'"):
        await spans_found((House(masks).rail,), "Call 0172", "input", one.asked)


async def test_a_client_that_leaves_ends_the_check() -> None:
    ended = asyncio.Event()

    async def check(question: GuardQuestion) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    house = House(check, timeout_s=PATIENCE)
    asking = asyncio.ensure_future(house.ask())
    for _ in range(5):
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await asyncio.wait_for(ended.wait(), PATIENCE)

    assert house.told == []


@pytest.mark.parametrize(
    "said", [{"on": ()}, {"on": ("inputs",)}, {"action": "warn"}, {"at_once": 0}, {"timeout_s": 0}]
)
def test_a_guardrail_that_makes_no_sense_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Guardrail("one", hangs, **said)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("models", "m"),
        ("models", None),
        ("tenants", "acme"),
        ("tenants", (5,)),
        ("on", "input"),
        ("on", 5),
        ("check", 5),
    ],
)
def test_a_field_of_a_guardrail_that_is_of_another_kind_is_refused_by_its_name(field: str, given: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}: "):
        Guardrail(**{"name": "one", "check": hangs, field: given})


def test_a_guardrail_takes_any_collection_of_models() -> None:
    for models in (("m",), ["m"], {"m"}, frozenset("m")):
        assert Guardrail("one", hangs, models=models).is_for("acme", frozenset("m"))  # type: ignore[arg-type]
