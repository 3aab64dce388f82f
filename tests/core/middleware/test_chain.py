"""The chain of one exchange: order, failure, and what a plugin may not change."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smg_core.errors import InternalError, PermissionDenied, SmgError
from smg_core.events import Event, TextDelta, TextEnd
from smg_core.middleware.answer_watchers import AnswerWatchers
from smg_core.middleware.base import (
    CONTINUE,
    HOOKS,
    About,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    Continue,
    End,
    EventVerdict,
    Failure,
    HeadVerdict,
    HookName,
    MiddlewareFault,
    PieceMode,
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
from smg_core.middleware.chain import Happened, PluginChain, PluginRules
from smg_core.middleware.checks import FRAMING, changed_headers
from smg_core.middleware.entries import Entry, Link, parse_entries
from smg_core.middleware.plan import PluginPlan
from smg_core.middleware.settings import MiddlewareConfig
from smg_core.request import GenerationRequest
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

HEAD = RequestHead("POST", "/v1/chat/completions", "", (("x-a", "1"), ("host", "h")))
ABOUT = About("req-1", "POST", "/v1/chat/completions", "/v1/chat/completions")


@attrs.define
class Scripted:
    """A middleware, and the one session that it has: answers what `answers` has for a hook, and keeps what it was asked."""

    name: str = "scripted"
    answers: dict[str, Any] = attrs.field(factory=dict)
    pieces: PieceMode = "text"
    hooks: frozenset[HookName] = frozenset(HOOKS)
    asked: list[Any] = attrs.field(factory=list)
    closed: int = 0

    def begin(self, about: About) -> "Scripted":
        self._say("begin", about, None)
        return self

    def _say(self, hook: str, given: Any, default: Any) -> Any:
        self.asked.append(given)
        said = self.answers.get(hook, default)
        if isinstance(said, Exception):
            raise said
        return said(given) if callable(said) else said

    async def on_request_head(self, head: RequestHead) -> HeadVerdict:
        return self._say("request_head", head, CONTINUE)  # type: ignore[no-any-return]

    async def on_request_body(self, body: RequestBody) -> TextVerdict:
        return self._say("request_body", body, CONTINUE)  # type: ignore[no-any-return]

    async def on_request(self, request: GenerationRequest) -> RequestVerdict:
        raise AssertionError("not one of its hooks")

    def on_event(self, event: Event) -> EventVerdict:
        raise AssertionError("not one of its hooks")

    async def on_store(self, call: StorageCall) -> StorageVerdict:
        raise AssertionError("not one of its hooks")

    async def on_stored(self, call: StorageCall) -> None:
        raise AssertionError("not one of its hooks")

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return self._say("response_head", head, CONTINUE)  # type: ignore[no-any-return]

    async def on_response(self, head: ResponseHead, body: str) -> tuple[HeadVerdict, TextVerdict]:
        return self._say("response", (head, body), (CONTINUE, CONTINUE))  # type: ignore[no-any-return]

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        return self._say("piece", piece, CONTINUE)  # type: ignore[no-any-return]

    async def on_end(self, end: End) -> str:
        return self._say("end", end, "")  # type: ignore[no-any-return]

    async def on_error(self, failure: Failure) -> Continue | Reject:
        return self._say("error", failure, CONTINUE)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.closed += 1
        self._say("close", None, None)


@attrs.define
class House:
    """A chain over scripted plugins, and what was reported of them."""

    chain: PluginChain
    reports: list[Happened]

    async def begun(self) -> RequestHead:
        head, _ = await self.chain.request_head(HEAD, "before_identity")
        head, _ = await self.chain.request_head(head, "after_identity", attrs.evolve(ABOUT, tenant="t1"))
        return head


async def named(text: str) -> str:
    """The model of a body that is a model's name."""
    return text


async def of_m1(text: str) -> str:
    return "m1"


def house(*links: tuple[Scripted, dict[str, Any]], config: MiddlewareConfig | None = None) -> House:
    reports: list[Happened] = []
    entries = parse_entries([{"source": f"{n}.wasm", **said} for n, (_, said) in enumerate(links)], "test")
    plan = PluginPlan(
        tuple(Link(entry, plugin) for entry, (plugin, _) in zip(entries, links, strict=True)),
        PluginRules(config or MiddlewareConfig()),
    )
    chain = plan.chain(ABOUT, reports.append)
    assert chain is not None
    return House(chain, reports)


def adding(letter: str) -> Callable[[Any], ChangeText]:
    return lambda shown: ChangeText(shown.text + letter)


async def test_requests_meet_plugins_in_order_and_answers_in_reverse() -> None:
    first, second = (Scripted(answers={"request_body": adding(x), "piece": adding(x)}) for x in "ab")
    chain = house((first, {}), (second, {})).chain
    await chain.request_head(HEAD, "after_identity")

    assert (await chain.request_body("-", named, HEAD))[0] == "-ab"
    assert chain.piece(AnswerPiece("-", "text")) == "-ba"


async def test_a_plugin_that_waits_changes_a_piece_in_its_turn() -> None:
    async def later(piece: AnswerPiece) -> PieceVerdict:
        return ChangeText(piece.text + "w")

    links = [Scripted(answers={"piece": x}) for x in (adding("c"), later, adding("a"))]
    chain = house(*((each, {}) for each in links)).chain
    await chain.request_head(HEAD, "after_identity")
    answer = chain.piece(AnswerPiece("-", "text"))

    assert not isinstance(answer, str)
    assert await answer == "-awc"


async def test_plugins_before_identity_run_first_and_those_after_it_know_the_tenant() -> None:
    late, early = Scripted(), Scripted()
    chain = house((late, {}), (early, {"when": "before_identity"})).chain
    await chain.request_head(HEAD, "before_identity")
    assert [each.tenant for each in early.asked if isinstance(each, About)] == [""]
    assert not late.asked

    await chain.request_head(HEAD, "after_identity", attrs.evolve(ABOUT, tenant="t1"))
    assert [each.tenant for each in late.asked if isinstance(each, About)] == ["t1"]


@pytest.mark.parametrize(
    ("said", "runs"),
    [
        ({}, True),
        ({"routes": ["/v1/chat/completions"]}, True),
        ({"routes": ["/v1/*"]}, True),
        ({"routes": ["/v1/responses"]}, False),
        ({"tenants": ["t1"]}, True),
        ({"tenants": ["t2"]}, False),
        ({"models": ["m1"]}, True),
        ({"models": ["m2"]}, False),
    ],
)
async def test_a_plugin_runs_where_its_entry_says(said: dict[str, Any], runs: bool) -> None:
    plugin = Scripted(answers={"request_body": adding("!")})
    full = house((plugin, said), (Scripted(), {})).chain
    await full.request_head(HEAD, "after_identity", attrs.evolve(ABOUT, tenant="t1"))

    assert ((await full.request_body("x", of_m1, HEAD))[0] == "x!") is runs


async def test_a_plan_without_a_plugin_on_a_route_has_no_chain() -> None:
    (entry,) = parse_entries([{"source": "a.wasm", "routes": ["/v1/responses"]}], "test")

    assert PluginPlan((Link(entry, Scripted()),)).chain(ABOUT, print) is None
    assert PluginPlan().chain(ABOUT, print) is None


async def test_a_change_of_the_model_by_one_plugin_counts_for_the_next() -> None:
    first = Scripted(answers={"request_body": lambda shown: ChangeText("m2")})
    second = Scripted(answers={"request_body": adding("!")})
    chain = house((first, {}), (second, {"models": ["m2"]})).chain
    await chain.request_head(HEAD, "after_identity")

    assert (await chain.request_body("m1", named, HEAD))[0] == "m2!"


BROKEN: dict[str, Any] = {
    "raises": RuntimeError("words\nof a secret"),
    "answers something else": 7,
    "a name that is none": ChangeHead(set=(("a b", "c"),)),
    "CR LF in a value": ChangeHead(set=(("x-a", "1\r\nx-b: 2"),)),
    "NUL in a value": ChangeHead(add=(("x-a", "\0"),)),
    "framing": ChangeHead(set=(("content-length", "5"),)),
    "removes framing": ChangeHead(remove=("Transfer-Encoding",)),
    "the tenant": ChangeHead(tenant="t2"),
    "the principal": ChangeHead(principal="p2"),
    "a status": ChangeHead(status=200),
    "a header over the bounds": ChangeHead(set=(("x-a", "1" * 20_000),)),
    "too many headers": ChangeHead(add=(("x-a", "1"),) * 4000),
    "a rejection that is none": Reject(200),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_closed_plugin_that_breaks_a_rule_ends_the_exchange(what: str) -> None:
    plugin = Scripted(answers={"request_head": BROKEN[what]})
    it = house((plugin, {}))

    with pytest.raises(InternalError) as refused:
        await it.begun()
    assert refused.value.message == "A plugin of this gateway failed."
    assert [each.outcome for each in it.reports] == ["failed"]


@pytest.mark.parametrize("what", BROKEN)
async def test_an_open_plugin_that_breaks_a_rule_is_left_out_of_the_rest(what: str) -> None:
    plugin = Scripted(answers={"request_head": BROKEN[what], "request_body": adding("!")})
    it = house((plugin, {"on_failure": "open"}))

    assert await it.begun() == HEAD
    assert await it.chain.request_body("x", named, HEAD) == ("x", HEAD)
    assert it.chain.piece(AnswerPiece("x", "text")) == "x"
    assert [each.outcome for each in it.reports] == ["failed"]


async def test_text_over_the_bounds_is_a_failure() -> None:
    config = MiddlewareConfig(body_bytes=1024, piece_bytes=64)
    plugin = Scripted(answers={"request_body": ChangeText("é" * 513), "piece": ChangeText("é" * 33)})
    it = house((plugin, {}), config=config)
    await it.begun()
    with pytest.raises(InternalError):
        await it.chain.request_body("x", named, HEAD)

    again = house((Scripted(answers={"piece": ChangeText("é" * 33)}), {}), config=config)
    await again.begun()
    with pytest.raises(InternalError):
        again.chain.piece(AnswerPiece("x", "text"))


async def test_half_a_surrogate_pair_is_a_failure() -> None:
    it = house((Scripted(answers={"piece": ChangeText("\ud800" * 30)}), {}), config=MiddlewareConfig(piece_bytes=64))
    await it.begun()

    with pytest.raises(InternalError):
        it.chain.piece(AnswerPiece("x", "text"))


async def test_a_rejection_has_its_status_and_its_message_on_one_line() -> None:
    it = house((Scripted(answers={"request_head": Reject(403, "not\r\nyou")}), {}))

    with pytest.raises(PermissionDenied) as refused:
        await it.begun()
    assert refused.value.message == "not  you"


@pytest.mark.parametrize(("status", "becomes"), [(401, 401), (429, 429), (418, 400), (503, 503), (599, 500)])
async def test_a_rejection_is_an_error_that_every_api_knows(status: int, becomes: int) -> None:
    it = house((Scripted(answers={"request_head": Reject(status)}), {}))

    with pytest.raises(SmgError) as refused:
        await it.begun()
    assert refused.value.status == becomes


async def test_a_plugin_with_the_grant_says_whose_the_request_is() -> None:
    change = ChangeHead(tenant="t9", principal="p9", set=(("x-a", "2"),))
    it = house((Scripted(answers={"request_head": change}), {"when": "before_identity", "grants": ["tenant"]}))
    head, identified = await it.chain.request_head(HEAD, "before_identity")

    assert (identified.tenant, identified.principal) == ("t9", "p9")
    assert ("x-a", "2") in head.headers


async def test_every_session_is_closed_once_also_where_one_fails() -> None:
    plugins = [Scripted(), Scripted(answers={"close": RuntimeError("no")}), Scripted()]
    it = house(*((each, {}) for each in plugins))
    await it.begun()
    it.chain.close()
    it.chain.close()

    assert [each.closed for each in plugins] == [1, 1, 1]


async def test_a_failure_at_the_end_refuses_nothing() -> None:
    it = house((Scripted(answers={"end": RuntimeError("no")}), {}), (Scripted(answers={"end": ": cost\n\n"}), {}))
    await it.begun()

    assert await it.chain.end(End(200, "ok", 0.1)) == ": cost\n\n"


async def test_an_error_can_be_given_other_words() -> None:
    it = house((Scripted(answers={"error": Reject(503, "Come back later.")}), {}))
    await it.begun()
    told = await it.chain.error(Failure(502, "", "x"))

    assert told is not None
    assert (told.status, told.message) == (503, "Come back later.")


async def test_a_response_keeps_its_body_under_any_status_it_is_given() -> None:
    answers = {"response_head": ChangeHead(status=204)}
    it = house((Scripted(answers=answers), {"on_failure": "open"}))
    await it.begun()

    assert await it.chain.response_head(ResponseHead(200, ())) == ResponseHead(200, ())


async def test_a_head_may_change_once_more_with_the_body() -> None:
    change = ChangeText("y", ChangeHead(set=(("x-a", "2"),)))
    it = house((Scripted(answers={"request_body": change}), {}))
    head = await it.begun()
    text, after = await it.chain.request_body("x", named, head)

    assert text == "y"
    assert ("x-a", "2") in after.headers


async def test_a_whole_answer_goes_through_heads_and_pieces_or_both_at_once() -> None:
    parted = frozenset(HOOKS) - {"response"}
    first = Scripted(
        answers={"piece": adding("a"), "response_head": ChangeHead(status=201)}, pieces="wire", hooks=parted
    )
    said = (ChangeHead(set=(("x-b", "1"),)), ChangeText("whole"))
    second = Scripted(answers={"response": said}, pieces="wire")
    it = house((first, {}), (second, {}))
    await it.begun()

    assert await it.chain.response(ResponseHead(200, ()), "{}") == (ResponseHead(201, (("x-b", "1"),)), "wholea")


WRONG: dict[str, Any] = {
    "expected a list": {},
    "expected an object with a source": [7],
    "there is no on_fail of a plugin; did you mean on_failure?": [{"source": "a.wasm", "on_fail": "open"}],
    "on_failure: expected one of closed, open": [{"source": "a.wasm", "on_failure": "ajar"}],
    "two plugins are called a": [{"source": "a.wasm"}, {"source": "/b/a.wasm"}],
    "grants: tenant needs when: before_identity": [{"source": "a.wasm", "grants": ["tenant"]}],
    "neither tenant nor model is known": [{"source": "a.wasm", "when": "before_identity", "tenants": ["t"]}],
    "deadline_ms: 0 is not in": [{"source": "a.wasm", "deadline_ms": 0}],
    "stack_kib: expected a whole number": [{"source": "a.wasm", "stack_kib": "9"}],
    "config: expected an object": [{"source": "a.wasm", "config": []}],
    "routes: expected a list of strings": [{"source": "a.wasm", "routes": "x"}],
}


@pytest.mark.parametrize("said", WRONG)
def test_a_list_of_plugins_that_makes_no_sense_is_refused_in_words(said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_entries(WRONG[said], "plugins.yaml")
    assert said in str(refused.value)
    assert str(refused.value).startswith("plugins.yaml")


@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=5), st.lists(st.text(max_size=5)))
def test_whatever_is_set_headers_stay_headers(headers: list[tuple[str, str]], remove: list[str]) -> None:
    before = (("content-length", "3"), ("x-a", "1"))
    try:
        after = changed_headers(before, ChangeHead(set=tuple(headers), remove=tuple(remove)), 1 << 16)
    except MiddlewareFault:
        return
    assert after[0] == before[0]
    for name, value in after[1:]:
        assert name == name.lower()
        assert name not in FRAMING
        assert not {"\r", "\n", "\0"} & {*name, *value}
        assert value.encode("latin-1") is not None


def test_an_entry_of_a_source_alone_is_closed_and_after_identity() -> None:
    (entry,) = parse_entries([{"source": "/p/redact.wasm"}], "x")

    assert entry == Entry("/p/redact.wasm", "redact")
    assert (entry.on_failure, entry.when, entry.share) == ("closed", "after_identity", "tenant")


def in_python(**said: Any) -> Entry:
    (made,) = parse_entries([{"source": "a:B", **said}], "test")
    return made


class Waiting(Scripted):
    """Waits in its hooks until it is let go, and notes what began and ended, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.steps: list[str] = []

    async def _waits(self, hook: str) -> Continue:
        self.steps.append(f"{hook} begins")
        await self.free.wait()
        self.steps.append(f"{hook} ends")
        return CONTINUE

    async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
        return await self._waits("head")

    def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
        return self._waits(piece.text)

    def on_event(self, event: Event) -> EventVerdict:
        self.steps.append("event")
        return CONTINUE

    async def on_end(self, end: End) -> str:
        await self._waits("end")
        return ""


async def test_hooks_of_one_exchange_do_not_overlap_where_one_waits() -> None:
    plugin = Waiting()
    chain = PluginPlan((Link(in_python(), plugin),)).chain(ABOUT, lambda happened: None)
    assert chain is not None
    await chain.request_head(HEAD, "after_identity", ABOUT)
    said = AnswerWatchers(chain)
    calls = [
        asyncio.ensure_future(each)
        for each in (
            chain.response_head(ResponseHead(200, ())),
            said([TextDelta(0, "a"), TextEnd(0)]),
            chain.end(End(200, "ok", 1.0)),
        )
    ]
    await asyncio.sleep(0)
    assert plugin.steps == ["head begins"]
    plugin.free.set()
    await asyncio.gather(*calls)
    assert len(plugin.steps) == 10
    waits = [each for each in plugin.steps if each != "event"]
    assert [each.rpartition(" ")[2] for each in waits] == ["begins", "ends"] * 4
    inside = [waits.index(f"{each} begins") + 1 == waits.index(f"{each} ends") for each in ("head", "a", "end")]
    assert all(inside)
    chain.close()


@pytest.mark.parametrize("hook", ["request_head", "response_head", "piece", "end"])
async def test_a_hook_in_python_that_waits_too_long_is_a_failure(hook: str) -> None:
    never = asyncio.Event()

    async def waits(given: Any) -> Any:
        await never.wait()

    class Late(Scripted):
        async def on_request_head(self, head: RequestHead) -> HeadVerdict:
            return await waits(head) if hook == "request_head" else CONTINUE  # type: ignore[no-any-return]

        async def on_response_head(self, head: ResponseHead) -> HeadVerdict:
            return await waits(head) if hook == "response_head" else CONTINUE  # type: ignore[no-any-return]

        def on_piece(self, piece: AnswerPiece) -> PieceVerdict | Awaitable[PieceVerdict]:
            return waits(piece) if hook == "piece" else CONTINUE

        async def on_end(self, end: End) -> str:
            return await waits(end) if hook == "end" else ""  # type: ignore[no-any-return]

    reports: list[Happened] = []
    plugin = Late()
    made = in_python(on_failure="open", deadline_ms=20)
    chain = PluginPlan((Link(made, plugin),)).chain(ABOUT, reports.append)
    assert chain is not None
    await chain.request_head(HEAD, "after_identity", ABOUT)
    await chain.response_head(ResponseHead(200, ()))
    text = chain.piece(AnswerPiece("a", "text"))
    assert text == "a" or (not isinstance(text, str) and await text == "a")
    assert await chain.end(End(200, "ok", 1.0)) == ""
    assert [(each.hook, each.reason) for each in reports] == [(hook, "took longer than its deadline")]
    chain.close()


def test_a_hook_in_python_may_wait_longer_than_a_component_may_compute() -> None:
    found = {
        each.source: each.limits.deadline_ms
        for each in parse_entries(
            [{"source": "a.wasm"}, {"source": "b:C"}, {"source": "c:D", "deadline_ms": 7}], "test"
        )
    }
    assert found == {"a.wasm": 50.0, "b:C": 5000.0, "c:D": 7}
