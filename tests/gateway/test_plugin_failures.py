"""A closed plugin that fails, in whichever hook and way, lets nothing of an answer pass that it has not seen; and the client is
told, in the envelope of its API. Every hook, every way to fail, every API, streamed and whole, is walked."""

import asyncio
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, ClassVar

import attrs
import httpx
import msgspec
import pytest
from tests.gateway.conftest import in_process, over_http
from tests.gateway.test_plugins import GUESTS, listed
from tests.gateway.test_said import APIS, NUMBERS, SAID

from smg_core.events import Event
from smg_core.hooks import ExchangeEnded
from smg_core.middleware.base import (
    CONTINUE,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    Continue,
    End,
    EventVerdict,
    Failure,
    HeadVerdict,
    PieceVerdict,
    Reject,
    RequestBody,
    RequestHead,
    RequestVerdict,
    ResponseHead,
    StorageCall,
    StorageVerdict,
    TextVerdict,
)
from smg_core.middleware.python import PythonPlugin
from smg_core.request import GenerationRequest

pytestmark = pytest.mark.anyio

HERE = "tests.gateway.test_plugin_failures"
ENGINE = attrs.evolve(NUMBERS, replies=NUMBERS.replies * 10)
FAILED = "A plugin of this gateway failed."
GOOD_ENDS = ("[done]", "message_stop", "response.completed", "interaction.complete", '"finish_reason":"stop"')
"""What says in an API's stream that an answer is complete."""

STREAMED: dict[str, tuple[str, dict[str, Any]]] = {
    name: (row[2], row[1] if name == "gemini" else {**row[1], "stream": True}) for name, row in APIS.items()
}
STREAMED["gemini array"] = APIS["gemini"][2].removesuffix("?alt=sse"), APIS["gemini"][1]
STREAMED["several prompts"] = "/v1/completions", {"model": "sim", "prompt": ["One", "Two"], "stream": True}
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {name: row[:2] for name, row in APIS.items()}
WHOLE["several prompts"] = "/v1/completions", {"model": "sim", "prompt": ["One", "Two"]}

REQUEST_HOOKS = ("begin", "request_head", "request_body", "response_head")
PIECES = ("first_piece", "third_piece")
BEHIND = ("end", "error")
"""Hooks whose failure refuses no good answer: nothing comes behind them, or they are not called for it."""


RAISED: dict[str, type[BaseException]] = {
    "raise": RuntimeError,
    "cancel": asyncio.CancelledError,
    "exit": SystemExit,
    "interrupt": KeyboardInterrupt,
    "generator_exit": GeneratorExit,
}
WAYS = ("refuse", "wait", "self_cancel", "self_cancel_and_wait", *RAISED)


class Raising(PythonPlugin):
    """Raises, or refuses, in the hook that `do` names; writes what it passes in capital letters."""

    @attrs.frozen
    class Settings:
        do: str

    count = 0

    def does(self, hook: str) -> Reject | None:
        wanted, way = self.shared.do.rsplit(" ", 1)
        if wanted != hook:
            return None
        if way == "self_cancel":
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            return None
        if way in RAISED:
            raise RAISED[way]("a secret of the plugin")
        return Reject(500, FAILED)

    async def waits(self, hook: str) -> Reject | None:
        """The same in a hook that may wait: for what never comes, too."""
        if self.shared.do == f"{hook} wait":
            await asyncio.Event().wait()
        if self.shared.do == f"{hook} self_cancel_and_wait":
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            await asyncio.sleep(0)
        return self.does(hook)

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return await self.waits("request_head") or CONTINUE

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return await self.waits("request_body") or CONTINUE

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        return await self.waits("request") or CONTINUE

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return await self.waits("response_head") or CONTINUE

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        self.count += 1
        if self.shared.do.endswith(("_piece wait", "_piece self_cancel_and_wait")):
            return self.waited(piece, "third_piece" if self.count == 3 else "first_piece")
        refused = self.does("first_piece") or (self.does("third_piece") if self.count == 3 else None)
        return refused or self.passed(piece)

    async def waited(self, piece: AnswerPiece, hook: str) -> PieceVerdict:
        return await self.waits(hook) or self.passed(piece)

    @staticmethod
    def passed(piece: AnswerPiece) -> PieceVerdict:
        return CONTINUE if FAILED in piece.text else ChangeText(piece.text.upper())

    async def on_end(self, end: End) -> str:
        await self.waits("end")
        return ""

    async def on_error(self, failure: Failure) -> Continue | Reject:
        return await self.waits("error") or CONTINUE

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        return (await self.waits("store") if call.texts else None) or CONTINUE  # at writes; reads find what was kept

    async def on_stored(self, call: StorageCall) -> None:
        await self.waits("stored")


class RaisingOfText(Raising):
    """The same, of what the model says."""

    pieces = "text"

    def on_event(self, event: Event) -> EventVerdict:
        return self.does("event") or CONTINUE


class RaisingOfWhole(Raising):
    """The same, of answers that leave whole, at once."""

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        refused = await self.waits("response")
        return refused or CONTINUE, refused or ChangeText(body.upper())


class Counting(PythonPlugin):
    """Counts the pieces of each answer. A busy machine has several tokens leave as one piece."""

    seen: ClassVar[list[int]] = []

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        self.seen.append(0)
        return CONTINUE

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        self.seen[-1] += 1
        return CONTINUE


class CountingOfText(Counting):
    """The same, of what the model says."""

    pieces = "text"


def in_python(name: str, does: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"source": f"{HERE}:{name}", "config": {"do": does}}
    return {**entry, "deadline_ms": 60} if does.endswith("wait") else entry


def component(does: str) -> dict[str, Any]:
    deadline = 60 if "spin" in does else 20_000
    return {"source": str(GUESTS / "failing.wasm"), "config": {"do": does}, "deadline_ms": deadline}


def check_envelope(where: object, answer: httpx.Response) -> None:
    """The error that a client gets where nothing has left: in the words of its API, with the id of the request."""
    assert answer.status_code == 500, (where, answer.text)
    assert answer.headers["x-request-id"], where
    assert answer.headers["content-type"].startswith("application/json"), where
    assert answer.json()["error"]["message"] == FAILED, where


def check_nothing_unseen(where: object, answer: httpx.Response) -> None:
    check_nothing_unseen_in(where, answer.text)


def check_nothing_unseen_in(where: object, text: str) -> None:
    """Nothing of the answer that the plugin has not written in capital letters, and no word of what it raised."""
    assert not any(words in text for words in ("Call me", "not at", "now")), (where, text)
    assert "secret" not in text, where


def check_stream(where: object, answer: httpx.Response) -> None:
    """A stream that a plugin has refused: an error in place of it, or one at its end, which looks like no good answer."""
    if answer.status_code != 200:
        check_envelope(where, answer)
        return
    assert answer.headers["x-request-id"], where
    before, told, behind = answer.text.lower().partition(FAILED.lower())
    assert told, (where, answer.text)
    assert FAILED.lower() not in behind, (where, answer.text)
    assert not any(end in before for end in GOOD_ENDS), (where, answer.text)
    assert not any(end in behind for end in GOOD_ENDS[1:]), (where, answer.text)  # "[DONE]" stands behind errors, too


async def walk(tmp_path: Path, entry: dict[str, Any], hook: str, *, streams: bool) -> None:
    """Ask every API of a gateway with this plugin, and check what leaves."""
    does = entry["config"]["do"]
    of_text = does.endswith("text") or entry["source"].endswith("OfText")
    counting = f"{HERE}:{'CountingOfText' if of_text else 'Counting'}"
    async with in_process(
        ENGINE, config=listed(tmp_path, entry, {"source": counting})
    ) as house:  # the last sees it first
        for name, (path, asked) in (STREAMED if streams else WHOLE).items():
            if name == "gemini array" and hook == "third_piece" and not of_text:
                continue  # it is shown whole, which is one piece
            answer = await house.http.post(path, json=asked)
            while hook == "third_piece" and Counting.seen[-1] < 3:
                answer = await house.http.post(path, json=asked)
            where = does, name, streams
            check_nothing_unseen(where, answer)
            if hook in BEHIND:
                assert answer.status_code == 200, (where, answer.text)
                assert "CALL ME" in answer.text, (where, answer.text)
            elif streams:
                check_stream(where, answer)
            else:
                check_envelope(where, answer)


HOOKS = [(hook, streams) for hook in (*REQUEST_HOOKS, "first_piece", *BEHIND) for streams in (True, False)]
HOOKS.append(("third_piece", True))


@pytest.mark.full
@pytest.mark.sampled(keep=15)
@pytest.mark.parametrize("mode", ["wire", "text"])
@pytest.mark.parametrize("way", ["spin", "trap"])
@pytest.mark.parametrize(("hook", "streams"), HOOKS)
async def test_a_component_that_fails_lets_nothing_pass(
    tmp_path: Path, hook: str, way: str, mode: str, streams: bool
) -> None:
    await walk(tmp_path, component(f"{hook} {way} {mode}"), hook, streams=streams)


OF_CLASSES = [
    *[("Raising", *row) for row in HOOKS if row[0] != "begin"],
    *[("RaisingOfText", *row) for row in HOOKS if row[0] != "begin"],
    *[
        (name, hook, streams)
        for name, hook in (("RaisingOfText", "event"), ("Raising", "request"))
        for streams in (True, False)
    ],
    ("RaisingOfWhole", "response", False),
]


@pytest.mark.full
@pytest.mark.sampled(per=("name",), keep=2)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "hook", "streams"), OF_CLASSES)
async def test_a_class_that_raises_or_refuses_or_waits_too_long_lets_nothing_pass(
    tmp_path: Path, name: str, hook: str, way: str, streams: bool
) -> None:
    if (hook, way) in (("event", "wait"), ("event", "self_cancel_and_wait")):
        return  # a plain function, which cannot wait
    await walk(tmp_path, in_python(name, f"{hook} {way}"), hook, streams=streams)


STORING = [in_python("Raising", f"{hook} {way}") for hook in ("store", "stored") for way in WAYS]
STORING += [component(f"{hook} {way} none") for hook in ("store", "stored") for way in ("spin", "trap")]
ANSWERED = ("/v1/responses", "/v1beta/interactions")
KEPT: dict[str, dict[str, Any]] = {
    "/v1/responses": {"model": "sim", "input": "Hi", "store": True},
    "/v1/conversations": {"metadata": {"a": "b"}},
    "/v1beta/interactions": {"model": "sim", "input": "Hi", "store": True},
}


@pytest.mark.full
@pytest.mark.sampled(per=("entry",))
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("entry", STORING, ids=lambda entry: entry["config"]["do"])
async def test_what_a_plugin_around_the_store_fails_at_is_not_kept(
    tmp_path: Path, entry: dict[str, Any], streams: bool
) -> None:
    """One that fails before a write has none of it kept, and the client told; one that fails after it changes nothing."""
    hook = entry["config"]["do"].split(" ")[0]
    async with in_process(ENGINE, config=listed(tmp_path, entry)) as house:
        for path, asked in KEPT.items():
            answer = await house.http.post(
                path, json={**asked, "stream": True} if streams and "model" in asked else asked
            )
            assert "secret" not in answer.text, path
            if hook == "store" and path in ANSWERED:
                # An answer that could not be kept is given all the same: the log tells of it.
                found = re.search(r'"id": ?"([^"]+)"', answer.text.lower())
                assert found is not None, (path, answer.text)
                assert (await house.http.get(f"{path}/{found[1]}")).status_code == 404, (path, found[1])
            elif hook == "store":
                check_envelope(path, answer)
            else:
                assert answer.status_code == 200, (path, answer.text)
                assert FAILED not in answer.text, (path, answer.text)


class Odd(PythonPlugin):
    """Answers with verdicts whose fields are of other types."""

    @attrs.frozen
    class Settings:
        do: str

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        found: Any = {"a header that is no text": ChangeHead(set=(("x-a", 1),)), "a list": ChangeHead(add=[1])}  # type: ignore
        return found.get(self.shared.do, CONTINUE)  # type: ignore[no-any-return]

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        if self.shared.do == "half a surrogate in a body":
            return ChangeText("\ud800")
        return ChangeText(b"bytes") if self.shared.do == "bytes" else CONTINUE  # type: ignore[arg-type]

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return ChangeHead(status="200") if self.shared.do == "a status in letters" else CONTINUE  # type: ignore[arg-type]

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict:
        if self.shared.do == "half a surrogate in a piece":
            return ChangeText("\ud800")
        return Reject("x", 7) if self.shared.do == "a refusal of nothing" else CONTINUE  # type: ignore[arg-type]


@pytest.mark.sampled(keep=5)
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    "does",
    [
        "a header that is no text",
        "a list",
        "bytes",
        "a status in letters",
        "a refusal of nothing",
        "half a surrogate in a body",
        "half a surrogate in a piece",
    ],
)
async def test_a_verdict_of_other_types_is_a_failure(tmp_path: Path, does: str, streams: bool) -> None:
    await walk(tmp_path, in_python("Odd", does), "odd", streams=streams)


class Nameless(PythonPlugin):
    """Takes the id of an answer away, and gives it another one."""

    @attrs.frozen
    class Settings:
        do: str

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        names = ("X-Request-Id", "request-id")
        if self.shared.do == "removes":
            return ChangeHead(remove=names)
        return ChangeHead(set=tuple((each, "mine") for each in names), add=(("x-request-id", "another"), ("x-a", "1")))


@pytest.mark.full
@pytest.mark.parametrize("does", ["removes", "sets"])
async def test_the_id_of_an_answer_stays_that_of_the_logs(tmp_path: Path, does: str) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, in_python("Nameless", does))) as house:
        for asked in (WHOLE, STREAMED):
            for name, (path, sent) in asked.items():
                answer = await house.http.post(path, json=sent)
                ended = house.observer.of(ExchangeEnded)[-1]
                assert answer.headers.get_list("x-request-id") == [ended.request_id], (name, does)
                if path == "/v1/messages":
                    assert answer.headers.get_list("request-id") == [ended.request_id], (name, does)
                assert ("x-a" in answer.headers) == (does == "sets")
        refused = await house.http.post("/v1/chat/completions", json={"model": "sim"}, headers={"x-request-id": "ours"})
        assert refused.headers.get_list("x-request-id") == ["ours"], refused.text


ERRORS = [
    *[component(f"error {way} {mode}") for way in ("spin", "trap") for mode in ("wire", "text")],
    *[in_python(name, f"error {way}") for name in ("Raising", "RaisingOfText") for way in ("raise", "refuse")],
]


@pytest.mark.sampled(keep=2)
@pytest.mark.parametrize("entry", ERRORS, ids=lambda entry: entry["config"]["do"])
async def test_an_error_is_told_where_a_plugin_fails_at_it(tmp_path: Path, entry: dict[str, Any]) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, entry)) as house:
        for name, (path, asked) in WHOLE.items():
            answer = await house.http.post(path, json={**asked, "no_such": 1, "stream": "no"})
            told = answer.json()
            assert 400 <= answer.status_code <= 500, (name, answer.text)
            assert answer.headers["x-request-id"], name
            assert "secret" not in answer.text
            assert told.get("error") or told.get("ERROR"), (name, answer.text)


@pytest.mark.full
@pytest.mark.parametrize(
    "entry",
    [
        component("first_piece trap wire"),
        component("response_head spin text"),
        in_python("Raising", "first_piece raise"),
    ],
    ids=lambda entry: entry["config"]["do"],
)
async def test_an_answer_of_any_other_route_is_refused_in_the_envelope(tmp_path: Path, entry: dict[str, Any]) -> None:
    async with in_process(ENGINE, config=listed(tmp_path, entry)) as house:
        for path in ("/v1/models", "/v1beta/models", "/v1/files"):
            check_envelope(path, await house.http.get(path))
        for path, asked in (
            ("/tokenize", {"model": "sim", "prompt": "Hi"}),
            ("/v1/messages/count_tokens", {"model": "sim", "messages": [{"role": "user", "content": "Hi"}]}),
        ):
            check_envelope(path, await house.http.post(path, json=asked))


async def test_an_array_of_a_stream_that_comes_in_pieces_is_shown_whole(tmp_path: Path) -> None:
    path, asked = STREAMED["gemini array"]
    async with in_process(ENGINE, config=listed(tmp_path, in_python("Raising", "none raise"))) as house:
        answer = await house.http.post(path, json=asked)
    found = msgspec.json.decode(answer.content)
    texts = [part["TEXT"] for each in found for part in each["CANDIDATES"][0].get("CONTENT", {}).get("PARTS", ())]
    assert "".join(texts).strip() == SAID.upper()


class Cutting:
    """ASGI middleware that writes in capital letters what passes, and raises in its `send` at a message of the answer."""

    def __init__(self, app: Any, at: int, swallows: bool = False) -> None:
        self.app, self.at, self.swallows = app, at, swallows

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        count = 0

        async def seen(message: Any) -> None:
            nonlocal count
            if count == self.at:
                raise RuntimeError("a secret of the middleware")
            count += 1
            if message["type"] == "http.response.body":
                message = {**message, "body": message["body"].upper()}
            await send(message)

        try:
            await self.app(scope, receive, seen)
        except Exception:
            if not self.swallows:
                raise


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("at", [0, 1, 3])
async def test_asgi_middleware_that_raises_lets_nothing_pass(
    tmp_path: Path, at: int, streams: bool, swallows: bool
) -> None:
    """Also where it says nothing of what was raised in its own `send`."""
    entry = {"source": f"{HERE}:Cutting", "kind": "asgi", "config": {"at": at, "swallows": swallows}}
    async with over_http(ENGINE, config=listed(tmp_path, entry)) as house:
        for name, (path, asked) in (STREAMED if streams else WHOLE).items():
            said = b""
            try:
                async with house.http.stream("POST", path, json=asked) as answer:
                    if at == 0:
                        await answer.aread()
                        check_envelope(name, answer)
                        continue
                    async for piece in answer.aiter_bytes():
                        said += piece
                if answer.headers["content-type"].startswith("text/event-stream"):
                    before, _, last = said.removesuffix(b"\n\n").rpartition(b"\n\n")
                    assert last.startswith(b"event: error\ndata: "), (name, said)
                    assert FAILED in last.decode(), (name, said)
                    assert FAILED not in before.decode(), (name, said)
            except httpx.RemoteProtocolError:
                # The connection is cut: what is no stream of events has no better end once it has begun.
                assert not answer.headers["content-type"].startswith("text/event-stream"), name
            assert not any(words in said for words in (b"Call me", b"not at", b"now", b"secret")), (name, said)
            if at == 1 or streams:
                assert not any(end.upper().encode() in said for end in GOOD_ENDS), (name, said)
        failed = house.gateway.services.plugins.states["Cutting"].counts.get("failed", 0)
        ended = house.observer.of(ExchangeEnded)
        assert failed == len([each for each in ended if each.outcome != "ok"])
        assert failed >= (0 if at == 3 and not streams else len(APIS))
