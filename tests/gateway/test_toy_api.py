"""A public API that only this file knows gets all that the others have, from one row: `Gateway(apis=...)`."""

from collections.abc import Sequence

import attrs
import httpx
import msgspec
import pytest
from tests.gateway.conftest import in_process
from tests.matrix.every_api import cell_of, outcome, rows_of
from tools.matrix import page

from smg_core import Config
from smg_core.apis import ALL
from smg_core.auth.settings import AuthConfig
from smg_core.events import Done, Event, Failed, TextDelta
from smg_core.hooks import RequestFinished
from smg_core.http.endpoint import Endpoint
from smg_core.http.envelopes import EnvelopeRule
from smg_core.http.routes import Route
from smg_core.origin import Origin
from smg_core.request import GenerationRequest, Message, Sampling, Text
from smg_core.serving.api import Api
from smg_core.serving.inference import Inference
from smg_core.serving.spec import ApiContext, ApiName, ApiSpec, table_of, trials_of
from smg_core.trials import ApiTrials
from smg_core.wire.base import Incoming, Locate
from smg_core.wire.operation import Operation, OperationResponse
from smg_simulator.conform.probes import BROKEN, probes


class Toy(msgspec.Struct):
    say: str
    stream: bool = False


@attrs.frozen
class Asked:
    generation: GenerationRequest

    def locate(self, path: str) -> str:
        return path


def decode(incoming: Incoming) -> Asked:
    toy, id = msgspec.json.decode(incoming.body, type=Toy), incoming.request_id
    say = (Message("user", (Text(toy.say),)),)
    asked = GenerationRequest(id, "sim", say, sampling=Sampling(max_tokens=4), stream=toy.stream, origin=Origin("toy"))
    return Asked(msgspec.structs.replace(asked, caller=incoming.caller))


class Stream:
    content_type = "text/plain"

    def start(self) -> bytes:
        return b""

    def keep_alive(self) -> bytes:
        return b"\0"

    def encode(self, events: Sequence[Event]) -> bytes:
        ends = {Done: b"\n.", Failed: b"\n!"}
        return b"".join(
            each.text.encode() if isinstance(each, TextDelta) else ends.get(type(each), b"") for each in events
        )


class Whole(Stream):
    def __init__(self) -> None:
        self.text = b""

    def add(self, events: Sequence[Event]) -> None:
        self.text += self.encode(events)

    def body(self) -> bytes:
        return self.text

    def fork(self) -> "Whole":
        return self


def error(failure: Exception, request_id: str = "", locate: Locate | None = None) -> bytes:
    return b"toy: " + str(failure).encode()


API: Api[Asked] = Api("toy", "toy-", decode, lambda asked, now: Stream(), lambda asked, now: Whole(), error)
ABOUT = Operation("say", "Say something.", "toy", Toy, (OperationResponse(200, "What was said.", None, "text/plain"),))


def routes(context: ApiContext) -> list[Route[Endpoint]]:
    return [Route("POST", "/v1/toy", Endpoint(Inference(context.services, API), "toy", reads_json=True, about=ABOUT))]


TRIALS = ApiTrials("toy", "/v1/toy", lambda model: (("text", "text", {"say": "Hello"}),))
TOY = ApiSpec((ApiName("toy", "toying"),), {"toy": "The toy"}, routes, (EnvelopeRule("/v1/toy", error),), TRIALS)
MAY, MAY_NOT = "a-secret-of-those-who-may-do-it", "a-secret-of-those-who-may-not-do"
KEYS = AuthConfig(
    keys=(f"{MAY} tenant=t role=toys", f"{MAY_NOT} tenant=t role=chats"), roles=("toys=toy", "chats=chat")
)

pytestmark = pytest.mark.anyio


async def test_one_row_gives_an_api_its_answers_permission_envelope_description_and_names() -> None:
    async with in_process(apis=(*ALL, TOY), config=Config(auth=KEYS)) as house:

        async def say(key: str, **more: object) -> httpx.Response:
            return await house.http.post(
                "/v1/toy", json={"say": "Hello", **more}, headers={"authorization": f"Bearer {key}"}
            )

        whole, streamed = await say(MAY), await say(MAY, stream=True)
        assert whole.status_code == streamed.status_code == 200
        assert whole.content == streamed.content
        assert whole.content.endswith(b"\n.")
        assert [each.api for each in house.observer.of(RequestFinished)] == ["toy", "toy"]
        refused = await say(MAY_NOT)
        assert refused.status_code == 403
        assert refused.content.startswith(b"toy: This key has no permission 'toy'")
    async with in_process(apis=(*ALL, TOY)) as house:
        described = (await house.http.get("/openapi.json")).json()["paths"]["/v1/toy"]["post"]
        assert described["operationId"] == "say"
    assert table_of((*ALL, TOY)).operations["toy"] == "toying"


async def test_its_row_is_one_of_the_matrix_and_of_what_conform_sends() -> None:
    async with in_process(apis=(*ALL, TOY)) as house:
        cells = {
            "\t".join(cell_of(probe, "vLLM")): await outcome(house.http, probe, "vLLM")
            for _, probe in rows_of((*ALL, TOY), "sim")
        }

    assert "| toy | yes |" in page(cells)
    assert page(cells).count("| yes |") == len(trials_of(ALL)) + 1
    assert [probe.name for probe in probes(TRIALS, "sim")] == ["text", "text", BROKEN]
