"""Which time-outs a request has: settings, then its model's, then its headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InvalidRequest
from smg_core.pipeline.flow.timeouts import Timeouts
from smg_core.pipeline.prompt.served import ServedModel
from smg_core.pipeline.settings import TimeoutsConfig
from smg_core.request import GenerationRequest
from smg_core.serving.timeouts import HEADERS, SERVER_TIMEOUT, TimeoutRules

NONSENSE = ["nan", "inf", "-1", "+1", "0", "0.01", "1e3", "1_0", " 5", "5 ", "5s", "", ".5", "5."]
NONSENSE += ["0x5", "1,5", "\u0663", "²", "99999999", "9" * 400]
MODELS = ("big/llama:70b=first_token:300", "big/llama:70b=stream:900", "small=request:", "small=write:7")


def timeouts(
    headers: dict[str, str] | None = None,
    *,
    model: str = "m",
    primary: str = "",
    stream: bool = False,
    deadline: float | None = None,
    background: bool = False,
    settings: TimeoutsConfig | None = None,
) -> Timeouts:
    request = GenerationRequest(id="r", model=model, stream=stream, deadline_s=deadline, background=background)
    served = {model: ServedModel(name=model, tokenizer=None, primary=primary)}
    return TimeoutRules(settings or TimeoutsConfig(models=MODELS), served).of(request, headers or {})


def test_a_stream_as_a_whole_is_not_bounded_unless_a_setting_says_so_and_a_whole_answer_is() -> None:
    assert timeouts() == Timeouts(5.0, 120.0, 60.0, 600.0, 60.0)
    assert timeouts(stream=True) == Timeouts(5.0, 120.0, 60.0, None, 60.0)
    assert timeouts(stream=True, settings=TimeoutsConfig(stream_s=30.0)).request == 30.0


def test_a_models_own_time_outs_hold_under_each_of_its_names_and_for_no_other() -> None:
    for names in ({"model": "big/llama:70b"}, {"model": "alias", "primary": "big/llama:70b"}):
        assert timeouts(stream=True, **names) == Timeouts(5.0, 300.0, 60.0, 900.0, 60.0)  # type: ignore[arg-type]
    assert timeouts(model="small") == Timeouts(5.0, 120.0, 60.0, None, 7.0)
    assert timeouts(model="llama") == timeouts()


@pytest.mark.parametrize(("header", "name"), HEADERS.items())
@pytest.mark.parametrize("stream", [True, False])
def test_a_header_sets_its_own_time_out_and_no_other(header: str, name: str, stream: bool) -> None:
    found, usual = timeouts({header: "2.5"}, stream=stream), timeouts(stream=stream)
    changed = {field for field in Timeouts.__struct_fields__ if getattr(found, field) != getattr(usual, field)}

    assert getattr(found, name) == 2.5
    assert changed - {"hasty"} == {name}


@pytest.mark.sampled(per=("text",))
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize(
    "text",
    NONSENSE,
)
def test_a_header_that_says_nonsense_or_more_than_it_may_is_refused_by_its_name(header: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        timeouts({header: text})

    assert caught.value.status == 400
    assert caught.value.param == header
    assert header in caught.value.message


@pytest.mark.full
@given(st.text(max_size=12), st.sampled_from(sorted(HEADERS)))
def test_whatever_a_header_says_it_sets_a_time_out_within_its_bounds_or_is_refused(text: str, header: str) -> None:
    settings, name = TimeoutsConfig(), HEADERS[header]
    try:
        found = timeouts({header: text}, settings=settings)
    except InvalidRequest:
        return
    assert settings.least_s <= getattr(found, name) <= getattr(settings, f"{name}_most_s")


def test_the_bounds_of_headers_are_settings() -> None:
    settings = TimeoutsConfig(least_s=2.0, token_most_s=3.0)

    assert timeouts({"x-smg-token-timeout": "3"}, settings=settings).token == 3.0
    for text in ("1.9", "3.1"):
        with pytest.raises(InvalidRequest, match="from 2 to 3"):
            timeouts({"x-smg-token-timeout": text}, settings=settings)


def test_a_header_whose_bound_is_below_the_least_is_not_taken_at_all() -> None:
    with pytest.raises(InvalidRequest, match="x-smg-write-timeout is not taken"):
        timeouts({"x-smg-write-timeout": "1"}, settings=TimeoutsConfig(write_most_s=0.0))


@pytest.mark.parametrize("name", ["connect", "first-token", "token"])
def test_who_waits_less_than_is_usual_is_hasty_and_who_waits_longer_is_not(name: str) -> None:
    header = f"x-smg-{name}-timeout"

    assert timeouts({header: "1"}).hasty
    assert not timeouts({header: "1"}, settings=TimeoutsConfig(connect_s=0.5, first_token_s=0.5, token_s=0.5)).hasty
    assert not timeouts({"x-smg-request-timeout": "1", "x-smg-write-timeout": "1"}).hasty


def test_a_deadline_that_an_api_has_of_its_own_bounds_the_request_where_it_is_nearer() -> None:
    assert timeouts(deadline=3.0).request == 3.0
    assert timeouts(deadline=3.0, stream=True).request == 3.0
    assert timeouts({"x-smg-request-timeout": "2"}, deadline=3.0).request == 2.0


@pytest.mark.parametrize("stream", [False, True])
def test_how_long_a_client_waits_can_only_shorten_the_request_and_bounds_nothing_else(stream: bool) -> None:
    usual = timeouts(stream=stream)
    shorter = timeouts({SERVER_TIMEOUT: "30"}, stream=stream)

    assert (shorter.request, shorter.hasty) == (30.0, False)
    assert (shorter.connect, shorter.first_token, shorter.token, shorter.write) == (5.0, 120.0, 60.0, 60.0)
    assert timeouts({SERVER_TIMEOUT: "999999"}, settings=TimeoutsConfig(stream_s=50.0, request_s=50.0)).request == 50.0
    assert timeouts({SERVER_TIMEOUT: "30", "x-smg-request-timeout": "2"}, stream=stream).request == 2.0
    assert timeouts({SERVER_TIMEOUT: "30"}, stream=stream, background=True) == usual


@pytest.mark.parametrize("text", [*(each for each in NONSENSE if each not in ("99999999", "0.01")), "0.0"])
def test_how_long_a_client_waits_is_a_number(text: str) -> None:
    with pytest.raises(InvalidRequest, match=SERVER_TIMEOUT):
        timeouts({SERVER_TIMEOUT: text})
