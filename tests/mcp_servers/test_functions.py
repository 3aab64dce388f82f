"""Python functions as tools: what the model is told of them, how they are called, and what becomes of what they do."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.shared import PATIENCE

from smg_mcp import (
    AuditEntry,
    McpConfigError,
    McpDenied,
    McpNeedsApproval,
    McpTimeout,
    McpTools,
    McpUnknownTool,
    PythonTool,
    ToolContext,
    ToolHints,
    ToolImage,
    ToolOutcome,
    ToolProgress,
    ToolText,
)
from smg_mcp.functions.docstrings import read_docstring
from smg_mcp.functions.signature import read_function

pytestmark = pytest.mark.anyio


class Unit(Enum):
    METRIC = "metric"
    IMPERIAL = "imperial"


@dataclass
class Place:
    name: str
    height: float = 0.0


def weather(
    city: str,
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3,
    *,
    unit: Unit = Unit.METRIC,
    detail: Literal["low", "high"] = "low",
    near: list[Place] | None = None,
) -> dict[str, Any]:
    """Says what the weather will be.

    It knows of rain and of sun.

    Args:
        city: Where.
        days (int): For how many days,
            beginning today.

    Returns:
        A forecast.
    """
    return {
        "city": city,
        "days": days,
        "unit": unit.value,
        "detail": detail,
        "near": [each.name for each in near or []],
    }


def plain(text: str) -> str:
    return f"<{text}>"


@asynccontextmanager
async def tools(*functions: Any, config: Any = None, **others: Any) -> AsyncIterator[McpTools]:
    async with McpTools.from_config(config or {}, functions=functions, **others) as made:
        yield made


async def told(function: Callable[..., Any], **arguments: Any) -> ToolOutcome:
    """The outcome of a call of a function that is the only tool."""
    async with tools(PythonTool(function, name="it")) as made:
        return await made.call("it", arguments)


# ------------------------------------------------------------------------------------------------------ what the model sees


async def test_a_schema_is_made_of_the_signature_and_of_the_docstring() -> None:
    async with tools(weather) as made:
        (tool,) = await made.tools()
    assert (tool.name, tool.server) == ("weather", "functions")
    assert tool.description == "Says what the weather will be.\n\nIt knows of rain and of sun."
    shown = tool.schema["properties"]
    assert shown["city"] == {"type": "string", "description": "Where."}
    assert shown["days"]["description"] == "For how many days, beginning today."
    assert (shown["days"]["maximum"], shown["days"]["default"]) == (7, 3)
    assert shown["detail"] == {"enum": ["high", "low"], "default": "low"}
    assert tool.schema["required"] == ["city"]
    jsonschema_rs.meta.validate(dict(tool.schema))
    jsonschema_rs.validate(dict(tool.schema), {"city": "Oslo", "unit": "imperial", "near": [{"name": "Bergen"}]})


SPHINX = "Does it.\n\n:param int a: The first,\n    of two.\n:param b: The second.\n:returns: Nothing."
NUMPY = "Does it.\n\nParameters\n----------\na : int\n    The first,\n    of two.\nb\n    The second.\n\nReturns\n-------\nint"
GOOGLE = "Does it.\n\nRaises:\n    ValueError: never.\n\nArgs:\n    a (int): The first,\n        of two.\n    b: The second.\n"


@pytest.mark.parametrize("text", [SPHINX, NUMPY, GOOGLE])
def test_docstrings_of_each_style_describe_the_parameters(text: str) -> None:
    assert read_docstring(text) == ("Does it.", {"a": "The first, of two.", "b": "The second."})


@given(st.text(alphabet=":\n -abArgs()*", max_size=80))
def test_no_docstring_is_too_odd_to_be_read(text: str) -> None:
    said, parameters = read_docstring(text)
    assert all(name.isidentifier() or name[0].isdigit() for name in parameters)
    assert set(said.split()) <= set(text.split())


def test_a_note_beside_a_type_describes_a_parameter() -> None:
    def it(a: Annotated[int, "How many."]) -> None: ...

    assert read_function(it).schema["properties"]["a"]["description"] == "How many."


def test_what_a_partial_call_has_given_is_hidden_from_the_model() -> None:
    def it(a: int, key: str = "") -> str:
        return f"{a} {key}"

    made = read_function(functools.partial(it, key="SECRET"))
    assert "key" not in made.schema["properties"]
    assert made.call_of({"a": 1}, ToolContext())() == "1 SECRET"
    with pytest.raises(msgspec.ValidationError):
        made.call_of({"a": 1, "key": "mine"}, ToolContext())


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, by: int = 1) -> int:
        """Counts on."""
        self.count += by
        return self.count

    async def slowly(self, by: int, /) -> int:
        """Counts on, slowly."""
        return self(by)


async def test_methods_and_objects_that_are_called_are_tools_too() -> None:
    counter = Counter()
    async with tools(PythonTool(counter, name="count"), counter.slowly) as made:
        assert [tool.description for tool in await made.tools()] == ["Counts on.", "Counts on, slowly."]
        assert (await made.call("count", {"by": 2})).text == "2"
        assert (await made.call("slowly", {"by": 3})).text == "5"


def yields() -> Any:
    yield 1


async def async_yields() -> Any:
    yield 1


def many(*others: int) -> None: ...


def named(**others: int) -> None: ...


def odd(a: complex) -> None: ...


def unknown(a: "Nothing") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("bad", [yields, async_yields, many, named, odd, unknown, lambda: 1, int, 7, "text", map, None])
def test_what_can_be_no_tool_is_refused_with_a_reason(bad: Any) -> None:
    with pytest.raises(McpConfigError, match=r"functions.*: ."):
        McpTools.from_config({}, functions=[bad])


@pytest.mark.parametrize(
    ("bad", "said"),
    [(Counter.slowly, "a method without its object"), (odd, r"type <class 'complex'> is not supported$")],
)
def test_a_slip_is_told_in_one_line(bad: Any, said: str) -> None:
    with pytest.raises(McpConfigError, match=said) as refused:
        McpTools.from_config({}, functions=[bad])
    assert "\n" not in str(refused.value)


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(McpConfigError, match="two functions"):
        McpTools.from_config({}, functions=[plain, PythonTool(weather, name="plain")])


def _by_place(a: int = 1, /, b: int = 2) -> list[int]:
    return [a, b]


def _odd_names(self: int, cls: int = 1, __x: int = 2, *, in_: int = 3) -> list[int]:
    return [self, cls, __x, in_]


def _anything(a: object, b: int = None) -> list[Any]:  # type: ignore[assignment]  # noqa: RUF013
    return [a, b]


@pytest.mark.parametrize(
    ("function", "given", "found"),
    [
        (_by_place, {"b": 5}, [1, 5]),
        (_by_place, {"a": 5}, [5, 2]),
        (_odd_names, {"self": 7}, [7, 1, 2, 3]),
        (_odd_names, {"self": 7, "__x": 8, "in_": 9}, [7, 1, 8, 9]),
        (_anything, {"a": [1]}, [[1], None]),
        (_anything, {"a": None, "b": None}, [None, None]),
    ],
)
def test_parameters_of_every_kind_and_name_get_their_values(
    function: Callable[..., Any], given: dict[str, Any], found: list[Any]
) -> None:
    read = read_function(function)
    jsonschema_rs.validate(dict(read.schema), given)
    assert read.call_of(given, ToolContext())() == found


# ------------------------------------------------------------------------------------------------------------- how they run


async def test_arguments_become_values_of_the_types_that_are_written() -> None:
    async with tools(weather) as made:
        outcome = await made.call(
            "weather", {"city": "Oslo", "days": "2", "unit": "imperial", "near": [{"name": "Bergen"}]}
        )
    assert outcome.structured == {"city": "Oslo", "days": 2, "unit": "imperial", "detail": "low", "near": ["Bergen"]}


@pytest.mark.parametrize("bad", [{}, {"city": 1}, {"city": "Oslo", "days": 8}, {"city": "Oslo", "else": 1}])
async def test_arguments_that_do_not_fit_are_the_tools_error_and_run_nothing(bad: dict[str, Any]) -> None:
    outcome = await told(weather, **bad)
    assert outcome.is_error
    assert outcome.text.startswith("the arguments do not fit: ")


async def test_a_plain_function_runs_in_a_thread_and_a_coroutine_on_the_loop() -> None:
    def sync() -> int:
        return threading.get_ident()

    async def waits() -> int:
        return threading.get_ident()

    async with tools(sync, waits) as made:
        here, there = [int((await made.call(name, {})).text) for name in ("waits", "sync")]
    assert here == threading.get_ident() != there


async def test_what_a_plain_function_gives_to_be_awaited_is_awaited() -> None:
    async def inner() -> str:
        return "waited"

    assert (await told(lambda: inner())).text == "waited"


class Unspeakable(BaseException):
    def __str__(self) -> str:
        raise SystemExit


def _raising(error: BaseException, *, waits: bool) -> Callable[[], Any]:
    def it() -> None:
        raise error

    async def later() -> None:
        raise error

    return later if waits else it


RAISED = [
    KeyError("x"),
    SystemExit(3),
    KeyboardInterrupt(),
    TimeoutError(),
    Unspeakable(),
    asyncio.CancelledError(),
    StopIteration(),
]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", RAISED, ids=repr)
async def test_what_a_function_raises_is_the_tools_error(error: BaseException, waits: bool) -> None:
    async with tools(PythonTool(_raising(error, waits=waits), name="bad"), plain) as made:
        outcome = await made.call("bad", {})
        assert outcome.is_error
        assert outcome.text
        assert (await made.call("plain", {"text": "on"})).text == "<on>"


def _deep() -> Any:
    found: Any = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    "given", [object(), {1: object()}, _deep(), threading.Lock(), float], ids=lambda each: type(each).__name__
)
async def test_what_is_no_json_is_the_tools_error(given: Any) -> None:
    outcome = await told(lambda: given)
    assert outcome.is_error
    assert "no JSON" in outcome.text


@pytest.mark.parametrize(
    ("given", "text", "structured"),
    [
        ("as it is", "as it is", None),
        (None, "null", None),
        (7, "7", None),
        ([1, 2], "[1,2]", None),
        ([], "[]", None),
        (Place("Oslo"), '{"name":"Oslo","height":0.0}', {"name": "Oslo", "height": 0.0}),
        ("\ud800", "?", None),
        (ToolText("said"), "said", None),
        (ToolOutcome((ToolText("no"),), {"a": 1}, is_error=True), "no", {"a": 1}),
    ],
    ids=repr,
)
async def test_a_result_is_text_and_where_it_is_an_object_also_structured(
    given: Any, text: str, structured: Any
) -> None:
    outcome = await told(lambda: given)
    assert (outcome.text, outcome.structured) == (text, structured)
    assert outcome.is_error is isinstance(given, ToolOutcome)


async def test_an_outcome_with_what_is_no_part_is_the_tools_error() -> None:
    outcome = await told(lambda: ToolOutcome(("text",)))  # type: ignore[arg-type]
    assert outcome.is_error
    assert "no part" in outcome.text


async def test_a_function_may_give_a_picture() -> None:
    outcome = await told(lambda: [ToolText("A dot:"), ToolImage("AA==", "image/png")])
    assert outcome.content == (ToolText("A dot:"), ToolImage("AA==", "image/png"))


async def test_a_result_is_cut_at_the_bound_of_results() -> None:
    async with tools(PythonTool(lambda: "x" * 5000, name="long"), config={"limits": {"result_bytes": 1024}}) as made:
        outcome = await made.call("long", {})
    assert outcome.truncated
    assert len(outcome.text) < 1200


async def test_a_function_that_never_returns_is_left_behind_and_others_run_on() -> None:
    go, begun = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        go.wait()

    config = {"limits": {"function_threads": 2}}
    async with tools(PythonTool(hangs, timeout_s=0.01), plain, config=config) as made:
        with pytest.raises(McpTimeout):
            await made.call("hangs", {})
        assert begun.wait(PATIENCE)
        assert (await made.call("plain", {"text": "on"})).text == "<on>"
        go.set()


async def test_where_every_thread_is_held_a_call_ends_in_its_time() -> None:
    go = threading.Event()
    config = {"limits": {"function_threads": 1, "call_timeout": 0.01}}
    async with tools(PythonTool(go.wait, name="hangs"), PythonTool(lambda: 1, name="one"), config=config) as made:
        for name in ("hangs", "one"):
            with pytest.raises(McpTimeout):
                await made.call(name, {})
        go.set()


async def test_a_coroutine_that_does_not_end_when_it_is_cancelled_holds_nobody_up() -> None:
    go = asyncio.Event()

    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with tools(PythonTool(stubborn, timeout_s=0.01)) as made:
        with pytest.raises(McpTimeout):
            await made.call("stubborn", {})
        go.set()


async def test_a_caller_that_leaves_cancels_a_coroutine() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with tools(waits) as made:
        call = asyncio.ensure_future(made.call("waits", {}))
        await begun.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(PATIENCE):
            await left.wait()


async def test_a_function_is_told_whose_call_it_is_and_tells_how_far_it_is() -> None:
    def it(count: int, context: ToolContext) -> str:
        for at in range(count):
            context.progress(ToolProgress(at, count))
        return f"{context.tenant} {context.request_id}"

    news: list[ToolProgress] = []
    async with tools(it) as made:
        assert list((await made.tools())[0].schema["properties"]) == ["count"]
        request = made.for_request(tenant="acme", request_id="r1")
        assert (await request.call("it", {"count": 2}, progress=news.append)).text == "acme r1"
    assert [each.progress for each in news] == [0, 1]


# --------------------------------------------------------------------------------------------------------- the same rules


async def test_the_policy_decides_of_functions_as_of_servers() -> None:
    noted: list[AuditEntry] = []
    config = {"policy": {"tools": {"functions.plain": "ask"}, "servers": {"functions": {"trust_level": "sandboxed"}}}}
    reads = PythonTool(lambda: 1, name="reads", hints=ToolHints(read_only=True, open_world=False))
    with pytest.raises(McpConfigError, match="no server 'functions'"):
        McpTools.from_config(config)
    config["servers"] = [{"name": "functions", "protocol": "python"}]  # type: ignore[assignment]
    async with tools(plain, weather, reads, config=config, audit=noted.append) as made:
        with pytest.raises(McpNeedsApproval):
            await made.call("plain", {"text": "x"})
        assert (await made.call("plain", {"text": "x"}, approved=True)).text == "<x>"
        with pytest.raises(McpDenied):
            await made.call("weather", {"city": "Oslo"})
        assert (await made.call("reads", {})).text == "1"
    assert [each.outcome for each in noted] == ["asked", "approved", "denied", "allowed"]


async def test_the_file_names_functions_and_what_holds_for_each() -> None:
    server = {
        "name": "own",
        "protocol": "python",
        "functions": ["tests.mcp_servers.test_functions:plain", "tests.mcp_servers.test_functions:LISTED"],
        "tenants": ["acme"],
        "tools": {"plain": {"alias": "brackets", "arg_mapping": {"overrides": {"text": "set"}}}},
    }
    async with McpTools.from_config({"servers": [server]}) as made:
        assert [tool.name for tool in await made.tools(tenant="acme")] == ["brackets", "weather"]
        assert await made.tools() == []
        assert (await made.call("brackets", {}, tenant="acme")).text == "<set>"
        with pytest.raises(McpUnknownTool):
            await made.call("own.plain", {}, tenant="globex")


LISTED = [weather]


@pytest.mark.parametrize(
    "source",
    [
        "nobody.has:it",
        "tests.mcp_servers.test_functions:nothing",
        "nobody",
        "tests.mcp_servers.test_functions:Unit",
        "",
    ],
)
def test_a_function_that_is_not_there_is_refused_with_its_place(source: str) -> None:
    server = {"name": "own", "protocol": "python", "functions": [source]}
    with pytest.raises(McpConfigError, match=r"^mcp\.servers\.own\.functions"):
        McpTools.from_config({"servers": [server]})


def test_a_package_brings_functions_by_an_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    folder = tmp_path / "brought-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[smg.tools]\nbrackets = tests.mcp_servers.test_functions:plain\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = McpTools.from_config({"servers": [{"name": "own", "protocol": "python", "functions": ["brackets"]}]})
    assert [each.tool for each in made._functions["own"].listed] == ["plain"]


@pytest.mark.parametrize("key", ["command", "url", "token"])
def test_what_a_server_of_functions_has_no_use_for_is_refused(key: str) -> None:
    with pytest.raises(McpConfigError, match=key):
        McpTools.from_config({"servers": [{"name": "own", "protocol": "python", key: "x"}]})
