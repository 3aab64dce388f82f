"""Pictures on every engine: made, and changed, where it has OpenAI's routes for them, else refused by name."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.gateway.test_images import PNG, painting
from tests.matrix.conftest import ENGINES

from smg_core import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.sampled(per=("engine",))]

PAINTS = "server of images"
FEATURES = ("new pictures", "pictures, changed")


def form(fields: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    request = httpx.Request("POST", "http://g/", data=fields, files={"image": ("a.png", PNG, "image/png")})
    return request.read(), {"content-type": request.headers["content-type"]}


async def outcome(client: httpx.AsyncClient, feature: str, streamed: bool) -> str:
    """What came of a request for a picture."""
    fields: dict[str, Any] = {"model": "sim", "prompt": "a fox", "stream": streamed}
    if feature == FEATURES[0]:
        body, headers = json.dumps(fields).encode(), {"content-type": "application/json"}
        answer = await client.post("/v1/images/generations", content=body, headers=headers)
    else:
        body, headers = form({**fields, "stream": str(streamed).lower()})
        answer = await client.post("/v1/images/edits", content=body, headers=headers)
    if answer.status_code == 400:
        return f"400: {answer.json()['error']['param']}"
    assert answer.status_code == 200, answer.text
    assert ".completed" in answer.text if streamed else answer.json()["data"][0]["b64_json"]
    return "yes"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("engine", [*ENGINES, PAINTS])
async def test_pictures_are_made_or_refused_by_name(
    engine: str,
    feature: str,
    streamed: bool,
    served: Callable[[str, str], Any],
    called_by: Callable[[Gateway], httpx.AsyncClient],
    record_property: Callable[[str, object], None],
) -> None:
    record_property("cell", ("Images", feature, engine, "stream" if streamed else "whole"))
    if engine == PAINTS:
        async with painting() as house:
            result = await outcome(house.http, feature, streamed)
        assert result == "yes"
    else:
        gateway, _ = await served(engine, "text")
        result = await outcome(called_by(gateway), feature, streamed)
    record_property("result", result)
