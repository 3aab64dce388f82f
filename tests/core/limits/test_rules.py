"""Rules: what a line says, whom a rule is for, and whom it counts together."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from smg_core.limits.rules import AXES, Asker, LimitRule, RuleRefused, read_rule, read_rules
from smg_core.limits.teams import read_teams

NAMES = some.sampled_from(["", "a", "b"])
ASKERS = some.builds(Asker, NAMES, NAMES, NAMES, NAMES, team=some.sampled_from(["a", "a/b", "c"]))


def test_a_line_says_a_rule() -> None:
    assert read_rule("600 requests/minute per=key") == LimitRule(600, "requests", "minute", 600, ("key",))
    assert read_rule("100_000 tokens/minute per=model,tenant burst=200_000") == LimitRule(
        100_000, "tokens", "minute", 200_000, ("tenant", "model")
    )
    assert read_rule("12.5 USD/month tenant=acme") == LimitRule(12_500_000, "money", "month", tenant="acme")
    assert read_rule("8 at-once model=llama-*") == LimitRule(8, "at_once", model="llama-*")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "is no rule"),
        ("many requests/minute", "is no rule"),
        ("5 apples/minute", "'apples', which is none of"),
        ("5 requests", "must name its time"),
        ("5 at-once/minute", "must name its time"),
        ("5 requests/fortnight", "must name its time"),
        ("5 USD/minute", "money is counted in day, week, month, ever"),
        ("0 requests/minute", "is not a whole number from 1"),
        ("2.5 requests/minute", "is not a whole number from 1"),
        ("0.0000001 USD/day", "is not money in millionths"),
        ("5 requests/day burst=2", "only a rate has a burst"),
        ("5 requests/day colour=red", "'colour=red' is not one of"),
        ("5 requests/day per=house", "per 'house', which is none of"),
        ("5 requests/day key=a", "name that too"),
        ("5 requests/day per=key per=user", "says per twice"),
    ],
)
def test_a_line_that_is_no_rule_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(RuleRefused, match=why.replace("+", r"\+")):
        read_rule(line)


@given(some.text(max_size=40))
def test_any_text_is_a_rule_or_refused(line: str) -> None:
    try:
        rule = read_rule(line)
    except RuleRefused:
        return
    assert read_rule(rule.text) == rule


def test_a_rule_that_stands_there_twice_counts_once_and_two_amounts_for_the_same_are_refused() -> None:
    assert len(read_rules(["5 requests/day per=key", "5  requests/day per=key"])) == 1
    with pytest.raises(RuleRefused, match="leave one of them"):
        read_rules(["5 requests/day per=key", "6 requests/day per=key"])


def test_a_prefix_of_models_is_for_those_that_begin_so_by_either_of_their_names() -> None:
    rule = read_rule("5 requests/day model=llama-*")

    assert rule.scope(Asker(model="llama-8b")) == rule.scope(Asker(model="x", asked="llama-70b"))
    assert rule.scope(Asker(model="qwen")) is None


@given(some.lists(some.sampled_from(AXES), unique=True), ASKERS, ASKERS)
def test_two_are_counted_together_where_the_axes_of_the_rule_are_equal(
    axes: list[str], one: Asker, other: Asker
) -> None:
    rule = read_rule("5 requests/day" + (f" per={','.join(axes)}" if axes else ""))
    wanted = set(axes)
    if "user" in wanted:
        wanted |= {"key"}
    if wanted & {"key", "team"}:
        wanted |= {"tenant"}
    same = all(getattr(one, axis) == getattr(other, axis) for axis in wanted)

    assert (rule.scope(one) == rule.scope(other)) == same


def test_what_counts_several_tenants_is_private_to_none() -> None:
    assert [read_rule(f"5 requests/day {rest}").private for rest in ("", "per=model", "per=key", "tenant=a")] == [
        False,
        False,
        True,
        True,
    ]


def test_a_team_is_within_its_tenant_and_within_another_team() -> None:
    teams = read_teams(["acme:search=one,two", "acme:search/ranking=ranking-*", "acme:search/deep=ranking-deep*"])
    asker = Asker("acme", "ranking-1", team=teams.team("acme", "ranking-1"))

    assert [teams.team("acme", key) for key in ("two", "ranking-1", "ranking-deep", "three")] == [
        *("search", "search/ranking", "search/deep", ""),
    ]
    assert teams.team("other", "one") == ""
    rules = ["5 USD/day tenant=acme", "3 USD/day tenant=acme team=search", "1 USD/day tenant=acme team=search/ranking"]
    assert all(read_rule(each).scope(asker) is not None for each in rules)
    assert read_rule("1 USD/day tenant=acme team=search/rank").scope(asker) is None
    assert read_rule("1 USD/day tenant=other team=search").scope(asker) is None
    per = read_rule("5 requests/day per=team")
    assert per.scope(asker) == per.scope(Asker("acme", "ranking-2", team="search/ranking"))
    assert per.scope(asker) != per.scope(Asker("other", "ranking-2", team="search/ranking"))
    assert per.scope(Asker("acme", "three")) is None
    assert per.private
    assert read_rule(read_rule(rules[2]).text) == read_rule(rules[2])


@pytest.mark.parametrize("line", ["acme=one", "acme:=one", "acme:a/=one", "acme:a", "acme:a*=one", "x y:a=b"])
def test_a_line_that_is_no_team_is_refused(line: str) -> None:
    with pytest.raises(RuleRefused, match="is no team"):
        read_teams([line])


def test_a_key_is_in_one_team() -> None:
    with pytest.raises(RuleRefused, match="already"):
        read_teams(["acme:a=one", "acme:b=one"])
