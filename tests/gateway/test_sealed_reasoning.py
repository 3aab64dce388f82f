"""Sealed reasoning that comes back changed, or sealed by a key that is retired, by way of the official SDK."""

import threading
from typing import Any

import openai
import pytest
from tests.gateway.conftest import in_process

from smg_core import Config
from smg_core.pipeline.calls import preparing
from smg_core.sealing.settings import SealingConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

THOUGHT = "They want a number."
RULES = (Rule((), Reply("Four.", reasoning=THOUGHT)),)
OLD, NEW = "an old secret of 32 characters..", "a new secret of 32 characters ..."


def of(*keys: str, on_broken: Any = "drop") -> Any:
    return in_process(
        SimulatorConfig(rules=RULES), config=Config(sealing=SealingConfig(keys=keys, on_broken=on_broken))
    )


def client_of(house: Any) -> openai.AsyncOpenAI:
    http = house.gateway.http_client(openai)
    return openai.AsyncOpenAI(api_key="x", base_url="http://g/v1", http_client=http, max_retries=0)


async def turn(*keys: str) -> list[Any]:
    """What a client sends behind a turn that was sealed by the first of `keys`."""
    async with of(*keys) as house, client_of(house) as client:
        first = await client.responses.create(model="sim", input="2 + 2?", store=False)
    assert first.output[0].type == "reasoning"
    assert first.output[0].encrypted_content
    items = [item.to_dict() for item in first.output]
    items[0]["content"] = []  # as clients send it that keep nothing but the seal
    question: Any = {"role": "user", "content": "2 + 2?"}
    return [question, *items, {"role": "user", "content": "Why?"}]


async def asked(items: list[Any], *keys: str, on_broken: str = "drop") -> Any:
    async with of(*keys, on_broken=on_broken) as house, client_of(house) as client:
        return await client.responses.create(model="sim", input=items, store=False)


@pytest.mark.full
async def test_what_an_older_key_has_sealed_opens_while_it_is_kept_behind_the_new_one() -> None:
    answer = await asked(await turn(OLD), NEW, OLD, on_broken="refuse")
    assert "input_transformations" not in answer.to_dict()


async def test_what_a_retired_key_has_sealed_is_left_out_and_told() -> None:
    items = await turn(OLD)
    answer = await asked(items, NEW)
    assert answer.output_text.strip() == "Four."
    assert answer.to_dict()["input_transformations"] == [
        {"id": items[1]["id"], "type": "reasoning", "action": "removed", "reason": "organization_mismatch"}
    ]


async def test_a_seal_that_was_changed_is_left_out_and_told() -> None:
    items = await turn(OLD)
    sealed = items[1]["encrypted_content"]
    middle = len(sealed) // 2
    items[1]["encrypted_content"] = f"{sealed[:middle]}{'A' if sealed[middle] != 'A' else 'B'}{sealed[middle + 1 :]}"
    answer = await asked(items, OLD)
    assert answer.output_text.strip() == "Four."
    (told,) = answer.to_dict()["input_transformations"]
    assert (told["action"], told["reason"]) == ("removed", "prefix_mismatch")


@pytest.mark.full
async def test_both_are_refused_by_name_where_the_operator_wants_that() -> None:
    items = await turn(OLD)
    with pytest.raises(openai.BadRequestError) as raised:
        await asked(items, NEW, on_broken="refuse")
    assert raised.value.code == "invalid_encrypted_content"
    assert raised.value.param == "input[1]"


async def test_the_library_of_ciphers_is_loaded_in_a_thread_before_an_answer_that_may_be_sealed_and_by_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded_in: list[threading.Thread] = []
    monkeypatch.setattr(preparing, "load_ciphers", lambda: loaded_in.append(threading.current_thread()))
    async with of(OLD) as house, client_of(house) as client:
        await client.chat.completions.create(model="sim", messages=[{"role": "user", "content": "2 + 2?"}])
        assert loaded_in == []
        for _ in range(2):
            await client.responses.create(model="sim", input="2 + 2?", store=False)

    assert len(loaded_in) == 1
    assert loaded_in[0] is not threading.current_thread()
