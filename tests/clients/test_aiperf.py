"""AIPerf, a load generator that measures what a client waits for, before the gateway, as it is shipped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.gateway import Served, run, scripted, serving
from tests.clients.versions import install_apart

from smg_simulator.answers.replies import Reply
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER

CLIENT = "aiperf"
ENDS_IN_S = 300.0
"""It starts a dozen processes, each of which imports much."""
REQUESTS, AT_ONCE, MOST = 12, 4, 100
TEXT = "Good day to you, and to everybody who waits for the next token."
ENGINE = scripted(("", Reply(TEXT)))
"""Its replies end before MOST tokens: of responses that were cut off at their bound AIPerf reads no usage."""

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(ENDS_IN_S + 300)]
Saw = Callable[[str, object], None]


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with the program."""
    return install_apart(CLIENT)


def tokens_of_reply(served: Served) -> int:
    """Those of the text, and the one that ends it."""
    return len(served.engine.engine.vocabulary.encode(TEXT)) + 1


async def measured(programs: Path, folder: Path, served: Served, *options: str) -> dict[str, Any]:
    """What a run writes as its result."""
    sizes = ("--synthetic-input-tokens-mean", "100", "--output-tokens-mean", str(MOST))
    load = ("--request-count", str(REQUESTS), "--concurrency", str(AT_ONCE), "--use-server-token-count")
    where = ("--model", "sim", "--url", served.url, "--tokenizer", str(MODEL_FOLDER), "--artifact-dir", str(folder))
    command = [str(programs / "aiperf"), "profile", *where, *load, *sizes, "--ui", "none", *options]
    ended = await run(command, folder, {"HOME": str(folder)}, patience_s=ENDS_IN_S)
    assert ended.status == 0, ended.out + ended.err
    (written,) = folder.rglob("profile_export_aiperf.json")
    found: dict[str, Any] = json.loads(written.read_text())
    return found


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        pytest.param("chat", "/v1/chat/completions", id="Chat"),
        pytest.param("completions", "/v1/completions", id="Completions"),
        pytest.param("responses", "/v1/responses", id="Responses"),
        pytest.param("messages", "/v1/messages", id="Messages"),
    ],
)
async def test_every_stream_is_measured_to_its_last_token(
    kind: str, path: str, programs: Path, tmp_path: Path, record_property: Saw
) -> None:
    async with serving(ENGINE) as served:
        found = await measured(programs, tmp_path, served, "--endpoint-type", kind, "--streaming")
        asked = served.asked(path)
        tokens = tokens_of_reply(served)

    assert [each.status for each in asked] == [200] * REQUESTS
    assert (found["request_count"]["avg"], found["error_summary"]) == (REQUESTS, [])
    assert found["output_sequence_length"]["min"] == found["output_sequence_length"]["max"] == tokens
    assert found["time_to_first_token"]["min"] > 0
    assert found["inter_token_latency"]["avg"] >= 0
    record_property("seen", f"{REQUESTS} streams of {tokens} tokens, time to the first token and between two")


async def test_whole_answers_are_measured(programs: Path, tmp_path: Path, record_property: Saw) -> None:
    async with serving(ENGINE) as served:
        found = await measured(programs, tmp_path, served, "--endpoint-type", "chat")
        tokens = tokens_of_reply(served)

    assert (found["request_count"]["avg"], found["error_summary"]) == (REQUESTS, [])
    assert found["output_sequence_length"]["avg"] == tokens
    record_property("seen", f"{REQUESTS} whole answers of {tokens} tokens")


async def test_embeddings_are_measured(programs: Path, tmp_path: Path, record_property: Saw) -> None:
    async with serving(SimulatorConfig(seed=1, generation_model=False)) as served:
        found = await measured(programs, tmp_path, served, "--endpoint-type", "embeddings")

    assert (found["request_count"]["avg"], found["error_summary"]) == (REQUESTS, [])
    record_property("seen", f"{REQUESTS} inputs")
