"""What a real MLX lacks, or would die of, is refused. Run by `make test-engines`; what it can do is in test_client_suite."""

from typing import Any

import openai
import pytest
from tests.engines.running import COMES_UP_S, Running
from tests.engines.test_client_suite import GREETING, HELLO

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.engines,
    pytest.mark.timeout(COMES_UP_S + 300),
    pytest.mark.parametrize("engine", ["mlx"], indirect=True),
]


async def test_what_the_engine_lacks_is_refused(engine: Running, client: openai.AsyncOpenAI, model: str) -> None:
    assert engine.engine.name == "mlx"
    for fields, param in (
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"extra_body": {"min_tokens": 3}}, "min_tokens"),
        ({"seed": -1}, "seed"),
    ):
        asked: Any = {"model": model, "messages": HELLO, **fields}
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**asked)
        assert (caught.value.param or "").startswith(param)

    answer = await client.chat.completions.create(model=model, messages=HELLO, temperature=0)
    assert answer.choices[0].message.content == GREETING
