"""The adapters, with services on the loopback that answer as the real ones do, and as they should not."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.peers import listening

from smg_core.engines.settings import EnginesConfig
from smg_core.events import Usage
from smg_core.guardrails.adapters.classes import Classified
from smg_core.guardrails.adapters.rows import AdapterWorld, OpenedRail, opened_rails
from smg_core.guardrails.records import GuardFault, GuardFindings, GuardQuestion, GuardSpan
from smg_core.settings import ConfigError

pytestmark = pytest.mark.anyio

ASKED = GuardQuestion("Call 0172, Ann", "input")


async def classified(model: str, question: GuardQuestion) -> Classified:
    return Classified([("toxic", 0.9), ("fine", 0.1)], Usage(7, 0))


WORLD = AdapterWorld(EnginesConfig(), classified)


class Service:
    """Answers each request with what `answer` makes of its body; keeps what it was sent."""

    def __init__(self, answer: Callable[[Any], Any], status: int = 200) -> None:
        self.answer, self.status = answer, status
        self.heads: list[str] = []
        self.bodies: list[Any] = []

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            text = head.decode()
            fields = dict(line.partition(":")[::2] for line in text.lower().splitlines()[1:])
            sent = await reader.readexactly(int(fields.get("content-length", "0")))
            if text.startswith("GET "):  # whether it is well, and what its model is
                about = b'{"id":"omni-moderation-latest","object":"model"}'
                writer.write(b"HTTP/1.1 200 X\r\ncontent-length: %d\r\n\r\n%b" % (len(about), about))
                continue
            body = msgspec.json.decode(sent)
            self.heads.append(text)
            self.bodies.append(body)
            found = self.answer(body)
            made = found if isinstance(found, bytes) else msgspec.json.encode(found)
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(made), made))
            await writer.drain()


@asynccontextmanager
async def opened(kind: str, service: Service, **config: Any) -> AsyncIterator[OpenedRail]:
    async with listening(service.take) as port:
        entry = {
            "name": "one",
            "kind": kind,
            "config": {"url": f"http://127.0.0.1:{port}{config.pop('path', '')}", **config},
        }
        (rail,) = opened_rails([entry], "here", WORLD)
        try:
            yield rail
        finally:
            assert rail.close is not None
            await rail.close()


async def found_by(rail: OpenedRail, question: GuardQuestion = ASKED) -> GuardFindings:
    found: Any = rail.rail.check(question)
    made: GuardFindings = await found
    return made


async def test_presidio_tells_places() -> None:
    found = [
        {"entity_type": "PHONE_NUMBER", "start": 5, "end": 9, "score": 0.75, "analysis_explanation": None},
        {"entity_type": "PERSON", "start": 11, "end": 14, "score": 0.3},
    ]
    service = Service(lambda body: found)
    async with opened("presidio", service, entities=["PHONE_NUMBER"], language="de") as rail:
        assert (await found_by(rail)).spans == (GuardSpan(5, 9, "PHONE_NUMBER"),)

    assert service.heads[0].startswith("POST /analyze ")
    assert service.bodies == [
        {"text": ASKED.text, "language": "de", "entities": ["PHONE_NUMBER"], "score_threshold": 0.5}
    ]


def moderated(flagged: bool, **scores: float) -> dict[str, Any]:
    marks = {name: score > 0.5 for name, score in scores.items()}
    return {"id": "m", "model": "x", "results": [{"flagged": flagged, "categories": marks, "category_scores": scores}]}


async def test_moderations_judge_by_themselves_or_by_the_scores_that_count() -> None:
    service = Service(lambda body: moderated(True, hate=0.6, violence=0.2))
    async with opened("moderations", service, path="/v1", credential={"key": "sk-secret"}) as rail:
        assert (await found_by(rail)).blocked == ("hate",)
        shown = GuardQuestion("", "input", pictures=("https://a/b.png",))
        await found_by(rail, shown)
        assert rail.rail.pictures
    async with opened("moderations", service, path="/v1", categories={"violence": 0.1, "sexual": 0.1}) as rail:
        assert (await found_by(rail)).blocked == ("violence",)

    assert service.heads[0].startswith("POST /v1/moderations ")
    assert "authorization: Bearer sk-secret" in service.heads[0]
    assert service.bodies[0] == {"model": "omni-moderation-latest", "input": ASKED.text}
    assert service.bodies[1]["input"] == [{"type": "image_url", "image_url": {"url": "https://a/b.png"}}]


def intervened(**policies: Any) -> dict[str, Any]:
    return {"action": "GUARDRAIL_INTERVENED", "outputs": [{"text": "x"}], "assessments": [policies], "usage": {}}


PHONE = {"sensitiveInformationPolicy": {"piiEntities": [{"type": "PHONE", "match": "0172", "action": "ANONYMIZED"}]}}
BEDROCK: dict[str, tuple[Any, GuardFindings]] = {
    "passes": ({"action": "NONE", "outputs": [], "assessments": []}, GuardFindings()),
    "masks": (intervened(**PHONE), GuardFindings(spans=(GuardSpan(5, 9, "PHONE"),))),
    "blocks": (
        intervened(topicPolicy={"topics": [{"name": "Money", "type": "DENY", "action": "BLOCKED"}]}),
        GuardFindings(("Money",)),
    ),
    "masks what is not there": (
        intervened(
            sensitiveInformationPolicy={"regexes": [{"name": "id", "match": "nowhere", "action": "ANONYMIZED"}]}
        ),
        GuardFindings(("masked elsewhere",)),
    ),
    "says no more": (intervened(), GuardFindings(("intervened",))),
}


@pytest.mark.parametrize("what", BEDROCK)
async def test_bedrock_is_signed_and_masks_in_place(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    answer, expected = BEDROCK[what]
    service = Service(lambda body: answer)
    async with opened("bedrock", service, guardrail="gr/1", version="2", region="eu-central-1") as rail:
        assert await found_by(rail, GuardQuestion(ASKED.text, "output")) == expected

    assert service.heads[0].startswith("POST /guardrail/gr%2F1/version/2/apply ")
    assert "Credential=AKIDEXAMPLE/" in service.heads[0]
    assert "/eu-central-1/bedrock/aws4_request" in service.heads[0]
    assert service.bodies == [{"source": "OUTPUT", "content": [{"text": {"text": ASKED.text}}]}]


async def test_a_served_classifier_has_its_usage() -> None:
    entry = {"name": "one", "kind": "classes", "config": {"model": "tox", "categories": {"TOXIC": 0.5, "fine": 0.5}}}
    (rail,) = opened_rails([entry], "here", WORLD)

    assert await found_by(rail) == GuardFindings(("toxic",), usage=Usage(7, 0), model="tox")


@pytest.mark.parametrize("kind", ["presidio", "moderations", "bedrock"])
@pytest.mark.parametrize(("answer", "status"), [(b"<html>", 200), ({"a": 1}, 200), ([1], 200), ({}, 500), (b"", 503)])
async def test_what_is_no_answer_is_a_failure(kind: str, answer: Any, status: int) -> None:
    service = Service(lambda body: answer, status)
    config = {"guardrail": "g", "credential": {"key": "k"}} if kind == "bedrock" else {}
    async with opened(kind, service, **config) as rail:
        with pytest.raises(GuardFault) as fault:
            await found_by(rail)

    assert ASKED.text not in fault.value.reason


async def test_a_service_that_is_not_there_is_a_failure() -> None:
    (rail,) = opened_rails(
        [{"name": "one", "kind": "presidio", "config": {"url": "http://127.0.0.1:9"}}], "here", WORLD
    )
    with pytest.raises(GuardFault):
        await found_by(rail)
    assert rail.close is not None
    await rail.close()


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({}, "expected a list"),
    "no kind": ([{"name": "a"}], "kind"),
    "an unknown kind": (
        [{"name": "a", "kind": "lakera"}],
        "expected one of presidio, moderations, bedrock, classes, python",
    ),
    "an unknown field": ([{"name": "a", "kind": "presidio", "mode": 1}], "mode"),
    "an unknown field of its kind": ([{"name": "a", "kind": "presidio", "config": {"url": "http://a", "x": 1}}], "x"),
    "no URL": ([{"name": "a", "kind": "presidio", "config": {"url": "a"}}], "URL"),
    "no region": ([{"name": "a", "kind": "bedrock", "config": {"guardrail": "g"}}], "region"),
    "no module": ([{"name": "a", "kind": "python", "config": {"source": "no_such_module:x"}}], "no_such_module"),
    "no plugin": ([{"name": "a", "kind": "python", "config": {"source": "nothing"}}], "smg.guardrails"),
    "two of one name": ([{"name": "a", "kind": "presidio", "config": {"url": "http://a"}}] * 2, "two guardrails"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_list_that_makes_no_sense_is_refused_by_name(what: str) -> None:
    found, words = WRONG[what]
    with pytest.raises(ConfigError, match="here") as refused:
        opened_rails(found, "here", WORLD)

    assert words in str(refused.value)


async def test_a_check_of_a_module_is_loaded() -> None:
    entry = {"name": "a", "kind": "python", "config": {"source": f"{__name__}:Stern", "settings": {"word": "Ann"}}}
    (rail,) = opened_rails([entry], "here", WORLD)

    assert (await found_by(rail)).blocked == ("Ann",)


class Stern:
    """A check with settings."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def __call__(self, question: GuardQuestion) -> GuardFindings:
        return GuardFindings((self.word,) if self.word in question.text else ())
