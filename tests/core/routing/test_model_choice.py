"""Which model a request gets whose name is split, and what is a reason to ask another."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from smg_core import errors
from smg_core.config.config import Config
from smg_core.errors import (
    ClientGone,
    DeadlineExceeded,
    EngineFailed,
    EngineTimeout,
    InvalidRequest,
    ModelNotFound,
    NoWorker,
    Overloaded,
    PromptTooLong,
    SmgError,
    WorkerBusy,
    WorkerGone,
)
from smg_core.request import Caller, GenerationRequest, HistoryRef
from smg_core.routing.model_choice import FALLBACK_REASONS, ModelChoice, fallback_reason
from smg_core.routing.settings import FALLBACK_ON, RoutingConfig
from smg_core.settings import ConfigError

SPLIT = RoutingConfig(splits=("house=old:90,new:10",), split_header="X-Canary")
ASKED = GenerationRequest("r", "house")


def test_requests_are_shared_out_by_their_shares() -> None:
    choice = ModelChoice(SPLIT)
    found = Counter(choice.model(replace(ASKED, id=f"r-{number}")) for number in range(10_000))

    assert found["old"] + found["new"] == 10_000
    assert 850 < found["new"] < 1150


@given(st.text(), st.text(), st.sampled_from(["user", "cache_key", "session_key", "conversation", "header"]))
def test_all_requests_of_who_names_itself_get_the_same_model(one: str, other: str, by: str) -> None:
    def asked(id: str) -> GenerationRequest:
        request = replace(ASKED, id=id)
        if by == "header":
            return replace(request, headers={"x-smg-routing-key": "k" + one})
        if by == "conversation":
            return replace(request, history=HistoryRef(conversation_id="k" + one))
        return replace(request, **{by: "k" + one})

    choice = ModelChoice(SPLIT)
    assert choice.model(asked("r" + one)) == choice.model(asked("r" + other))


def test_the_same_key_of_two_tenants_is_drawn_for_each() -> None:
    choice = ModelChoice(RoutingConfig(splits=("house=old:1,new:1",)))
    asked = [replace(ASKED, user="u", caller=Caller(f"tenant-{number}")) for number in range(64)]

    assert {choice.model(each) for each in asked} == {"old", "new"}


def test_a_header_names_a_model_of_the_split_and_nothing_else() -> None:
    choice = ModelChoice(SPLIT)

    assert {choice.model(replace(ASKED, id=str(n), headers={"x-canary": "new"})) for n in range(50)} == {"new"}
    assert {choice.model(replace(ASKED, id=str(n), headers={"x-canary": "secret"})) for n in range(200)} == {
        "old",
        "new",
    }


def test_a_name_that_is_not_split_is_itself_and_has_no_chain() -> None:
    choice, asked = ModelChoice(SPLIT), GenerationRequest("r", "other")

    assert (choice.model(asked), choice.chain(asked), choice.foremost("other")) == ("other", ("other",), "other")
    assert choice.foremost("house") == "old"


def test_the_chain_is_that_of_the_model_that_was_drawn_else_of_the_name() -> None:
    choice = ModelChoice(RoutingConfig(splits=("house=old:1",), fallbacks=("old=small,tiny", "alias=tiny")))

    assert choice.chain(ASKED) == ("old", "small", "tiny")
    assert choice.chain(GenerationRequest("r", "alias")) == ("alias", "tiny")


ALIASES = {"gpt": "house", "new": "newer", "one": "two", "two": "one", "model": "model"}


def by_alias(name: str, tenant: str) -> str:
    return {"own": "gpt"}.get(name, name) if tenant == "acme" and name == "own" else ALIASES.get(name, name)


@pytest.mark.parametrize(
    ("name", "chain"),
    [
        ("gpt", ("newer", "spare")),  # an alias of a split, whose share is an alias, which has the chain
        ("house", ("newer", "spare")),
        ("own", ("newer", "spare")),  # a tenant's alias of an alias
        ("lone", ("lone", "newer")),  # a chain that names a split
        ("double", ("double", "newer", "spare")),  # two names of one model are one
        ("one", ("one",)),  # a circle of aliases
        ("round", ("round",)),  # a circle of splits
        ("self", ("self", "spare")),  # a share of its own name
    ],
)
def test_a_name_is_followed_to_a_model_and_has_the_first_chain_on_the_way_back(
    name: str, chain: tuple[str, ...]
) -> None:
    splits = ("house=new:1", "round=circle:1", "circle=round:1", "self=self:1")
    fallbacks = ("newer=spare", "house=never", "lone=gpt", "double=gpt,new,spare,house", "self=spare")
    choice = ModelChoice(RoutingConfig(splits=splits, fallbacks=fallbacks), by_alias)
    asked = GenerationRequest("r", name, caller=Caller("acme"))

    assert choice.chain(asked) == chain
    assert choice.model(asked) == choice.foremost(name, "acme") == chain[0]


REASONS = [
    (PromptTooLong, "context"),
    (NoWorker, "no_worker"),
    (ModelNotFound, "no_worker"),
    (Overloaded, "overloaded"),
    (WorkerBusy, "overloaded"),
    (WorkerGone, "failed"),
    (EngineFailed, "failed"),
    (EngineTimeout, "failed"),
    (InvalidRequest, ""),
    (ClientGone, ""),
    (DeadlineExceeded, ""),
]


@pytest.mark.parametrize(("kind", "reason"), REASONS)
def test_each_error_is_a_reason_or_none(kind: type[SmgError], reason: str) -> None:
    assert fallback_reason(kind.__new__(kind)) == reason


def test_every_reason_of_the_settings_is_one_of_the_table() -> None:
    assert {reason for _, reason in FALLBACK_REASONS} == set(FALLBACK_ON)
    assert all(hasattr(errors, kind.__name__) for kind, _ in FALLBACK_REASONS)


def test_a_reason_that_is_switched_off_is_none() -> None:
    choice = ModelChoice(RoutingConfig(fallback_on=("context",)))

    assert choice.goes_on(NoWorker("none")) == ""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"splits": ("house",)}, "expected NAME="),
        ({"splits": ("house=a",)}, "is no MODEL:SHARE"),
        ({"splits": ("house=a:0",)}, "is no MODEL:SHARE"),
        ({"splits": ("house=a:-1",)}, "is no MODEL:SHARE"),
        ({"splits": ("house=a:1,a:2",)}, "is no MODEL:SHARE"),
        ({"splits": ("house=a:1", "house=b:1")}, "house is there twice"),
        ({"fallbacks": ("a=",)}, "expected MODEL="),
        ({"fallbacks": ("a=b,a",)}, "twice"),
        ({"fallback_on": ("boredom",)}, "one of"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Config(routing=RoutingConfig(**settings))


def test_the_share_of_a_shadow_is_kept_and_all_requests_of_who_names_itself_have_one_or_none() -> None:
    choice = ModelChoice(RoutingConfig(shadows=("house=new:0.1",)))
    found = [choice.shadow(replace(ASKED, id=f"r-{number}")) for number in range(10_000)]

    assert set(found) == {None, ("house", "new")}
    assert 850 < len(found) - found.count(None) < 1150
    for number in range(50):
        named = [replace(ASKED, id=f"{number}-{each}", user=f"u{number}") for each in range(3)]
        assert len({choice.shadow(each) for each in named}) == 1


def test_the_shadow_nearest_to_the_model_counts_and_none_is_the_model_itself() -> None:
    settings = RoutingConfig(splits=("house=old:1",), shadows=("house=far:1", "old=near:1", "new=old:1"))
    aliases = {"name": "house", "near": "house", "far": "next"}

    def shadow(name: str, settings: RoutingConfig = settings) -> tuple[str, str] | None:
        return ModelChoice(settings, lambda asked, _: aliases.get(asked, asked)).shadow(GenerationRequest("r", name))

    assert shadow("name") is None  # "near" stands for the house, which is the model itself
    assert shadow("new") == ("new", "old")
    assert shadow("name", RoutingConfig(splits=settings.splits, shadows=("house=far:1",))) == ("old", "next")
    assert shadow("other") is None


@pytest.mark.parametrize("row", ["a", "a=b", "a=b:0", "a=b:2", "a=b:x", "a=a:1", "a=:1", "a=b:1,c:1", "=b:1"])
def test_what_is_no_shadow_is_refused_with_its_row(row: str) -> None:
    with pytest.raises(ConfigError, match=r"routing\.shadows: .*"):
        RoutingConfig(shadows=(row,)).of_shadows()
