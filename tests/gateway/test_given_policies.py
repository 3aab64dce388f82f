"""A policy in the program's words: looked at when the gateway starts, however it is given."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from smg_core import Gateway
from smg_core.routing import Candidate, Pick, RoutingContext, UnknownPolicy

pytestmark = pytest.mark.anyio


class First:
    name = "first"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class CalledToo(First):
    def __call__(self) -> None:
        raise AssertionError("what has a pick is no factory")


class Misspelt:
    name = "misspelt"

    def pikc(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class NoName:
    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class Numbered(NoName):
    name = 1


class Waits:
    name = "waits"

    async def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


class Streams:
    name = "streams"

    async def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> AsyncIterator[Pick]:
        yield Pick(candidates[0])


class Fails(First):
    def __init__(self) -> None:
        raise RuntimeError("no table of prices")


class Nameless(NoName):
    @property
    def name(self) -> str:
        raise RuntimeError("no table of names")


def function(candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
    return Pick(candidates[0])


WRONG: list[tuple[Callable[[], Any], str]] = [
    (Misspelt, "Misspelt has no pick"),
    (NoName, "NoName has no name"),
    (Numbered, "Numbered has no name"),
    (object, "object has no name and no pick"),
    (Waits, "a policy must not wait"),
    (Streams, "a policy must not wait"),
    (Nameless, "no table of names"),
]


@pytest.mark.parametrize(("wrong", "told"), WRONG, ids=lambda each: getattr(each, "__name__", ""))
async def test_what_is_no_policy_is_refused_at_the_start_whether_a_name_a_class_a_factory_or_an_object(
    wrong: Callable[[], Any], told: str
) -> None:
    given = [wrong, wrong(), lambda: wrong(), *([f"{__name__}:{wrong.__name__}"] if wrong is not object else [])]
    for policy in given:
        with pytest.raises(UnknownPolicy, match=told):
            await Gateway(policy=policy).start()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (42, "the given int is no routing policy"),
        (function, "function: TypeError"),
        (Fails, "Fails: RuntimeError: no table"),
    ],
)
async def test_what_makes_no_policy_is_told_by_what_it_is_called(wrong: Any, told: str) -> None:
    with pytest.raises(UnknownPolicy, match=told):
        await Gateway(policy=wrong).start()


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("given", [First, First(), lambda: First(), CalledToo(), "round_robin"])
async def test_what_is_a_policy_is_taken_as_a_name_a_class_a_factory_and_an_object(given: Any) -> None:
    async with Gateway.simulated(policy=given) as gateway:
        policy = gateway.services.policies.of("sim", "regular")
        assert policy is given or isinstance(policy, First) or policy.name == given
