"""Components in their sandbox: what each attack comes to, and that others do not notice.

`tests/guests/attacks.wasm` does what its configuration says; `smg_gateway.wasm` is written against SMG's own contract. Both are
built of the C beside them by `smg-gateway plugin build`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE
from wasmtime import wat2wasm

from smg_core.errors import InternalError, PermissionDenied
from smg_core.middleware.base import (
    About,
    AnswerPiece,
    ChangeHead,
    ChangeText,
    End,
    Failure,
    MiddlewareFault,
    PieceVerdict,
    PluginSession,
    RequestBody,
    RequestHead,
    ResponseHead,
    StorageCall,
)
from smg_core.middleware.chain import Happened, PluginChain
from smg_core.middleware.entries import Link, parse_entries
from smg_core.middleware.plan import PluginPlan
from smg_core.settings import ConfigError
from smg_core.wasm.bounds import AnswerBounds
from smg_core.wasm.guest_report import GuestReport
from smg_core.wasm.loading import WasmPlugins
from smg_core.wasm.plugin import WasmPlugin
from smg_core.wasm.threads import StartClaim
from smg_core.wasm.worlds import OURS

pytestmark = pytest.mark.anyio

GUESTS = Path(__file__).parent.parent.parent / "guests"
HEAD = RequestHead("POST", "/v1/chat/completions", "", (("x-a", "1"), ("content-length", "4")))
MB = 1 << 20


async def named(text: str) -> str:
    """The model of a body that is a model's name."""
    return text


def about(tenant: str = "t1") -> About:
    return About("req-1", "POST", "/v1/chat/completions", "/v1/chat/completions", tenant, "p1")


class House:
    """Plugins of one process, and all that guests said."""

    def __init__(self) -> None:
        self.told: list[GuestReport] = []
        self.plugins = WasmPlugins(
            lambda name, told: self.told.append(told), threads=4, most_threads=8, compiled=4, most_bytes=MB
        )

    async def load(self, does: str | None = "nothing", guest: str = "attacks", **said: Any) -> WasmPlugin:
        config = {} if does is None else {"do": does}
        said = {"source": str(GUESTS / f"{guest}.wasm"), "config": config, "deadline_ms": 20_000, **said}
        (entry,) = parse_entries([said], "test")
        return await self.plugins.load(entry)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    yield made
    await asyncio.to_thread(made.plugins.close)


def chained(plugin: WasmPlugin, reports: list[Happened] | None = None) -> PluginChain:
    told: list[Happened] = [] if reports is None else reports
    chain = PluginPlan((Link(plugin.entry, plugin),)).chain(about(), told.append)
    assert chain is not None
    return chain


async def asked(plugin: WasmPlugin) -> RequestHead:
    """The head behind a chain of one plugin."""
    chain = chained(plugin)
    try:
        head, _ = await chain.request_head(HEAD, "after_identity", about())
    finally:
        chain.close()
    return head


async def given_back(plugin: WasmPlugin) -> None:
    """Wait until no exchange has an instance: one goes back after its last call, which runs in a thread."""
    async with asyncio.timeout(PATIENCE):
        while plugin.busy:
            await asyncio.sleep(0.001)


FAULTS = {
    "spin": "was stopped: it took longer than its deadline",
    "recurse": "used more than its stack",
    "allocate": "trapped",
    "trap": "trapped",
    "outside": "reached outside its memory",
    "half a header": "outside",
    "no utf-8": "failed",
    "cr lf": "a value that is none",
    "framing": "which is the gateway's",
    "tenant": "without the grant",
    "a case that is none": "failed",
}


@pytest.mark.full
@pytest.mark.sampled(keep=4)
@pytest.mark.parametrize("attack", FAULTS)
async def test_an_attack_is_a_failure_of_the_plugin_and_of_nothing_else(house: House, attack: str) -> None:
    bad = await house.load(attack, name="bad", deadline_ms=1000 if attack == "spin" else 20_000)
    good = await house.load("nothing", name="good")

    with pytest.raises(InternalError) as refused:
        await asked(bad)
    assert FAULTS[attack] in (refused.value.detail or "") or attack in (
        "half a header",
        "no utf-8",
        "a case that is none",
    )
    assert refused.value.message == "A plugin of this gateway failed."
    assert ("x-guest", "was here") in (await asked(good)).headers
    await given_back(bad)


@pytest.mark.sampled(keep=3)
@pytest.mark.parametrize("attack", FAULTS)
async def test_an_open_plugin_that_attacks_is_left_out(house: House, attack: str) -> None:
    reports: list[Happened] = []
    bad = await house.load(attack, on_failure="open", deadline_ms=1000 if attack == "spin" else 20_000)
    chain = chained(bad, reports)
    head, _ = await chain.request_head(HEAD, "after_identity", about())
    text, _ = await chain.request_body("words", named, head)
    chain.close()

    assert (head, text) == (HEAD, "words")
    assert [each.outcome for each in reports] == ["failed"]


@pytest.mark.full
async def test_a_guest_that_spins_does_not_keep_others_waiting(house: House) -> None:
    spinning = await house.load("spin", name="spinning", deadline_ms=1000)
    good = await house.load("nothing", name="good")
    attacks = [asyncio.create_task(asked(spinning)) for _ in range(3)]
    for _ in range(5):
        assert ("x-guest", "was here") in (await asked(good)).headers
    assert not any(each.done() for each in attacks)
    for each in attacks:
        with pytest.raises(InternalError):
            await each


async def test_a_guest_gets_no_more_memory_than_its_entry_says(house: House) -> None:
    plugin = await house.load("a body beyond bounds", memory_mib=4)
    session = plugin.begin(about())
    with pytest.raises(MiddlewareFault, match="trapped"):
        await session.on_request_body(RequestBody("x"))
    session.close()
    roomy = await house.load("a body beyond bounds", memory_mib=20)
    assert len(await body_of(roomy, "t1", "x")) == 8 * MB


async def test_a_body_beyond_the_bounds_of_the_gateway_is_a_failure(house: House) -> None:
    plugin = await house.load("a body beyond bounds")
    chain = chained(plugin)
    chain._config = type(chain._config)(body_bytes=MB)
    await chain.request_head(HEAD, "after_identity", about())
    with pytest.raises(InternalError) as refused:
        await chain.request_body("x", named, HEAD)
    chain.close()
    assert "over the limit of 1048576" in (refused.value.detail or "")


OVERSIZED = {
    "request_head": ("set", "add", "remove", "tenant", "principal", "reject"),
    "response_head": ("set", "add", "remove", "tenant", "principal", "reject"),
    "request_body": ("change", "reject"),
    "piece": ("change", "reject"),
    "end": ("change",),
    "error": ("reject",),
    "store": ("change", "reject"),
}
"""Every list and every text that an answer may have, by hook."""
BOUNDS = AnswerBounds(headers=20_000, piece=20_000, body=20_000)


def asked_of(session: PluginSession, hook: str) -> Awaitable[Any]:
    """The answer of a hook to something small."""
    if hook == "piece":
        return shown(session, "x")
    small = {
        "request_head": HEAD,
        "response_head": ResponseHead(200, ()),
        "request_body": RequestBody("x"),
        "end": End(200, "ok", 1.0),
        "error": Failure(400, "code", "message"),
        "store": StorageCall("put-response", "", "id", "t1", "p1", (("x", "{}"),) * 1000),
    }[hook]
    answer: Awaitable[Any] = getattr(session, f"on_{hook}")(small)
    return answer


def test_the_hooks_that_answer_with_lists_or_texts_are_all_tried() -> None:
    assert {hook for hook, name in OURS.hooks.items() if OURS.functions[name].result is not None} == set(OVERSIZED)


@pytest.mark.full
@pytest.mark.sampled(keep=6)
@pytest.mark.parametrize(("hook", "what"), [(hook, what) for hook, whats in OVERSIZED.items() for what in whats])
async def test_an_answer_beyond_its_bounds_is_refused_and_one_within_them_is_read(
    house: House, hook: str, what: str
) -> None:
    house.plugins._bounds = BOUNDS
    for many, is_read in ((1000, True), (700_000, False)):
        plugin = await house.load(None, "oversized", config={"do": what, "many": many})
        session = plugin.begin(about())
        if is_read:
            await asked_of(session, hook)
        else:
            with pytest.raises(MiddlewareFault, match="answered more than it may"):
                await asked_of(session, hook)
        session.close()
        await given_back(plugin)


@pytest.mark.parametrize("what", ["log", "count"])
async def test_a_guest_that_says_texts_without_end_is_stopped(house: House, what: str) -> None:
    for many, is_heard in ((1000, True), (4 * MB, False)):
        plugin = await house.load(None, "oversized", config={"do": what, "many": many})
        session = plugin.begin(about())
        if is_heard:
            await shown(session, "x")
        else:
            with pytest.raises(MiddlewareFault, match="it floods the log"):
                await shown(session, "x")
        session.close()
        await given_back(plugin)
    assert all(len(line) <= 1000 for told in house.told for _, line in told.lines)


@pytest.mark.parametrize("what", ["set", "add", "remove"])
async def test_a_component_may_answer_with_as_many_headers_as_the_gateway_takes_and_not_with_one_more(
    house: House, what: str
) -> None:
    house.plugins._bounds = BOUNDS
    most = BOUNDS.headers // (5 if what == "remove" else 6)  # an x, or an x and an x, and 4 for each
    for many, is_read in ((most, True), (most + 1, False), (900_000, False)):
        plugin = await house.load(None, "oversized", config={"do": what, "many": many})
        session = plugin.begin(about())
        if is_read:
            assert len(getattr(await session.on_request_head(HEAD), what)) == many
        else:
            with pytest.raises(MiddlewareFault, match="answered more than it may"):
                await session.on_request_head(HEAD)
        session.close()
        await given_back(plugin)


async def body_of(plugin: WasmPlugin, tenant: str, text: str) -> str:
    session = plugin.begin(about(tenant))
    try:
        verdict = await session.on_request_body(RequestBody(text))
    finally:
        session.close()
    while plugin.busy:
        await asyncio.sleep(0)
    assert isinstance(verdict, ChangeText)
    return verdict.text


async def test_an_instance_that_remembers_tells_no_other_tenant(house: House) -> None:
    plugin = await house.load("remember all")

    assert await body_of(plugin, "t1", "a secret of t1") == ""
    assert await body_of(plugin, "t2", "a secret of t2") == ""
    assert await body_of(plugin, "t1", "-") == "a secret of t1"


async def test_where_nothing_is_shared_every_exchange_has_a_new_instance(house: House) -> None:
    plugin = await house.load("remember all", share="exchange")

    assert await body_of(plugin, "t1", "a secret") == ""
    assert await body_of(plugin, "t1", "-") == ""


async def test_before_anybody_is_known_every_exchange_has_a_new_instance(house: House) -> None:
    plugin = await house.load("remember all")

    assert await body_of(plugin, "", "a secret") == ""
    assert await body_of(plugin, "", "-") == ""


async def test_a_flood_of_lines_is_cut_then_stopped_and_no_line_is_two(house: House) -> None:
    plugin = await house.load("flood", log_lines=1000)
    with pytest.raises(InternalError) as refused:
        await asked(plugin)
    (told,) = [each for each in house.told if each.lines]

    assert "it floods the log" in (refused.value.detail or "")
    assert len(told.lines) == 64
    assert told.dropped == 4096
    assert set(told.lines) == {("warning", "a line and another")}


@pytest.mark.full
async def test_a_plugin_logs_so_many_lines_a_minute_and_the_others_are_counted(house: House) -> None:
    plugin = await house.load("flood", log_lines=70)
    for _ in range(2):
        with pytest.raises(InternalError):
            await asked(plugin)

    assert [len(each.lines) for each in house.told if each.lines] == [64, 6]
    assert sum(each.dropped for each in house.told) == 2 * 4096 + 58


async def test_a_plugin_has_a_bounded_number_of_counters(house: House) -> None:
    plugin = await house.load("counters")
    await asked(plugin)
    (told,) = [each for each in house.told if each.counts]

    assert len(told.counts) == 32
    assert told.dropped == 26 * 26 - 32


async def test_a_refusal_has_the_words_of_the_plugin(house: House) -> None:
    with pytest.raises(PermissionDenied, match="Not you"):
        await asked(await house.load("refuse"))


async def shown(session: PluginSession, text: str) -> Any:
    """The verdict on a piece."""
    answer = session.on_piece(AnswerPiece(text, "text"))
    return await answer if isinstance(answer, Awaitable) else answer


async def test_pieces_are_changed_in_order(house: House) -> None:
    plugin = await house.load("nothing")
    session = plugin.begin(about())
    assert plugin.pieces == "wire"
    assert (await house.load("texts", name="texts")).pieces == "text"
    for text, becomes in (("call 555", "call ###"), ("", ""), ("été 9", "été #")):
        assert await shown(session, text) == ChangeText(becomes)
    session.close()


def counted_threads(plugin: WasmPlugin) -> list[str]:
    """A list that grows with each call that runs in a thread."""
    ran: list[str] = []
    run = plugin.run

    def counted(call: Any, tenant: str) -> Any:
        ran.append("thread")
        return run(call, tenant)

    plugin.run = counted  # type: ignore[method-assign]
    return ran


async def test_short_pieces_of_an_exchange_that_has_its_instance_are_shown_on_the_event_loop(house: House) -> None:
    plugin = await house.load("nothing")
    session = plugin.begin(about())
    ran = counted_threads(plugin)
    assert await shown(session, "1") == ChangeText("#")
    for _ in range(20):
        assert session.on_piece(AnswerPiece("call 555", "wire")) == ChangeText("call ###")
    assert ran == ["thread"]  # which made the instance
    assert await shown(session, "9" * 20_000) == ChangeText("#" * 20_000)
    assert len(ran) == 2
    session.close()
    again = plugin.begin(about())
    await again.on_request_head(HEAD)
    again.close()
    assert len(ran) == 2
    assert not plugin.busy


@pytest.mark.full
async def test_guests_that_spin_in_all_threads_make_no_other_component_wait(house: House) -> None:
    evil = await house.load("spin", deadline_ms=5000)
    good = await house.load("count bytes", deadline_ms=2000)
    spinning = [evil.begin(about()) for _ in range(8)]
    calls = [asyncio.ensure_future(each.on_request_head(HEAD)) for each in spinning]
    while sum(each._claim.taken for each in spinning) < 4:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    session = good.begin(about())
    await session.on_request_body(RequestBody("x" * 20_000))
    assert not any(each.done() for each in calls)
    session.close()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for each in spinning:
        each.close()


async def test_a_tenant_whose_guests_spin_in_all_threads_makes_no_other_tenant_wait(house: House) -> None:
    """The tenant has more calls than there are threads; those of another one and of a third one are over before any of them."""
    plugin = await house.load("spin for x-spin", deadline_ms=300_000)
    spin = RequestHead("POST", "/", "", (("x-spin", "1"),))
    sessions = [plugin.begin(about("t1")) for _ in range(12)]
    calls = [asyncio.ensure_future(each.on_request_head(spin)) for each in sessions]
    while sum(each._claim.taken for each in sessions) < 4:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    for tenant in ("t2", "t3", "t2"):
        session = plugin.begin(about(tenant))
        assert isinstance(await session.on_request_head(HEAD), ChangeHead)
        await session.on_request_body(RequestBody("x" * 20_000))  # in a thread
        session.close()
    assert not any(each.done() for each in calls)
    await left(calls, sessions)
    await given_back(plugin)


async def left(calls: Sequence[asyncio.Future[Any]], sessions: Sequence[PluginSession]) -> None:
    """What a gateway does when clients go away."""
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for session in sessions:
        session.close()


async def test_the_guest_of_a_request_that_was_given_up_is_stopped_long_before_its_deadline(house: House) -> None:
    plugin = await house.load("spin", deadline_ms=300_000)
    sessions = [plugin.begin(about()) for _ in range(6)]  # of which four run
    calls = [asyncio.ensure_future(each.on_request_head(HEAD)) for each in sessions]
    while sum(each._claim.taken for each in sessions) < 4:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    await left(calls, sessions)
    await given_back(plugin)
    assert plugin._threads.running == 0


@pytest.mark.parametrize("first", ["the thread", "who gives it up"])
async def test_a_call_is_given_up_or_begins_in_its_thread_and_never_both(house: House, first: str) -> None:
    """A call that goes on in a thread while its instance is closed on the event loop ends the process. Here the thread begins it
    when the test says so; its future counts as not begun until then, as it does for a moment on any machine."""
    plugin = await house.load("spin", deadline_ms=300_000)
    waiting: list[Callable[[], Any]] = []
    over = asyncio.get_running_loop().create_future()

    def run(call: Callable[[], Any], tenant: str) -> "asyncio.Future[Any]":
        waiting.append(call)
        return over

    plugin.run = run  # type: ignore[method-assign]
    session = plugin.begin(about())
    asked = asyncio.ensure_future(session.on_request_head(HEAD))
    while not waiting:
        await asyncio.sleep(0)
    if first == "the thread":
        thread = asyncio.ensure_future(asyncio.to_thread(waiting[0]))
        while not session._claim.taken:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
        session.close()
        assert not over.done()
        with pytest.raises(MiddlewareFault):  # it was stopped, or given up while its instance was made
            await thread
        over.set_exception(MiddlewareFault("was stopped"))
    else:
        session.close()
        assert over.cancelled()
        with pytest.raises(MiddlewareFault, match="given up before it began"):
            await asyncio.to_thread(waiting[0])
    with pytest.raises((MiddlewareFault, asyncio.CancelledError)):
        await asked


@given(st.integers(2, 8))
def test_of_all_who_claim_a_piece_of_work_one_has_it(threads: int) -> None:
    claim, gate = StartClaim(), threading.Barrier(threads)
    took: list[bool] = []

    def takes() -> None:
        gate.wait()
        took.append(claim.take())

    running = [threading.Thread(target=takes) for _ in range(threads)]
    assert not claim.taken
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert claim.taken
    assert sorted(took) == [False] * (threads - 1) + [True]


@pytest.mark.parametrize("does", ["spin", "spin in a piece"])
async def test_the_end_of_a_process_does_not_wait_for_the_deadlines_of_guests(does: str) -> None:
    house = House()
    plugin = await house.load(does, deadline_ms=300_000)
    session = plugin.begin(about())

    async def asked() -> None:
        await session.on_request_head(HEAD)
        await shown(session, "1")

    call = asyncio.ensure_future(asked())
    while not (session._claim.taken and session._running):  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    await asyncio.to_thread(house.plugins.close)
    with pytest.raises(MiddlewareFault):
        await call
    session.close()


async def test_calls_of_one_exchange_that_come_at_once_wait_for_one_another(house: House) -> None:
    """Two calls of an instance at once would destroy the memory of the process."""
    plugin = await house.load("long in a piece")
    session = plugin.begin(about())
    await session.on_request_head(HEAD)
    running = at_once = 0
    run = plugin.run

    def counted(call: Any, tenant: str) -> Any:
        nonlocal running, at_once
        running += 1
        at_once = max(at_once, running)

        def called() -> Any:
            nonlocal running
            try:
                return call()
            finally:
                running -= 1

        return run(called, tenant)

    plugin.run = counted  # type: ignore[method-assign]

    async def piece(text: str) -> PieceVerdict:
        answer = session.on_piece(AnswerPiece(text, "wire"))
        return await answer if isinstance(answer, Awaitable) else answer

    found = await asyncio.gather(
        *[piece(str(number)) for number in range(4)], session.on_request_head(HEAD), piece("a"), piece("9")
    )
    assert [each for each in found if isinstance(each, ChangeText)] == [ChangeText("#")] * 4 + [
        ChangeText("a"),
        ChangeText("#"),
    ]
    assert at_once == 1


@pytest.mark.full
async def test_a_call_that_nobody_waits_for_any_more_ends_before_the_next_one_begins(house: House) -> None:
    plugin = await house.load("spin in a piece", deadline_ms=1000)
    session = plugin.begin(about())
    await session.on_request_head(HEAD)

    async def piece() -> object:
        answer = session.on_piece(AnswerPiece("1", "wire"))
        return await answer if isinstance(answer, Awaitable) else answer

    given_up = asyncio.ensure_future(piece())
    while session._running is None:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(MiddlewareFault, match="no instance"):
        await session.on_request_head(HEAD)
    session.close()
    assert not plugin.busy


async def test_a_call_that_takes_long_goes_on_in_a_thread_where_it_was_and_the_next_ones_begin_there(
    house: House,
) -> None:
    plugin = await house.load("long in a piece")
    session = plugin.begin(about())
    await session.on_request_head(HEAD)
    ran = counted_threads(plugin)
    answers = [session.on_piece(AnswerPiece("1", "wire"))]
    assert isinstance(answers[0], Awaitable)
    assert await answers[0] == ChangeText("#")
    assert ran == ["thread"]
    for _ in range(32):
        answer = session.on_piece(AnswerPiece("1", "wire"))
        assert isinstance(answer, Awaitable)
        assert await answer == ChangeText("#")
    assert not plugin.places.in_threads("piece")
    session.close()
    await given_back(plugin)


@pytest.mark.parametrize("hook", ["head", "piece", "finish"])
async def test_calls_behind_one_that_kept_the_event_loop_begin_in_threads(house: House, hook: str) -> None:
    """No step ends an instruction that is long, or an answer of many parts."""
    moments, a_step = [0.0], [0.0]

    def cpu() -> float:
        moments[0] += a_step[0]
        return moments[0]

    house.plugins._sandbox.cpu = cpu
    plugin = await house.load("nothing")
    plugin.compiled.watched = 1000
    ran = counted_threads(plugin)

    async def call() -> int:
        """Threads that an exchange takes."""
        before, session = len(ran), plugin.begin(about())
        await session.on_request_head(HEAD)
        a_step[0] = 2.0 if slow and hook == "piece" else 0.0
        await shown(session, "1")
        a_step[0] = 2.0 if slow and hook == "finish" else 0.0
        session.close()
        await given_back(plugin)
        a_step[0] = 0.0
        return len(ran) - before

    slow = False
    assert await call() == 1  # which makes the instance
    assert await call() == 0
    slow, a_step[0] = True, 2.0 if hook == "head" else 0.0
    assert await call() == 0
    slow = False
    assert plugin.places.in_threads({"head": "request_head"}.get(hook, hook)) == 1024
    assert await call() == 1


@pytest.mark.full
async def test_a_piece_that_spins_is_stopped_though_it_began_on_the_event_loop(house: House) -> None:
    plugin = await house.load("spin in a piece", deadline_ms=1000)
    session = plugin.begin(about())
    await session.on_request_head(HEAD)
    with pytest.raises(MiddlewareFault, match="longer than its deadline"):
        await shown(session, "1")
    with pytest.raises(MiddlewareFault, match="no instance in this exchange"):
        await shown(session, "1")
    session.close()
    assert not plugin.busy


async def test_a_session_that_is_left_while_its_guest_runs_gives_its_instance_back(house: House) -> None:
    plugin = await house.load("spin", deadline_ms=1000)
    session = plugin.begin(about())
    task = asyncio.create_task(session.on_request_head(HEAD))
    while not plugin.busy:
        await asyncio.sleep(0)
    task.cancel()
    session.close()
    while plugin.busy:
        await asyncio.sleep(0.01)
    assert task.cancelled() or task.done()


async def test_who_waits_for_an_instance_gets_the_next_and_not_forever(house: House) -> None:
    plugin = await house.load("nothing", instances=1, waiting_ms=60_000)
    first, second = plugin.begin(about()), plugin.begin(about("t2"))
    await first.on_request_head(HEAD)
    waiting = asyncio.create_task(second.on_request_head(HEAD))
    await asyncio.sleep(0)
    first.close()
    assert isinstance(await waiting, ChangeHead)
    second.close()

    hasty = await house.load("nothing", instances=1, waiting_ms=0)
    held = hasty.begin(about())
    await held.on_request_head(HEAD)
    with pytest.raises(MiddlewareFault, match="no instance free"):
        await hasty.begin(about()).on_request_head(HEAD)
    held.close()


async def test_a_component_that_sees_one_head_alone_gives_its_instance_back_at_once(house: House) -> None:
    plugin = await house.load(None, "heads", instances=1)
    ran = counted_threads(plugin)
    sessions = [plugin.begin(about()) for _ in range(8)]
    for session in sessions:
        verdict = await session.on_request_head(HEAD)
        assert verdict == ChangeHead(set=(("x-guest", "was here"),))
        await given_back(plugin)
    assert len(ran) == 1  # which makes the one instance
    for session in sessions:
        session.close()
    assert plugin.busy == 0


async def test_a_component_that_sees_more_than_a_head_keeps_its_instance_to_the_end(house: House) -> None:
    plugin = await house.load("nothing")
    session = plugin.begin(about())
    await session.on_request_head(HEAD)
    assert plugin.busy == 1
    session.close()
    await given_back(plugin)


async def test_a_plugin_that_is_closed_serves_the_exchanges_that_it_has(house: House) -> None:
    plugin = await house.load("nothing")
    session = plugin.begin(about())
    await session.on_request_head(HEAD)
    plugin.close()

    assert await shown(session, "1") == ChangeText("#")
    session.close()
    while plugin.busy:
        await asyncio.sleep(0)


OTHER_WORLD = '(component (core module $m (func (export "f"))) (core instance $i (instantiate $m)) '
OTHER_WORLD += '(func $f (canon lift (core func $i "f"))) (export "greet" (func $f)))'
UNUSABLE: dict[str, tuple[bytes, str]] = {
    "a component of another world": (bytes(wat2wasm(OTHER_WORLD)), "is of another world: it exports greet"),
    "a core module": (bytes(wat2wasm("(module)")), "is a core module, not a component"),
    "a truncated file": ((GUESTS / "attacks.wasm").read_bytes()[:3000], "cannot be compiled"),
    "no WebAssembly": (b"#!/bin/sh\n", "is no WebAssembly"),
    "an empty file": (b"", "is no WebAssembly"),
}


@pytest.mark.parametrize("what", UNUSABLE)
async def test_a_file_that_cannot_be_used_is_refused_in_words(house: House, what: str, tmp_path: Path) -> None:
    wasm, said = UNUSABLE[what]
    file = tmp_path / "x.wasm"
    file.write_bytes(wasm)

    with pytest.raises(ConfigError, match=said):
        await house.load(None, source=str(file))


@pytest.mark.full
@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"does": None}, "do is missing"),
        ({"does": "spin at the start", "deadline_ms": 50}, "longer than its deadline"),
        ({"guest": "smg_gateway"}, "takes no configuration"),
        ({"source": "/nowhere/x.wasm"}, "cannot be read"),
    ],
)
async def test_a_configuration_is_checked_before_a_plugin_is_used(house: House, said: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await house.load(**said)


async def test_what_was_compiled_is_kept_by_its_contents(house: House) -> None:
    first, second = await house.load("nothing"), await house.load("refuse")

    assert first.compiled._component is second.compiled._component


# ------------------------------------------------------------------------------------------------- the other world


async def test_a_component_of_smg_sees_the_whole_request_and_changes_head_and_body(house: House) -> None:
    plugin = await house.load(None, "smg_gateway")
    chain = chained(plugin)
    head, _ = await chain.request_head(HEAD, "after_identity", about())
    text, after = await chain.request_body("words " * 10_000 + "é", named, head)
    chain.close()

    assert text == "WORDS " * 10_000 + "é"
    assert ("x-seen", "req-1") in after.headers
    assert dict(after.headers)["x-now"].isdigit()


async def test_a_component_of_smg_changes_an_answer_that_is_sent_whole(house: House) -> None:
    plugin = await house.load(None, "smg_gateway")
    chain = chained(plugin)
    await chain.request_head(HEAD, "after_identity", about())

    assert await chain.response(ResponseHead(200, ()), "words") == (ResponseHead(202, ()), "WORDS")
    assert await chain.response(ResponseHead(200, ()), "") == (ResponseHead(200, ()), "")
    chain.close()
    await given_back(plugin)


async def test_a_component_of_smg_rejects_with_a_status(house: House) -> None:
    plugin = await house.load(None, "smg_gateway")
    chain = chained(plugin)
    await chain.request_head(HEAD, "after_identity", about())
    with pytest.raises(PermissionDenied):
        await chain.request_body("!", named, HEAD)
    chain.close()


async def test_no_body_of_a_component_of_smg_is_moved_on_the_event_loop(house: House) -> None:
    plugin = await house.load(None, "smg_gateway")
    ran = counted_threads(plugin)
    chain = chained(plugin)
    await chain.request_head(HEAD, "after_identity", about())
    await chain.request_body("x" * 5000, named, HEAD)
    chain.close()
    assert ran == ["thread"]
