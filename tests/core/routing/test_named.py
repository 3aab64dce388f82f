"""Which name means which policy."""

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from tests.core.routing.candidates import Seen, asking

from smg_core.routing import Candidate, LeastRequests, Pick, RoutingContext, UnknownPolicy, policy, policy_for


class Last:
    """A user's policy."""

    name = "last"

    def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[-1])


THE_ONE = Last()


def test_an_unknown_policy_is_loud_and_names_those_there_are() -> None:
    with pytest.raises(UnknownPolicy, match=r"'fastest'.*power_of_two.*round_robin"):
        policy("fastest")


@pytest.mark.parametrize("attribute", ["Last", "THE_ONE"])
def test_a_class_and_an_object_of_a_module_are_policies_by_their_path(attribute: str) -> None:
    made = policy(f"{__name__}:{attribute}")

    assert isinstance(made, Last)
    assert made.pick([Seen("a"), Seen("b")], asking()).worker.name == "b"


@pytest.mark.parametrize("path", ["no_such_module_here:Last", f"{__name__}:Missing", f"{__name__}:NUMBER", ":Last"])
def test_a_path_that_leads_to_no_policy_is_refused_by_its_name(path: str) -> None:
    with pytest.raises(UnknownPolicy, match=path.partition(":")[0] or "no routing policy"):
        policy(path)


NUMBER = 7


def test_an_installed_package_adds_a_policy_but_does_not_replace_a_built_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("package_of_a_user")
    module.Last = Last  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    found = [EntryPoint(name, f"{module.__name__}:Last", "smg.policies") for name in ("theirs", "least_requests")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found if group == "smg.policies" else [])

    assert isinstance(policy("theirs"), Last)
    assert isinstance(policy("least_requests"), LeastRequests)


def test_rows_name_policies_for_models_and_roles() -> None:
    rows = ("m=random", "org/m=least_load", "org/m/decode=least_requests", "*/prefill=cache_aware", "x=y:Z")

    assert policy_for(rows) == {
        ("m", "*"): "random",
        ("org/m", "*"): "least_load",
        ("org/m", "decode"): "least_requests",
        ("*", "prefill"): "cache_aware",
        ("x", "*"): "y:Z",
    }


@pytest.mark.parametrize("rows", [("m",), ("=random",), ("m=",), ("m=random", "m=least_load")])
def test_a_row_of_another_form_is_refused(rows: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"(?i)polic"):
        policy_for(rows)


class NeedsArguments(Last):
    def __init__(self, fleet: str) -> None:
        self.fleet = fleet


class Broken(Last):
    def __init__(self) -> None:
        raise RuntimeError("no table of prices")


class Waits:
    name = "waits"

    async def pick(self, candidates: Sequence[Candidate], context: RoutingContext) -> Pick:
        return Pick(candidates[0])


LOADS = ["NeedsArguments", "Broken", "Waits", "NUMBER", "Missing"]


@pytest.mark.parametrize("attribute", LOADS)
def test_what_goes_wrong_while_a_policy_is_made_is_told_with_its_name(attribute: str) -> None:
    with pytest.raises(UnknownPolicy, match=attribute):
        policy(f"{__name__}:{attribute}")


@pytest.mark.parametrize("attribute", LOADS)
def test_a_policy_of_an_installed_package_is_looked_at_as_that_of_a_module(
    monkeypatch: pytest.MonkeyPatch, attribute: str
) -> None:
    found = [EntryPoint("theirs", f"{__name__}:{attribute}", "smg.policies")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)

    with pytest.raises(UnknownPolicy, match="theirs"):
        policy("theirs")


def test_a_module_that_fails_when_it_is_imported_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "policy_that_fails.py").write_text("raise RuntimeError('no prices')")
    (tmp_path / "policy_misspelt.py").write_text("class (")

    for module in ("policy_that_fails", "policy_misspelt", ".relative"):
        with pytest.raises(UnknownPolicy, match=module):
            policy(f"{module}:Last")
