"""The examples of plugins: each does the same in Python and as the component that is shipped beside it."""

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.gateway.conftest import CHAT, House, body, in_process
from tests.gateway.test_plugins import listed
from tests.gateway.test_said import APIS, LEFT, NUMBERS, events_of

from smg_core.auth.settings import AuthConfig
from smg_core.middleware.base import About, AnswerPiece, ChangeText, PieceKind
from smg_core.middleware.entries import Limits
from smg_core.settings import ConfigError
from smg_core.wasm.running import Sandbox
from smg_core.wasm.worlds import piece_value, text_verdict
from smg_simulator.engine.engine import SimulatorConfig

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
CLASSES = {
    "auth/check_tokens": "CheckTokens",
    "redaction/redact_numbers": "RedactNumbers",
    "costs/tell_costs": "TellCosts",
    "compliance/log_exchanges": "LogExchanges",
    "rewriting/rename_model": "RenameModel",
}
KINDS = pytest.mark.parametrize("kind", ["python", "component"])


def example(name: str, kind: str, **said: Any) -> dict[str, Any]:
    """The entry of an example."""
    if kind == "component":
        return {"source": str(EXAMPLES / f"{name}.wasm"), "deadline_ms": 20_000, **said}
    return {"source": f"{name.split('/')[1]}:{CLASSES[name]}", "name": name.split("/")[1], **said}


@pytest.fixture(autouse=True)
def _paths(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLASSES:
        monkeypatch.syspath_prepend(str(EXAMPLES / name.split("/")[0]))


def test_every_example_in_c_has_its_component_and_its_twin_in_python() -> None:
    found = {f"{each.parent.name}/{each.stem}" for each in EXAMPLES.glob("*/*.c")}
    assert found == CLASSES.keys()
    for name in found:
        assert (EXAMPLES / f"{name}.wasm").stat().st_size < 8192
        assert (EXAMPLES / f"{name}.py").is_file()


TOKENS = {"when": "before_identity", "grants": ["tenant"], "config": {"tokens": ["s3cret=acme", "other=beta"]}}


@KINDS
async def test_a_token_of_a_team_makes_a_request_that_teams(tmp_path: Path, kind: str) -> None:
    config = attrs.evolve(
        listed(tmp_path, example("auth/check_tokens", kind, **TOKENS)),
        auth=AuthConfig(keys=("sk-0123456789abcdef tenant=x",)),
    )

    async def asked(house: House, **headers: str) -> httpx.Response:
        return await house.http.post("/v1/responses", json={"model": "sim", "input": "Hi"}, headers=headers)

    async with in_process(config=config) as house:
        for headers in ({}, {"x-team-token": "wrong"}, {"x-team-token": "s3cretx"}, {"x-team-token": ""}):
            assert (await asked(house, **headers)).status_code == 401, headers
        made = await asked(house, **{"x-team-token": "s3cret"})
        path = f"/v1/responses/{made.json()['id']}"
        mine = await house.http.get(path, headers={"x-team-token": "s3cret"})
        theirs = await house.http.get(path, headers={"x-team-token": "other"})

    assert (made.status_code, mine.status_code, theirs.status_code) == (200, 200, 404)


@pytest.mark.full
@pytest.mark.sampled(keep=3)
@KINDS
@pytest.mark.parametrize("api", APIS)
async def test_numbers_are_taken_out_on_every_api_streamed_and_whole(tmp_path: Path, kind: str, api: str) -> None:
    path, asked, streamed, of_whole, of_event = APIS[api]
    async with in_process(NUMBERS, config=listed(tmp_path, example("redaction/redact_numbers", kind))) as house:
        whole = await house.http.post(path, json=asked)
        stream = await house.http.post(streamed, json=asked if api == "gemini" else {**asked, "stream": True})

    assert of_whole(whole.json()) == LEFT
    said = [of_event(each) for each in events_of(stream.content)]
    assert (said[-1] if api == "generate" else "".join(said)).strip() == LEFT


SPLIT = ("", " ", "-", "/", ",", "_", ".", "\t", "\n", "\u00a0", "\u202f", "\u2011", "\u2013", " (", ") ")
ALPHABETS = ("0123456789", "٠١٢٣٤٥٦٧٨٩", "۰۱۲۳۴۵۶۷۸۹", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "०१२३४५६७८९")
NUMBER = st.lists(
    st.tuples(st.sampled_from(ALPHABETS), st.integers(0, 9), st.sampled_from(SPLIT)), min_size=7, max_size=12
).map(
    lambda parts: "".join(alphabet[digit] + split for alphabet, digit, split in parts[:-1]) + parts[-1][0][parts[-1][1]]
)
SHORT = st.text("".join(ALPHABETS), min_size=1, max_size=6)
TEXT = st.lists(NUMBER | SHORT | st.text(st.characters(codec="utf-8"), max_size=8), max_size=6).map("x".join)
KINDS_OF_TEXT = st.sampled_from(("text", "arguments"))


class Redacting:
    """The redaction in Python, and the component beside it, shown pieces of one text."""

    def __init__(self) -> None:
        self._sandbox = Sandbox(1)
        wasm = (EXAMPLES / "redaction" / "redact_numbers.wasm").read_bytes()
        self._guest = self._sandbox.compile(wasm, Limits(deadline_ms=300_000), ()).instance()
        self._guest.call("configure", "{}")
        self._class = importlib.import_module("redact_numbers").RedactNumbers

    def in_python(self, pieces: list[str], kind: PieceKind) -> list[str]:
        plugin = self._class(About("r", "POST", "/"), self._class.Settings())
        return [self._left(plugin.on_piece(each), each.text) for each in self._pieces(pieces, kind)]

    def in_c(self, pieces: list[str], kind: PieceKind) -> list[str]:
        self._guest.call("begin", ("",) * 7)
        return [
            self._left(text_verdict(self._guest.call("piece", piece_value(each))), each.text)
            for each in self._pieces(pieces, kind)
        ]

    @staticmethod
    def _pieces(pieces: list[str], kind: PieceKind) -> list[AnswerPiece]:
        return [*[AnswerPiece(each, kind) for each in pieces], AnswerPiece("", kind, last=True)]

    @staticmethod
    def _left(verdict: Any, text: str) -> str:
        return verdict.text if isinstance(verdict, ChangeText) else text

    def close(self) -> None:
        self._guest.close()
        self._sandbox.close()


@pytest.fixture
def redacting() -> Iterator[Redacting]:
    made = Redacting()
    yield made
    made.close()


FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@FIXTURES
@given(text=TEXT, cuts=st.lists(st.integers(0, 80), max_size=12), kind=KINDS_OF_TEXT)
def test_a_text_is_redacted_the_same_however_it_is_cut_in_python_and_c(
    redacting: Redacting, text: str, cuts: list[int], kind: PieceKind
) -> None:
    places = sorted({0, len(text), *[each for each in cuts if each < len(text)]})
    pieces = [text[a:b] for a, b in itertools.pairwise(places)]
    left = redacting.in_python(pieces, kind)
    assert redacting.in_c(pieces, kind) == left
    assert "".join(left) == "".join(redacting.in_python([text], kind)) == "".join(redacting.in_c(list(text), kind))


@FIXTURES
@given(number=NUMBER)
def test_a_number_is_found_whatever_its_digits_are_and_what_parts_them(redacting: Redacting, number: str) -> None:
    for pieces in (["a", number, "b"], list(f"a{number}b")):
        assert "".join(redacting.in_python(pieces, "text")) == "a[number]b"
        masked = "".join(redacting.in_python(pieces, "arguments"))
        assert "," in number or not set(masked) & set("".join(ALPHABETS)) - {"9"}


def test_the_members_of_a_list_in_arguments_are_no_number(redacting: Redacting) -> None:
    listed = '{"days": [1, 2, 3, 4, 5, 6, 7, 8], "phone": "555-0100 222"}'
    left = listed.replace("555-0100 222", "999-9999 999")
    assert "".join(redacting.in_python(list(listed), "arguments")) == left
    assert "".join(redacting.in_c(list(listed), "arguments")) == left


@KINDS
async def test_costs_are_told_in_the_head_and_behind_a_stream(tmp_path: Path, kind: str) -> None:
    entry = example("costs/tell_costs", kind, config={"prompt": 2.5, "completion": 10})
    async with in_process(SimulatorConfig(reply_tokens=20), config=listed(tmp_path, entry)) as house:
        stream = await house.http.post(CHAT, json=body("Hi", stream=True, stream_options={"include_usage": True}))
        whole = await house.http.post(CHAT, json=body("Hi"))

    assert whole.headers["x-cost-per-million-prompt"] == "2.5"
    assert stream.headers["x-cost-per-million-completion"] == "10"
    usage = next(each["usage"] for each in events_of(stream.content) if each.get("usage"))
    cost = events_of(stream.content)[-1]
    assert stream.text.count("event: cost\n") == 1
    assert stream.text.index("[DONE]") < stream.text.index("event: cost\n")
    assert cost["prompt_tokens"] == usage["prompt_tokens"]
    assert cost["completion_tokens"] == usage["completion_tokens"]
    assert cost["cost"] == pytest.approx(
        (usage["prompt_tokens"] * 2.5 + usage["completion_tokens"] * 10) / 1e6, abs=1e-6
    )
    assert "event: cost" not in whole.text


@KINDS
async def test_each_exchange_is_a_line_of_the_log_without_a_word_of_it(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "smg.plugins")
    async with in_process(NUMBERS, config=listed(tmp_path, example("compliance/log_exchanges", kind))) as house:
        for stream in (False, True):
            await house.http.post(CHAT, json=body("A secret", stream=stream))

    lines = [each.getMessage() for each in caplog.records if "outcome=" in each.getMessage()]
    assert len(lines) == 2
    for line in lines:
        wanted = rf"tenant= principal= path={CHAT} outcome=ok status=200 asked_bytes=\d+ completion_tokens=[1-9]\d*"
        assert re.fullmatch(f"plugin log_exchanges: {wanted}", line), line
    assert "secret" not in "".join(lines)


@KINDS
async def test_a_model_is_asked_for_by_another_name(tmp_path: Path, kind: str) -> None:
    entry = example("rewriting/rename_model", kind, config={"from": "gpt-4o", "to": "sim"})
    async with in_process(config=listed(tmp_path, entry)) as house:
        said = [{"role": "user", "content": 'my "model": "gpt-4o" {[\\'}]
        renamed = await house.http.post(CHAT, json={"messages": said, "model": "gpt-4o"})
        other = await house.http.post(CHAT, json={"messages": said, "model": "gpt-4"})
        as_is = await house.http.post(CHAT, json={"model": "sim", "messages": said, "user": "gpt-4o"})

    assert renamed.status_code == 200, renamed.text
    assert other.status_code == 404
    assert as_is.status_code == 200, as_is.text


@pytest.mark.full
@pytest.mark.sampled(keep=5)
@KINDS
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("auth/check_tokens", {}),
        ("auth/check_tokens", {"tokens": ["no tenant"]}),
        ("auth/check_tokens", {"tokens": ["=acme"]}),
        ("costs/tell_costs", {"prompt": 1}),
        ("rewriting/rename_model", {"from": "x"}),
    ],
)
async def test_a_configuration_that_makes_no_sense_stops_the_start(
    tmp_path: Path, kind: str, name: str, config: dict[str, Any]
) -> None:
    said = TOKENS if name.startswith("auth") else {}
    with pytest.raises(ConfigError):
        async with in_process(config=listed(tmp_path, example(name, kind, **{**said, "config": config}))):
            raise AssertionError("it has started")
