"""A plugin that changes the model of a request leads it past no other one: those for the new model are asked from there on, by
their order and none twice; one that was to be shown what is no longer at hand refuses. Every hook, order, API and way in is
walked."""

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from msgspec.structs import replace
from tests.gateway.conftest import CHAT, body, in_process, over_http
from tests.gateway.test_plugin_failures import ENGINE, STREAMED, WHOLE
from tests.gateway.test_plugin_routes import batched, frames, kind_of
from tests.gateway.test_plugins import listed
from tests.shared import PATIENCE

from smg_core.config.config import Config
from smg_core.events import Event
from smg_core.middleware.base import (
    CONTINUE,
    AnswerPiece,
    ChangeText,
    End,
    EventVerdict,
    HeadVerdict,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    TextVerdict,
)
from smg_core.middleware.python import PythonPlugin
from smg_core.request import GenerationRequest
from smg_core.routing.settings import RoutingConfig

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_plugin_renaming"
HALF = "half"  # a name that leads to "sim", and to which "sim" does not lead
REFUSED = Reject(403, "Not for this model.")


class Renames(PythonPlugin):
    """Changes the model of each request."""

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return CONTINUE if request.model == HALF else replace(request, model=HALF)


class RenamesBody(PythonPlugin):
    """Changes the model of each body."""

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return ChangeText(body.text.replace('"sim"', f'"{HALF}"'))


class OfRequestHead(PythonPlugin):
    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return REFUSED


class OfRequestBody(PythonPlugin):
    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return REFUSED


class OfRequest(PythonPlugin):
    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return REFUSED


class OfEvent(PythonPlugin):
    def on_event(self, event: Event) -> EventVerdict:
        return REFUSED


class OfText(PythonPlugin):
    pieces = "text"

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        return REFUSED


class OfWire(PythonPlugin):
    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        return REFUSED if "Call" in piece.text else CONTINUE


class OfResponseHead(PythonPlugin):
    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return REFUSED


class OfResponse(PythonPlugin):
    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        return CONTINUE, REFUSED if "Call" in body else CONTINUE


class Lets(PythonPlugin):
    """Refuses nothing, and notes what it is asked."""

    asked: ClassVar[list[str]] = []

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return self.note("body")

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        self.note("request")
        return CONTINUE

    def note(self, what: str) -> TextVerdict:
        Lets.asked.append(f"{self.shared} {what}")
        return CONTINUE

    @attrs.frozen
    class Settings:
        name: str

    @classmethod
    def prepare(cls, settings: Any) -> Any:
        return settings.name

    async def on_end(self, end: End) -> str:
        self.note("end")
        return ": seen\n\n"


GUARDS = (OfRequestHead, OfRequestBody, OfRequest, OfEvent, OfText, OfWire, OfResponseHead, OfResponse)
OF_REQUESTS = (OfRequestHead, OfRequestBody, OfRequest)
ORDERS = ("before", "behind")


def of(kind: type[PythonPlugin], **said: Any) -> dict[str, Any]:
    return {"source": f"{HERE}:{kind.__name__}", **said}


def gateway(folder: Path, *entries: dict[str, Any]) -> Config:
    return attrs.evolve(listed(folder, *entries), routing=RoutingConfig(splits=(f"{HALF}=sim:1",)))


def ordered(renaming: type[PythonPlugin], guard: dict[str, Any], order: str) -> list[dict[str, Any]]:
    return [guard, of(renaming)] if order == "before" else [of(renaming), guard]


@pytest.mark.full
@pytest.mark.sampled(per=("guard",))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("renaming", [Renames, RenamesBody])
async def test_a_changed_model_meets_the_plugins_that_are_for_it(
    tmp_path: Path, renaming: type[PythonPlugin], guard: type[PythonPlugin], order: str
) -> None:
    config = gateway(tmp_path, *ordered(renaming, of(guard, models=[HALF]), order))
    async with in_process(ENGINE, config=config) as house:
        for asked in (WHOLE, STREAMED):
            for name, (path, sent) in asked.items():
                if renaming is RenamesBody and sent.get("model") != "sim":
                    continue  # its path names the model, or nothing does
                if guard is OfResponse and asked is STREAMED and name != "gemini array":
                    continue  # it looks at answers that leave whole alone
                answer = await house.http.post(path, json=sent)
                where = name, answer.status_code, answer.text[:300]
                assert "Call" not in answer.text, where
                assert answer.status_code in (403, 500) or "Not for this model." in answer.text, where
                if guard is OfRequestBody and renaming is Renames:
                    assert answer.status_code == 500, where
                    assert answer.json()["error"]["message"] == "A plugin of this gateway failed.", where
        if guard in OF_REQUESTS:
            assert not house.engine.requests


@pytest.mark.full
@pytest.mark.sampled(per=("guard",))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("renaming", [Renames, RenamesBody])
async def test_a_changed_model_meets_its_plugins_in_batches_and_in_the_background(
    tmp_path: Path, renaming: type[PythonPlugin], guard: type[PythonPlugin], order: str
) -> None:
    config = gateway(tmp_path, *ordered(renaming, of(guard, models=[HALF], routes=["/v1/responses*", CHAT]), order))
    async with over_http(ENGINE, config=config) as house:
        background = {"model": "sim", "input": "Hi", "background": True, "store": True}
        for stream in (True, False) if guard is not OfResponse else (False,):
            made = await house.http.post("/v1/responses", json={**background, "stream": stream})
            assert "Call" not in made.text, made.text
            if made.status_code == 200 and not stream:
                async with asyncio.timeout(PATIENCE):
                    while (got := await house.http.get(f"/v1/responses/{made.json()['id']}")).status_code == 200:
                        if got.json()["status"] in ("completed", "failed"):
                            break
                        await asyncio.sleep(0.01)
                assert "Call" not in got.text, got.text
        (line,) = await batched(house, "Hi")
        assert "Call" not in str(line), line
        if guard in OF_REQUESTS:
            assert not house.engine.requests


@pytest.mark.full
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"unseen": "pass"}, ["a request", "b request", "b end", "a end"]),
        ({"on_failure": "open"}, []),
    ],
)
async def test_a_plugin_that_lets_pass_what_it_cannot_be_shown_is_asked_the_rest_and_an_open_one_is_left_out(
    tmp_path: Path, said: dict[str, Any], asked: list[str], order: str
) -> None:
    Lets.asked.clear()
    two = [of(Lets, name=name, config={"name": name}, models=[HALF], **said) for name in "ab"]
    entries = [*two, of(Renames)] if order == "before" else [of(Renames), *two]
    async with in_process(ENGINE, config=gateway(tmp_path, *entries)) as house:
        answer = await house.http.post(CHAT, json=body("Hi", stream=True))
    assert answer.status_code == 200, answer.text
    assert Lets.asked == asked
    assert answer.text.count(": seen") == sum(each.endswith("end") for each in asked)


@pytest.mark.parametrize("order", ORDERS)
async def test_plugins_for_the_model_of_a_changed_body_are_asked_once_in_their_order(
    tmp_path: Path, order: str
) -> None:
    Lets.asked.clear()
    entries = [
        of(Lets, name=name, config={"name": name}, **({"models": [models]} if models else {}))
        for name, models in (("a", HALF), ("b", ""), ("c", "sim"))
    ]
    entries.insert(0 if order == "before" else 3, of(RenamesBody))
    async with in_process(ENGINE, config=gateway(tmp_path, *entries)) as house:
        answer = await house.http.post(CHAT, json=body("Hi"))
    assert answer.status_code == 200, answer.text
    bodies = ["a body", "b body", "c body"] if order == "before" else ["b body", "c body", "a body"]
    assert Lets.asked[:3] == bodies
    assert Lets.asked[3:6] == ["a request", "b request", "c request"]


@pytest.mark.sampled(per=("guard",))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("guard", [each for each in GUARDS if each is not OfResponse])
@pytest.mark.parametrize("renaming", [Renames, RenamesBody])
async def test_a_changed_model_meets_its_plugins_in_frames_of_a_websocket(
    tmp_path: Path, renaming: type[PythonPlugin], guard: type[PythonPlugin], order: str
) -> None:
    config = gateway(tmp_path, *ordered(renaming, of(guard, models=[HALF]), order))
    async with over_http(ENGINE, config=config) as house:
        found = await frames(house, input="Hi")
        assert "Call" not in str(found), found
        assert kind_of(found[-1]) == "error", found
        told = "A plugin of this gateway failed." if found[-1]["status"] == 500 else REFUSED.message
        assert found[-1]["status"] in (403, 500), found
        assert found[-1]["error"]["message"] == told, found
        if guard in OF_REQUESTS:
            assert not house.engine.requests


POOLED: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": "sim", "input": "Hi"},
    "/v1/rerank": {"model": "sim", "query": "Hi", "documents": ["Call me", "now"]},
    "/v1/score": {"model": "sim", "text_1": "Hi", "text_2": "Call me"},
    "/v1/classify": {"model": "sim", "input": "Hi"},
}


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("guard", [OfRequestHead, OfRequestBody, OfResponseHead])
async def test_a_changed_model_meets_its_plugins_where_texts_are_pooled(
    tmp_path: Path, guard: type[PythonPlugin], order: str
) -> None:
    """No request for generation is made there, so `on_request` is not called; a body may change the model."""
    async with in_process(ENGINE, config=gateway(tmp_path, of(RenamesBody))) as house:
        let = {path: (await house.http.post(path, json=sent)).status_code for path, sent in POOLED.items()}
    assert 403 not in let.values(), let
    config = gateway(tmp_path, *ordered(RenamesBody, of(guard, models=[HALF]), order))
    async with in_process(ENGINE, config=config) as house:
        for path, sent in POOLED.items():
            answer = await house.http.post(path, json=sent)
            assert answer.status_code == 403, (path, answer.text)
            assert REFUSED.message in answer.text, (path, answer.text)
            assert (await house.http.post(path, json={**sent, "model": "other"})).status_code != 403, path
