"""Offers of calls: what of them is taken, what is refused by name, and what an answer says of where its ports are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.apis.realtime.wire.offer import checked_offer, reachable_at, read_call
from smg_core.errors import InvalidRequest, SmgError
from smg_core.wire.settings import LimitsConfig

HEAD = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n"
SOUND = "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=mid:0\r\n"
CHANNEL = "m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:1\r\n"
WHERE = "a=candidate:1 1 udp 2130706431 10.0.0.7 5060 typ host\r\na=end-of-candidates\r\n"
LIMITS = LimitsConfig()


def test_the_addresses_that_an_offer_names_are_left_out() -> None:
    assert checked_offer(HEAD + SOUND + WHERE + CHANNEL + WHERE) == HEAD + SOUND + CHANNEL
    assert checked_offer((HEAD + CHANNEL + WHERE).replace("\r\n", "\n")) == HEAD + CHANNEL


@pytest.mark.parametrize(
    ("offer", "why"),
    [
        ("", "v=0"),
        ("a=1", "v=0"),
        (HEAD + "nonsense\r\n" + CHANNEL, "form"),
        (HEAD + SOUND, "data channel"),
        (HEAD + CHANNEL + CHANNEL, "one data channel"),
        (HEAD + SOUND + SOUND + CHANNEL, "sound"),
        (HEAD + CHANNEL + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", "sound"),
        (HEAD + "a=group:BUNDLE 0 1\r\n" + CHANNEL, "BUNDLE"),
        (HEAD + "a=group:BUNDLE 1\r\n" + SOUND + CHANNEL, "BUNDLE"),
        (HEAD + CHANNEL + "a=x:" + "y" * 65536 + "\r\n", "longer"),
    ],
)
def test_what_is_no_offer_of_a_call_is_refused_by_name(offer: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as refused:
        checked_offer(offer)
    assert refused.value.param == "sdp"


def test_an_answer_says_by_which_address_its_ports_are_reached() -> None:
    answer = HEAD + "m=audio 2000 UDP 1\r\nc=IN IP4 10.0.0.1\r\n" + WHERE
    moved = reachable_at(answer, lambda address: "203.0.113.9")
    assert "c=IN IP4 203.0.113.9\r\n" in moved
    assert "a=candidate:1 1 udp 2130706431 203.0.113.9 5060 typ host\r\n" in moved
    assert "c=IN IP6 2001:db8::1\r\n" in reachable_at(answer, lambda address: "2001:db8::1")
    assert reachable_at(answer, lambda address: address) == answer


def form(*parts: tuple[str, str]) -> bytes:
    return b"".join(
        f'--a\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode() for name, text in parts
    ) + (b"--a--\r\n")


@pytest.mark.parametrize(
    ("parts", "param"),
    [
        ([], "sdp"),
        ([("session", "{}")], "sdp"),
        ([("sdp", HEAD + CHANNEL), ("session", "[]")], "session"),
        ([("sdp", HEAD + CHANNEL), ("video", "1")], "video"),
    ],
)
def test_a_form_has_an_offer_and_settings_and_nothing_else(parts: list[tuple[str, str]], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_call("multipart/form-data; boundary=a", form(*parts), LIMITS)
    assert refused.value.param == param


def test_a_call_is_read_of_a_form_and_of_an_offer_alone() -> None:
    offer = HEAD + CHANNEL
    whole = form(("sdp", offer), ("session", '{"type": "realtime"}'))
    assert read_call("multipart/form-data; boundary=a", whole, LIMITS) == (offer, {"type": "realtime"})
    assert read_call("multipart/form-data; boundary=a", form(("sdp", offer)), LIMITS) == (offer, None)
    assert read_call("Application/SDP; charset=utf-8", offer.encode(), LIMITS) == (offer, None)


PIECES = st.sampled_from(
    [HEAD, SOUND, CHANNEL, WHERE, "a=mid:0\r\n", "m=", "m=audio", "\r\n", "\0", "v=0", "é=1\r\n", "--a"]
)


@given(
    st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=12),
    st.sampled_from(["application/sdp", "multipart/form-data; boundary=a"]),
)
def test_whatever_is_sent_is_read_or_refused(pieces: list[str], kind: str) -> None:
    try:
        offer, session = read_call(kind, "".join(pieces).encode("utf-8", "surrogatepass"), LIMITS)
    except SmgError:
        return
    assert offer.startswith("v=0\r\n")
    assert "a=candidate" not in offer
    assert session is None
