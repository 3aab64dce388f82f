"""What a provider says in its own words is passed on once it says something of the answer, and is bounded until then."""

from smg_core.engines.settings import EnginesConfig
from smg_core.engines.vendors.anthropic.events import MessagesDecoder
from smg_core.engines.vendors.wire_names import SentNames
from smg_core.errors import EngineGarbled
from smg_core.events import Verbatim

PING = b'event: ping\ndata: {"type": "ping"}\n\n'
TEXT = (
    b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 1}}}\n\n'
    b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}\n\n'
    b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}\n\n'
)


def decoder() -> MessagesDecoder:
    made = MessagesDecoder("m", SentNames(64), EnginesConfig(http_event_bytes=512))
    made.pass_on("m", at_once=False)
    return made


def test_a_provider_that_says_nothing_of_an_answer_for_ever_has_failed() -> None:
    found = decoder()

    told = [event for _ in range(200) for event in found.feed(PING)]

    assert told == []
    assert isinstance(found.error, EngineGarbled)


def test_signs_of_life_before_a_word_are_passed_on_with_it() -> None:
    found = decoder()

    events = [*found.feed(PING * 3), *found.feed(TEXT)]

    assert found.error is None
    assert [each.name for each in events if isinstance(each, Verbatim)][:3] == ["ping"] * 3
