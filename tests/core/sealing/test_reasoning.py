"""Reasoning that comes back: what was sealed here is used, the rest is left out or refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.origins import ORIGINS

from smg_core.errors import SealBroken
from smg_core.events import DroppedReasoning
from smg_core.request import (
    Caller,
    GenerationRequest,
    Message,
    Reasoning,
    ReasoningSettings,
    Text,
)
from smg_core.sealing.reasoning import ReasoningSeals, sealed_bytes
from smg_core.sealing.sealer import Sealer

SEALER = Sealer([b"k" * 32], most=1 << 20)
SEALS = ReasoningSeals(SEALER, "qwen3")
USER = Message("user", (Text("hi"),))
SHOWN = GenerationRequest(id="r", model="m", origin=ORIGINS["messages"], caller=Caller("t"))
HIDDEN = replace(SHOWN, reasoning=ReasoningSettings(visible="sealed"))
ENCRYPTED = replace(SHOWN, origin=ORIGINS["responses"], include=frozenset({"reasoning.encrypted_content"}))


def sealed(text: str, request: GenerationRequest = SHOWN, seals: ReasoningSeals = SEALS) -> bytes:
    seal = seals.sealing(request)
    assert seal is not None
    return seal(text)


def asked(part: Reasoning, request: GenerationRequest = SHOWN) -> GenerationRequest:
    return replace(request, messages=(USER, Message("assistant", (Text("a"), part, Text("b")))))


def opened(part: Reasoning, request: GenerationRequest = SHOWN, **settings: Any) -> tuple[Reasoning, Any]:
    """The part as it goes into the prompt, and what was dropped."""
    read, dropped = ReasoningSeals(SEALER, "qwen3", **settings).opened(asked(part, request))
    assert read.messages[0] == USER
    before, found, after = read.messages[1].parts
    assert (before, after) == (Text("a"), Text("b"))
    assert isinstance(found, Reasoning)
    return found, dropped


@given(st.text())
def test_text_that_the_client_has_goes_back_unchanged(text):
    assert opened(Reasoning(text, seal=sealed(text))) == (Reasoning(text), ())


@pytest.mark.parametrize("request_", [HIDDEN, ENCRYPTED], ids=["omitted", "encrypted"])
@given(text=st.text())
def test_text_that_the_client_has_not_comes_out_of_the_seal(request_, text):
    assert opened(Reasoning("", seal=sealed(text, request_)), request_) == (Reasoning(text), ())


@pytest.mark.parametrize("request_", [SHOWN, HIDDEN], ids=["digest", "text"])
def test_text_that_was_changed_is_left_out(request_):
    part, dropped = opened(Reasoning("changed", id="rs_1", seal=sealed("thought", request_)), request_)

    assert part == Reasoning("", id="rs_1")
    assert dropped == (DroppedReasoning("messages[1].parts[1]", "edited", "rs_1"),)


@pytest.mark.parametrize(
    ("seal", "reason"),
    [
        (b"", "not_ours"),
        (b"EqQBCgIYAhIM", "not_ours"),
        (sealed("thought", replace(SHOWN, caller=Caller("another"))), "wrong_tenant"),
        (sealed("thought", SHOWN, ReasoningSeals(SEALER, "llama")), "other_family"),
        (sealed("thought", SHOWN, ReasoningSeals(Sealer([b"r" * 32], most=99), "qwen3")), "unknown_key"),
        (sealed("thought", ENCRYPTED), "tampered"),
    ],
)
def test_what_does_not_open_is_left_out_with_its_reason(seal, reason):
    part, dropped = opened(Reasoning("thought", seal=seal))

    assert part == Reasoning("")
    assert [each.reason for each in dropped] == [reason]


def test_what_does_not_open_is_refused_where_the_settings_say_so():
    edited, foreign = Reasoning("changed", seal=sealed("thought")), Reasoning("thought", seal=b"foreign")

    for part, setting in ((edited, "refuse_edited"), (edited, "refuse"), (foreign, "refuse")):
        with pytest.raises(SealBroken) as broken:
            opened(part, on_broken=setting)
        assert broken.value.param == "messages[1].parts[1]"
    assert opened(foreign, on_broken="refuse_edited")[0] == Reasoning("")


def test_only_what_asks_for_seals_is_sealed():
    assert SEALS.sealing(replace(SHOWN, origin=ORIGINS["chat"])) is None
    assert SEALS.sealing(replace(SHOWN, origin=None)) is None
    assert SEALS.sealing(replace(ENCRYPTED, include=frozenset())) is None


def test_a_request_without_seals_has_nothing_to_open():
    assert sealed_bytes(asked(Reasoning("thought"))) == 0
    assert sealed_bytes(asked(Reasoning("thought", seal=b"x"), replace(SHOWN, origin=ORIGINS["chat"]))) == 0
    assert sealed_bytes(asked(Reasoning("thought", seal=b"x"))) == 8
