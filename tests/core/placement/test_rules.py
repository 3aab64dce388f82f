"""What a line of placement says, whom it is for, and which lines are refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.config.config import Config
from smg_core.config.placement import placement_problems
from smg_core.operation.live_settings import LIVE
from smg_core.placement.rules import PlacedRequest, PlacementRefused, PlacementRule, read_placement

ACME = PlacedRequest("acme", "reader", ("llama-8b", "poet"), "chat", {"x-zone": "eu", "x-tier": "gold"})
SAFE = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def rule(line: str) -> PlacementRule:
    return read_placement([line])[0]


def takes(line: str, asked: PlacedRequest = ACME, **labels: str) -> bool | None:
    """Whether workers with these labels are what the rule asks for; None where the rule is not for the request."""
    terms = rule(line).terms_for(asked)
    return None if terms is None else all(each.fits(labels) for each in terms)


@pytest.mark.parametrize(
    ("line", "labels", "expected"),
    [
        ("require zone=eu", {"zone": "eu"}, True),
        ("require zone=eu", {"zone": "eu2"}, False),
        ("require zone=eu*", {"zone": "eu2"}, True),
        ("require zone=*", {"zone": "x"}, True),
        ("require zone=*", {}, False),
        ("require zone=eu,us", {"zone": "us"}, True),
        ("require zone!=eu,us", {"zone": "us"}, False),
        ("require zone!=eu", {}, True),
        ("require zone=eu tier=fast", {"zone": "eu"}, False),
        ("require zone=eu tier=fast", {"zone": "eu", "tier": "fast"}, True),
        ("require tenant={tenant}", {"tenant": "acme"}, True),
        ("require tenant={tenant}", {"tenant": "globex"}, False),
        ("require zone={header.X-Zone}", {"zone": "eu"}, True),
        ("require model={model}", {"model": "llama-8b"}, True),
        ("require a%20b=c%2Cd%2A", {"a b": "c,d*"}, True),
        ("require a=%7Btenant%7D", {"a": "{tenant}"}, True),
    ],
)
def test_labels_are_compared_as_the_line_says(line: str, labels: dict[str, str], expected: bool) -> None:
    assert takes(line, **labels) is expected


@pytest.mark.parametrize(
    ("who", "meant"),
    [
        ("tenant=acme", True),
        ("tenant=a*", True),
        ("tenant=globex,acme", True),
        ("tenant=globex", False),
        ("key=reader", True),
        ("key=writer", False),
        ("model=llama-*", True),
        ("model=poet", True),
        ("model=qwen*", False),
        ("api=chat,responses", True),
        ("api=responses", False),
        ("api=c*", True),
        ("header=X-Tier:gold", True),
        ("header=x-tier:g*", True),
        ("header=x-tier:silver", False),
        ("header=x-other:gold", False),
        ("tenant=acme header=x-tier:gold header=x-zone:us", False),
    ],
)
def test_a_rule_is_for_those_that_fit_all_that_it_names(who: str, meant: bool) -> None:
    assert (takes(f"require zone=eu for {who}") is not None) is meant


def test_a_rule_is_not_for_a_request_without_the_header_from_which_it_takes_a_value() -> None:
    assert takes("require zone={header.x-other}", zone="eu") is None
    assert takes("require tenant={tenant}", PlacedRequest(), tenant="") is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "take zone=eu",
        "require",
        "require zone",
        "require =eu",
        "require zone=",
        "require zone=eu,",
        "require zone==eu",
        "require zone=*-1",
        "require zone=e*u",
        "require zone=eu**",
        "require zone=eu for tenant=*e",
        "require zone={zone}",
        "require zone=a{tenant}",
        "require zone=eu for",
        "require zone=eu for who=acme",
        "require zone=eu for api=chats",
        "require zone=eu for api=chat,x*",
        "require zone=eu for api=translations",
        "require zone=eu for tenant=a tenant=b",
        "require zone=eu for header=x-zone",
        "require zone=eu for tenant={tenant}",
        "require zone=eu spill=3",
        "prefer zone=eu spill=-1",
        "prefer zone=eu spill=nan",
        "prefer zone=eu spill=1 spill=2",
        "weigh zone=eu",
        "weigh zone=eu by=0",
        "isolate pool=a",
        "isolate pool!=a for tenant=acme",
        "isolate pool=a for tenant=acme model=m",
        "isolate pool=a for header=x-tier:gold",
        "isolate pool={header.x-pool} for tenant=acme",
        "isolate pool={key}",
        "isolate pool=a for key=reader",
    ],
)
def test_a_line_that_is_no_rule_is_refused_and_named(line: str) -> None:
    with pytest.raises(PlacementRefused) as caught:
        read_placement(["require zone=eu", line])
    assert str(caught.value).startswith(f"{line}: ")
    assert list(placement_problems(("require zone=eu", line))) == [f"routing.placement: {caught.value}"]


@given(SAFE, SAFE)
def test_every_label_and_value_can_be_written(name: str, value: str) -> None:
    def written(text: str) -> str:
        return "".join(f"%{byte:02X}" for byte in text.encode())

    assert takes(f"require {written(name)}={written(value)}", **{name: value})


@given(st.text(max_size=40))
def test_any_line_is_a_rule_or_refused(line: str) -> None:
    with suppress(PlacementRefused):
        assert read_placement([f"require {line}"])[0].verb == "require"


def test_placement_changes_while_the_gateway_runs() -> None:
    assert LIVE["routing.placement"] == "for new requests"
    assert Config().routing.placement == ()
