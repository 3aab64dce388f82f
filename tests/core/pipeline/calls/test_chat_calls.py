"""Calls of engines that take the request itself: what is written for them in a thread counts as large as it is."""

from collections.abc import Callable
from typing import Any

import pytest

from smg_core.pipeline.calls.chat_calls import ChatCalls
from smg_core.pipeline.calls.executor import FairExecutor
from smg_core.request import Caller, GenerationRequest, Message, Text
from smg_core.tokenizer.base import GivenUp

pytestmark = pytest.mark.anyio


class Sizes(FairExecutor):
    """Keeps how large the work was said to be, and whose it was."""

    def __init__(self) -> None:
        super().__init__(2)
        self.told: list[tuple[int, str]] = []

    async def run(self, call: Callable[[GivenUp], Any], *, size: int, caller: str = "") -> Any:
        self.told.append((size, caller))
        return await super().run(call, size=size, caller=caller)


class Writing:
    """An engine that writes its request where it is told to."""

    async def chat(self, request: GenerationRequest, sink: object, **options: Any) -> str:
        elsewhere = options["elsewhere"]
        return "written" if elsewhere is None else await elsewhere(lambda: "written")


@pytest.mark.parametrize(
    ("characters", "size", "told"),
    [(10, 100, []), (10, 20_000, [(20_000, "t")]), (500_000, 100, [(500_000, "t")])],
)
async def test_work_is_as_large_as_the_body_or_what_a_flow_added_to_it(
    characters: int, size: int, told: list[tuple[int, str]]
) -> None:
    executor = Sizes()
    message = Message("user", (Text("x" * characters),))
    request = GenerationRequest(id="r", model="m", messages=(message,), size=size, caller=Caller("t"))
    engine: Any = Writing()

    found: object = await ChatCalls(executor).begin(
        engine,
        request,
        None,
        metadata=(),
        connect_timeout=None,
        lora=None,  # type: ignore[arg-type]
    )
    executor.close()

    assert found == "written"
    assert executor.told == told
