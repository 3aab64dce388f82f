"""A plugin that fails or refuses over the WebSocket of Responses: the client is told by a frame like every error there, of the
failure alone, and the connection goes on. Every hook and way is walked."""

from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import over_http
from tests.gateway.test_plugin_failures import (
    BEHIND,
    ENGINE,
    FAILED,
    HOOKS,
    check_nothing_unseen_in,
    component,
    in_python,
)
from tests.gateway.test_plugin_routes import frames_of, kind_of
from tests.gateway.test_plugins import listed
from websockets.asyncio.client import connect

pytestmark = pytest.mark.anyio

WAYS = ("refuse", "raise", "self_cancel_and_wait")
AT_THE_DOOR = ("begin", "request_head")  # they meet the handshake
STREAMED = [hook for hook, streams in HOOKS if streams and hook not in AT_THE_DOOR]
IN_PYTHON = [
    in_python(name, f"{hook} {way}")
    for name in ("Raising", "RaisingOfText")
    for hook in STREAMED
    if name == "RaisingOfText" or hook not in BEHIND  # the other one writes the words of the stream in capital letters
    for way in WAYS
]
IN_PYTHON += [in_python("Raising", f"request {way}") for way in WAYS]
IN_PYTHON += [in_python("RaisingOfText", f"event {way}") for way in WAYS if way != "self_cancel_and_wait"]
COMPONENTS = [component(f"{hook} trap {mode}") for hook in STREAMED if hook not in BEHIND for mode in ("wire", "text")]


@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize(
    "entry", [*IN_PYTHON, *COMPONENTS], ids=lambda entry: "-".join(map(str, entry["config"].values()))
)
async def test_a_failure_is_told_by_a_frame_as_every_error_there(tmp_path: Path, entry: dict[str, Any]) -> None:
    hook = entry["config"]["do"].split(" ")[0]
    async with over_http(ENGINE, config=listed(tmp_path, entry)) as house:
        url = house.url.replace("http", "ws") + "/v1/responses"
        async with connect(url, proxy=None) as socket:
            for _ in range(2):  # the connection goes on behind a failure
                found = await frames_of(socket, input="Hi")
                check_nothing_unseen_in(entry["config"], str(found))
                if hook in BEHIND:
                    assert kind_of(found[-1]) == "response.completed", found
                    continue
                told = found[-1]
                if told["type"] == "response.failed":  # how the API tells that a response which has begun has failed
                    assert entry["config"]["do"].startswith(("third_piece", "first_piece", "event")), found
                    told = {**told["response"], "type": "error", "status": 500}
                assert (told["type"], told["status"]) == ("error", 500), found
                assert told["error"]["message"] == FAILED, found
                assert FAILED.lower() not in str(found[:-1]).lower(), found
                assert not any(kind_of(each) == "response.completed" for each in found), found
