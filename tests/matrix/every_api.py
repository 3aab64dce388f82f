"""The table of the matrix that has a row for each API: the requests of its row, answered by every engine."""

from collections.abc import Iterable

import httpx
from tests.matrix.results import Cell

from smg_core.serving.spec import ApiSpec, trials_of
from smg_core.trials import ApiTrials
from smg_simulator.conform.answers import HttpAnswer, answer_faults
from smg_simulator.conform.probes import Probe, probes

TITLE = "Every API"
SAID_LATE = {("generate_content", "chat server"): 'TokenCount" is a required property'}
"""Streams that lack a number until the end, since the engine says it then."""


def rows_of(specs: Iterable[ApiSpec], model: str) -> list[tuple[ApiTrials, Probe]]:
    """The plain requests of each API that has trials, whole and streamed: the first that wants a text."""
    rows = []
    for trials in trials_of(specs).values():
        plain = [probe for probe in probes(trials, model) if probe.wants == "text"]
        rows += [(trials, next(probe for probe in plain if probe.streamed is streamed)) for streamed in (False, True)]
    return rows


def cell_of(probe: Probe, engine: str) -> Cell:
    """Where the answer stands in the page."""
    return (TITLE, probe.api, engine, "stream" if probe.streamed else "whole")


async def outcome(client: httpx.AsyncClient, probe: Probe, engine: str) -> str:
    """What came of it: the answer is as it must be, or refused by name, or lacks a number that this engine says late."""
    answer = await client.post(
        probe.path, content=probe.body, headers={"content-type": "application/json", **dict(probe.headers)}
    )
    if answer.status_code == 400:
        named: str = answer.json()["error"]["param"]
        assert named, "a refusal must name what it is about"
        return f"400: {named}"
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    faults = answer_faults(probe, HttpAnswer(answer.status_code, media_type, answer.content))
    late = SAID_LATE.get((probe.api, engine)) if probe.streamed else None
    if late is None:
        assert faults == [], answer.text
        return "yes"
    assert faults
    assert all(late in each for each in faults), faults
    return "not told"
