"""Which requests are recorded: by the settings, by the variables of OpenTelemetry, and as the parent was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from smg_core.observability.trace_context import RemoteSpan
from smg_core.observability.tracing.sampling import Sampler, sampler_of
from smg_core.settings import ConfigError

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENTS = [RemoteSpan(TRACE, "b7ad6b7169203331", sampled) for sampled in (True, False)]


@pytest.mark.parametrize(
    ("name", "argument", "ratio", "follows"),
    [
        ("always_on", "", 1.0, False),
        ("always_off", "", 0.0, False),
        ("traceidratio", "0.25", 0.25, False),
        ("parentbased_always_on", "", 1.0, True),
        ("parentbased_always_off", "", 0.0, True),
        ("parentbased_traceidratio", "0.5", 0.5, True),
        ("", "", 1.0, True),
    ],
)
def test_the_variables_of_opentelemetry_say_the_sampler(name: str, argument: str, ratio: float, follows: bool) -> None:
    environ = {"OTEL_TRACES_SAMPLER": name} | ({"OTEL_TRACES_SAMPLER_ARG": argument} if argument else {})

    assert sampler_of(None, True, environ) == Sampler(ratio, follows)


def test_the_setting_goes_before_the_variables() -> None:
    assert sampler_of(0.1, False, {"OTEL_TRACES_SAMPLER": "always_off"}) == Sampler(0.1, trusting=False)


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_TRACES_SAMPLER": "sometimes"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
        {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"},
    ],
)
def test_a_variable_that_says_nothing_known_is_refused_by_name(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="OTEL_TRACES_SAMPLER"):
        sampler_of(None, True, environ)


@pytest.mark.parametrize("parent", PARENTS, ids=["sampled", "unsampled"])
def test_a_request_is_recorded_as_its_parent_is(parent: RemoteSpan) -> None:
    assert Sampler(0.0).samples(TRACE, parent) is parent.sampled
    assert Sampler(1.0).samples(TRACE, parent) is parent.sampled
    assert Sampler(1.0, follows=False).samples(TRACE, parent)


@given(st.integers(1, 2**128 - 1), st.floats(0, 1))
def test_the_traces_that_are_chosen_are_those_that_the_sdk_would_choose(trace: int, ratio: float) -> None:
    theirs = TraceIdRatioBased(ratio).should_sample(None, trace, "span").decision is Decision.RECORD_AND_SAMPLE

    assert Sampler(ratio).samples(f"{trace:032x}", None) == theirs
