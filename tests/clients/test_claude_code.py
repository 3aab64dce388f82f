"""Claude Code, configured by what `smg-gateway setup claude-code` prints."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from tests.clients.gateway import NO_SETTINGS, NOTE, Served, run, scripted, serving, set_up, thoughtful_template

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing

pytestmark = pytest.mark.anyio

CLIENT = "@anthropic-ai/claude-code"
MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
QUIET = {"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1"}
READ_NOTE = ("Bash", {"command": "cat note.txt", "description": "Read the note"})

Saw = Callable[[str, object], None]


@attrs.frozen
class Told:
    """What a run of Claude Code has told: its lines of JSON."""

    status: int
    lines: list[dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        return self.lines[-1]

    def blocks(self, kind: str) -> list[dict[str, Any]]:
        """The blocks of one kind in the messages of the session."""
        messages = [line["message"]["content"] for line in self.lines if line["type"] in ("assistant", "user")]
        return [
            block for content in messages if isinstance(content, list) for block in content if block["type"] == kind
        ]


@attrs.frozen
class ClaudeCode:
    """The program with a home of its own."""

    npm: Path
    home: Path
    workspace: Path

    async def run(self, served: Served, *arguments: str, unbounded: bool = False, **variables: str) -> Told:
        """One session, in which every tool may run, with what `setup` prints as its environment; with or without its bound."""
        command = [sys.executable, "-m", "smg_core", "setup", "claude-code", "--url", served.url]
        printed = await run(command, self.workspace, NO_SETTINGS)
        assert printed.status == 0, printed.err
        served.exchanges.clear()
        kept = [line for line in printed.out.splitlines() if not (unbounded and "MAX_OUTPUT_TOKENS" in line)]
        (self.home / "environment").write_text("\n".join(kept))
        program = str(self.npm / "node_modules" / ".bin" / "claude")
        flags = ["-p", "--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
        start = ["sh", "-c", f'. {self.home / "environment"}; exec "$@"', "sh", program, *flags, *arguments]
        own = {"HOME": str(self.home), "IS_SANDBOX": "1", **QUIET, **variables}
        ended = await run(start, self.workspace, own)
        lines = [msgspec.json.decode(line) for line in ended.out.splitlines() if line.startswith("{")]
        assert lines, ended.err
        return Told(ended.status, lines)


@pytest.fixture
def claude(npm: Path, tmp_path: Path, workspace: Path) -> ClaudeCode:
    home = tmp_path / "home"
    home.mkdir()
    return ClaudeCode(npm, home, workspace)


async def test_text_is_answered(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Good day to you.")))) as served:
        told = await claude.run(served, "say something")
        assert served.asked("/", "HEAD")[0].status == 200

    assert (told.status, told.result["result"].strip()) == (0, "Good day to you.")
    assert told.result["usage"]["input_tokens"] > 1000
    record_property("seen", f"{told.result['usage']['input_tokens']} tokens")


async def test_a_tool_runs_in_the_workspace_and_its_output_comes_back_with_the_thinking(
    claude: ClaudeCode, record_property: Saw
) -> None:
    script = scripted(
        ("ZEPHYR-42", Reply("It says ZEPHYR-42.", reasoning="Now I know it.")),
        ("", Reply(reasoning="I must open the file.", tool_calls=(READ_NOTE,))),
    )
    async with serving(script, "--tokenizer-chat-template", thoughtful_template(claude.home)) as served:
        told = await claude.run(served, "what does note.txt say?")
        prompt = served.prompts()[-1]

    assert (told.status, told.result["result"].strip()) == (0, "It says ZEPHYR-42.")
    (result,) = told.blocks("tool_result")
    assert (result["content"], result.get("is_error")) == (NOTE, False)
    assert [each["thinking"].strip() for each in told.blocks("thinking")] == ["I must open the file.", "Now I know it."]
    assert prompt.count("I must open the file.") == 1
    record_property("seen", "1 command run, thinking replayed to the model")


async def test_parallel_calls_are_all_run(claude: ClaudeCode, record_property: Saw) -> None:
    both = tuple(("Bash", {"command": f"echo {name} > {name}", "description": "Make it"}) for name in ("one", "two"))
    script = scripted(("<tool_response>", Reply("Both are there.")), ("", Reply("I make both.", tool_calls=both)))
    async with serving(script) as served:
        told = await claude.run(served, "make the files one and two")
        prompt = served.prompts()[-1]

    assert (told.status, told.result["result"].strip()) == (0, "Both are there.")
    assert [(claude.workspace / name).read_text() for name in ("one", "two")] == ["one\n", "two\n"]
    assert prompt.count("<tool_response>") == 2
    record_property("seen", "2 commands of one turn run, both outputs in the next prompt")


async def test_a_tool_that_fails_is_told_to_the_model(claude: ClaudeCode, record_property: Saw) -> None:
    script = scripted(
        ("<tool_response>", Reply("It is not there.")),
        ("", Reply(tool_calls=(("Bash", {"command": "cat nothing.txt", "description": "Read"}),))),
    )
    async with serving(script) as served:
        told = await claude.run(served, "read nothing.txt")
        prompt = served.prompts()[-1]

    (result,) = told.blocks("tool_result")
    assert (told.status, result["is_error"]) == (0, True)
    assert "No such file" in prompt
    record_property("seen", "is_error, with the command's own words")


async def test_a_web_search_is_answered_without_one(claude: ClaudeCode, record_property: Saw) -> None:
    script = scripted(
        ("<tool_response>", Reply("Nothing was found.")),
        ("Perform a web search", Reply("I cannot search.")),
        ("", Reply(tool_calls=(("WebSearch", {"query": "weather in Paris"}),))),
    )
    async with serving(script) as served:
        told = await claude.run(served, "search the web for the weather in Paris")
        searches = [each for each in served.asked(MESSAGES) if b'"web_search_20250305"' in each.body]

    assert (told.status, told.result["result"].strip()) == (0, "Nothing was found.")
    assert [each.status for each in searches] == [200]
    record_property("seen", "the nested request with the server's tool is answered in text")


async def test_side_requests_for_small_models_are_served_by_an_alias(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Good day to you."))), "--model-aliases", "claude-*=sim") as served:
        told = await claude.run(served, "--model", "claude-haiku-4-5", "say something")
        models = sorted({each.json["model"] for each in served.asked(MESSAGES)})
        statuses = {each.status for each in served.asked(MESSAGES)}

    assert (told.status, told.result["result"].strip(), statuses) == (0, "Good day to you.", {200})
    assert models[0].startswith("claude-haiku")
    record_property("seen", f"asked for: {', '.join(models)}")


async def test_a_stream_that_breaks_off_is_asked_for_once_more_without_streaming(
    claude: ClaudeCode, record_property: Saw
) -> None:
    text = "This is said to its end only where nobody streams it."
    slow = Timing(decode_rate=5)  # so that its first words have left before it fails
    script = attrs.evolve(scripted(("", Reply(text))), faults=(Fault("error", after=6),), timing=slow)
    async with serving(script) as served:
        told = await claude.run(served, "say something")
        streamed = [each.json.get("stream", False) for each in served.asked(MESSAGES)]

    assert (told.status, told.result["result"].strip()) == (0, text)
    assert streamed == [True, False]
    record_property("seen", "1 streamed request, then its twin without streaming")


async def test_an_engine_that_is_busy_is_waited_for(claude: ClaudeCode, record_property: Saw) -> None:
    busy = Fault("refuse", status="RESOURCE_EXHAUSTED")
    async with serving(attrs.evolve(scripted(("", Reply("At last."))), faults=(busy, busy))) as served:
        told = await claude.run(served, "say something")
        asked = served.asked(MESSAGES)

    assert (told.status, told.result["result"].strip()) == (0, "At last.")
    assert [each.status for each in asked] == [529, 529, 200]
    assert all(int(each.answer["retry-after"]) >= 1 for each in asked[:2])
    record_property("seen", "2 times 529 with retry-after, then answered")


async def test_a_prompt_over_the_context_is_recognised(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(attrs.evolve(scripted(("", Reply("Never."))), context_length=8192)) as served:
        told = await claude.run(served, "say something")
        asked = served.asked(MESSAGES)

    assert told.result["is_error"]
    assert "Prompt is too long" in told.result["result"]
    record_property("seen", f"{len(asked)} requests, then: {told.result['result']}")


async def test_output_is_bounded_where_the_context_is_short(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(attrs.evolve(scripted(("", Reply("It fits."))), context_length=48_000)) as served:
        told = await claude.run(served, "say something")
        asked = served.asked(MESSAGES)

    assert (told.status, told.result["result"].strip()) == (0, "It fits.")
    assert [each.status for each in asked] == [200]
    record_property("seen", f"max_tokens {asked[0].json['max_tokens']}, answered at once")


async def test_a_tool_runs_where_setup_has_written_the_settings(
    claude: ClaudeCode, workspace: Path, record_property: Saw
) -> None:
    own = '{\n  "includeCoAuthoredBy": false,\n  "env": {\n    "MINE": "1"\n  }\n}\n'
    (claude.home / ".claude").mkdir()
    (claude.home / ".claude" / "settings.json").write_text(own)
    script = scripted(("ZEPHYR-42", Reply("It says ZEPHYR-42.")), ("", Reply(tool_calls=(READ_NOTE,))))
    async with serving(script) as served:
        await set_up("claude-code", served, claude.home)
        program = [str(claude.npm / "node_modules" / ".bin" / "claude"), "-p", "--permission-mode", "bypassPermissions"]
        own_home = {"HOME": str(claude.home), "IS_SANDBOX": "1", **QUIET}
        ended = await run([*program, "what does note.txt say?"], workspace, own_home)
        asked = served.asked(MESSAGES)

    assert (ended.status, ended.out.strip()) == (0, "It says ZEPHYR-42."), ended.err
    assert set(own.splitlines()) <= set((claude.home / ".claude" / "settings.json").read_text().splitlines())
    record_property("seen", f"{len(asked)} requests, 1 command run, no variable in the shell")


async def test_more_output_than_fits_is_asked_for_again_with_less(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(attrs.evolve(scripted(("", Reply("It fits."))), context_length=48_000)) as served:
        told = await claude.run(served, "say something", unbounded=True)
        asked = served.asked(MESSAGES)

    assert (told.status, told.result["result"].strip()) == (0, "It fits.")
    first, last = asked[0].json["max_tokens"], asked[-1].json["max_tokens"]
    assert [asked[0].status, asked[-1].status] == [400, 200]
    assert last < first
    record_property("seen", f"max_tokens {first} refused with the numbers, {last} asked for and answered")


async def test_a_session_goes_on_after_the_gateway_was_started_anew(claude: ClaudeCode, record_property: Saw) -> None:
    script = scripted(("once more", Reply("Again.")), ("", Reply("First.", reasoning="It begins.")))
    for prompt, said in ((["begin"], "First."), (["--continue", "once more"], "Again.")):
        async with serving(script) as served:
            told = await claude.run(served, *prompt)
            assert (told.status, told.result["result"].strip()) == (0, said)
            last = served.prompts()[-1]

    assert "First." in last
    record_property("seen", "thinking that was signed with another key is left out, the turns are kept")


async def test_the_conversation_is_compacted_on_demand(claude: ClaudeCode, record_property: Saw) -> None:
    script = scripted(
        ("and now", Reply("I go on.")),
        ("create a detailed summary", Reply("<summary>SUMMARY-7: little was said.</summary>")),
        ("", Reply("Good day to you.")),
    )
    async with serving(script) as served:
        await claude.run(served, "say something")
        await claude.run(served, "--continue", "say more")
        compacted = await claude.run(served, "--continue", "/compact")
        told = await claude.run(served, "--continue", "and now")
        last = served.prompts()[-1]

    assert compacted.status == 0
    assert (told.status, told.result["result"].strip()) == (0, "I go on.")
    assert "SUMMARY-7" in last
    record_property("seen", "the next prompt has the summary in place of the turns")


async def test_the_context_is_counted_in_a_burst(claude: ClaudeCode, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Good day to you.")))) as served:
        told = await claude.run(served, "/context")
        counted = served.asked(COUNT)
        engine_calls = len(served.engine.requests)

    assert told.status == 0
    assert len(counted) > 5
    assert {each.status for each in counted} == {200}
    assert engine_calls == 0
    record_property("seen", f"{len(counted)} counts, none of them asked of an engine")
