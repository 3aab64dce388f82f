"""Codex CLI, configured by what `smg-gateway setup codex` prints."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from tests.clients.gateway import NO_SETTINGS, NOTE, Ended, Served, run, scripted, serving, set_up, thoughtful_template

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply
from smg_simulator.engine.clockwork import Timing

pytestmark = pytest.mark.anyio

CLIENT = "@openai/codex"
QUIET = "\n[analytics]\nenabled = false\n"
READ_NOTE = ("exec_command", {"cmd": "cat note.txt"})

Saw = Callable[[str, object], None]


@attrs.frozen
class Codex:
    """The program with a home of its own."""

    npm: Path
    home: Path
    workspace: Path

    async def configure(self, served: Served, top: str = "", over: str = "HTTP", *, upgrades: bool = True) -> str:
        """Write config.toml: what `setup` prints, with further lines above it, with or without the WebSocket for what is tried
        over it or over HTTP; `upgrades`, whether `setup` will find that it works. Returns what `setup` has warned of."""
        command = [sys.executable, "-m", "smg_core", "setup", "codex", "--url", served.url]
        printed = await run(command, self.workspace, NO_SETTINGS)
        assert printed.status == 0
        quiet = "check_for_update_on_startup = false\n"
        line = "supports_websockets = true\n"
        assert (line in printed.out) is upgrades
        lines = printed.out.replace(line, "") + (line if over == "WebSocket" else "")
        (self.home / "config.toml").write_text(quiet + top + lines + QUIET)
        served.exchanges.clear()
        return printed.err

    async def run(self, *arguments: str) -> "Told":
        program = [str(self.npm / "node_modules" / ".bin" / "codex"), "exec"]
        always = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        own = {"HOME": str(self.home), "CODEX_HOME": str(self.home)}
        return Told.of(await run([*program, *arguments[:-1], *always, arguments[-1]], self.workspace, own))


@attrs.frozen
class Told:
    """What a run of Codex has told, event by event."""

    status: int
    events: list[dict[str, Any]]

    @classmethod
    def of(cls, ended: Ended) -> "Told":
        return cls(ended.status, [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")])

    def items(self, kind: str) -> list[dict[str, Any]]:
        return [
            each["item"] for each in self.events if each["type"] == "item.completed" and each["item"]["type"] == kind
        ]

    @property
    def messages(self) -> list[str]:
        return [item["text"].strip() for item in self.items("agent_message")]

    @property
    def usage(self) -> dict[str, int]:
        (ended,) = [each for each in self.events if each["type"] == "turn.completed"]
        return dict(ended["usage"])


over_both = pytest.mark.parametrize("over", ["HTTP", "WebSocket"])
"""The ways in which Codex reaches a gateway: by a request for each turn, or by frames of one connection."""


@pytest.fixture
def codex(npm: Path, tmp_path: Path, workspace: Path) -> Codex:
    home = tmp_path / "home"
    home.mkdir()
    return Codex(npm, home, workspace)


async def test_text_is_answered(codex: Codex, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Good day to you.")))) as served:
        await codex.configure(served)
        told = await codex.run("say something")
        (asked,) = served.asked("/v1/responses")

    assert (told.status, told.messages) == (0, ["Good day to you."])
    assert told.usage["input_tokens"] > 1000
    record_property("seen", f"{len(asked.body)} bytes, {told.usage['input_tokens']} tokens")


async def test_a_tool_runs_in_the_workspace_and_its_output_comes_back_with_the_reasoning(
    codex: Codex, record_property: Saw
) -> None:
    script = scripted(
        ("ZEPHYR-42", Reply("It says ZEPHYR-42.", reasoning="Now I know it.")),
        ("", Reply(reasoning="I must open the file.", tool_calls=(READ_NOTE,))),
    )
    async with serving(script, "--tokenizer-chat-template", thoughtful_template(codex.home)) as served:
        await codex.configure(served)
        told = await codex.run("what does note.txt say?")
        first, second = served.prompts()

    assert (told.status, told.messages) == (0, ["It says ZEPHYR-42."])
    (command,) = told.items("command_execution")
    assert (command["exit_code"], command["aggregated_output"].strip()) == (0, NOTE)
    assert [item["text"].strip() for item in told.items("reasoning")] == ["I must open the file.", "Now I know it."]
    assert "I must open the file." in second.removeprefix(first)
    record_property("seen", "2 requests, 1 command run, reasoning replayed to the model")


async def test_a_tool_runs_where_setup_has_written_the_settings(codex: Codex, record_property: Saw) -> None:
    own = '# mine\nmodel = "gpt" # before\ncheck_for_update_on_startup = false\n' + QUIET
    (codex.home / "config.toml").write_text(own)
    script = scripted(("ZEPHYR-42", Reply("It says ZEPHYR-42.")), ("", Reply(tool_calls=(READ_NOTE,))))
    async with serving(script) as served:
        await set_up("codex", served, codex.home, CODEX_HOME=str(codex.home))
        told = await codex.run("what does note.txt say?")

    assert (told.status, told.messages) == (0, ["It says ZEPHYR-42."])
    kept = [line for line in own.splitlines() if line and not line.startswith("model")]
    assert [line for line in (codex.home / "config.toml").read_text().splitlines() if line in kept] == kept
    record_property(
        "seen", f"{len(told.items('command_execution'))} command run, the file's other lines are as they were"
    )


async def test_a_connection_is_kept_and_only_what_is_new_is_sent_on_it(codex: Codex, record_property: Saw) -> None:
    script = scripted(
        ("ZEPHYR-42", Reply("It says ZEPHYR-42.", reasoning="Now I know it.")),
        ("what does note.txt say?", Reply(reasoning="I must open the file.", tool_calls=(READ_NOTE,))),
        ("", Reply(".")),
    )
    async with serving(script, "--tokenizer-chat-template", thoughtful_template(codex.home)) as served:
        await codex.configure(served, over="WebSocket")
        told = await codex.run("what does note.txt say?")
        bodies, posted = served.created(), served.asked("/v1/responses")
        opened = [each.status for each in served.asked("/v1/responses", "GET")]
        *_, first, second = served.prompts()

    assert (told.status, told.messages) == (0, ["It says ZEPHYR-42."])
    assert (posted, opened) == ([], [101])
    prewarm, *turns = bodies
    assert prewarm["generate"] is False
    assert all(turn["previous_response_id"] for turn in turns)
    assert [item["type"] for item in turns[-1]["input"]] == ["function_call_output"]
    assert "I must open the file." in second.removeprefix(first)
    record_property(
        "seen", f"1 connection, a prewarm and {len(turns)} turns, the last of which is the tool's output alone"
    )


async def test_a_client_whose_websocket_is_refused_goes_on_over_http(codex: Codex, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Good day to you."))), upgrades=False) as served:
        await codex.configure(served, over="WebSocket", upgrades=False)
        told = await codex.run("say something")
        refused = [each.status for each in served.asked("/v1/responses", "GET")]
        posted = [each.status for each in served.asked("/v1/responses")]

    assert (told.status, told.messages) == (0, ["Good day to you."])
    assert posted == [200]
    assert set(refused) == {426}
    record_property("seen", f"{len(refused)} handshakes that a proxy took the upgrade from: 426; then 1 request")


async def test_parallel_calls_are_all_run(codex: Codex, record_property: Saw) -> None:
    both = (("exec_command", {"cmd": "echo one > one"}), ("exec_command", {"cmd": "echo two > two"}))
    script = scripted(("<tool_response>", Reply("Both are there.")), ("", Reply("I make both.", tool_calls=both)))
    async with serving(script) as served:
        await codex.configure(served)
        told = await codex.run("make the files one and two")
        prompt = served.prompts()[-1]

    assert (told.status, told.messages) == (0, ["I make both.", "Both are there."])
    assert [(codex.workspace / name).read_text() for name in ("one", "two")] == ["one\n", "two\n"]
    assert prompt.count("<tool_response>") == 2
    record_property("seen", "2 commands of one turn run, both outputs in the next prompt")


async def test_hosted_tools_are_offered_and_do_not_reach_the_model(codex: Codex, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Done.")))) as served:
        await codex.configure(served)
        told = await codex.run("search the web")
        (asked,) = served.asked("/v1/responses")
        (prompt,) = served.prompts()

    kinds = sorted({tool["type"] for tool in asked.json["tools"]})
    assert told.status == 0
    assert "web_search" in kinds
    assert '"web_search"' not in prompt
    record_property("seen", f"offered: {', '.join(kinds)}")


async def test_a_session_goes_on_after_the_gateway_was_started_anew(codex: Codex, record_property: Saw) -> None:
    script = scripted(("once more", Reply("Again.")), ("", Reply("First.", reasoning="It begins.")))
    for prompt, said in ((["begin"], "First."), (["resume", "--last", "once more"], "Again.")):
        async with serving(script) as served:
            await codex.configure(served)
            told = await codex.run(*prompt)
            assert (told.status, told.messages) == (0, [said])
            last = served.prompts()[-1]

    assert "First." in last
    record_property("seen", "reasoning that was sealed with another key is left out, the turns are kept")


@over_both
async def test_the_history_is_compacted_when_it_is_over_the_limit(
    codex: Codex, over: str, record_property: Saw
) -> None:
    script = scripted(
        ("SUMMARY-7", Reply("I go on from the summary.")),
        ("CONTEXT CHECKPOINT COMPACTION", Reply("SUMMARY-7: a note was read.")),
        ("", Reply(reasoning="I must open the file.", tool_calls=(READ_NOTE,))),
    )
    async with serving(script) as served:
        await codex.configure(served, top="model_auto_compact_token_limit = 1000\n", over=over)
        told = await codex.run("what does note.txt say?")
        prompts = served.prompts()

    assert (told.status, told.messages) == (0, ["I go on from the summary."])
    assert "SUMMARY-7" in prompts[-1]
    assert "<tool_response>" not in prompts[-1]
    turns = [body for body in served.created() if body.get("generate") is not False]
    record_property("seen", f"{len(turns)} requests: turn, summary, turn on the summary")


@over_both
async def test_an_engine_that_breaks_off_is_asked_again(codex: Codex, over: str, record_property: Saw) -> None:
    script = scripted(("", Reply("A sentence that is broken off once, and then said to its end.")))
    first_turn = [None] * (over == "WebSocket")  # behind the prewarm, which the engine answers too
    async with serving(
        attrs.evolve(script, faults=(*first_turn, Fault("cut", after=3)), timing=Timing(decode_rate=5))
    ) as served:
        await codex.configure(served, over=over)
        told = await codex.run("say something")
        asked = [body for body in served.created() if body.get("generate") is not False]
        *_, first, second = served.prompts()

    assert (told.status, told.messages) == (0, ["A sentence that is broken off once, and then said to its end."])
    assert first == second
    assert len(asked) == 2
    record_property("seen", "2 requests: the first failed in its stream and is not before the model again")


@over_both
async def test_a_gateway_without_an_engine_is_not_stormed(codex: Codex, over: str, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Never.")))) as served:
        await codex.configure(served, over=over)
        await served.engine.stop()
        told = await codex.run("say something")
        asked = served.created()

    assert told.status == 1
    assert "capacity" in str(told.events[-1])
    assert len(asked) <= 6
    record_property("seen", f"{len(asked)} requests, then: {told.events[-1]['error']['message']}")


async def test_a_prompt_over_the_context_is_told_as_such(codex: Codex, record_property: Saw) -> None:
    async with serving(attrs.evolve(scripted(("", Reply("Never."))), context_length=4096)) as served:
        warned = await codex.configure(served)
        told = await codex.run("say something")
        asked = served.asked("/v1/responses")

    assert "codex will not work with sim: its first prompt alone has about" in warned
    assert told.status == 1
    assert len(asked) == 1
    assert "ran out of room" in str(told.events)
    record_property("seen", told.events[-1]["error"]["message"])


async def test_a_model_that_is_not_served_is_told_by_name(codex: Codex, record_property: Saw) -> None:
    async with serving(scripted(("", Reply("Never.")))) as served:
        await codex.configure(served)
        told = await codex.run("-m", "nobody", "say something")
        asked = served.asked("/v1/responses")

    assert (told.status, len(asked), asked[0].status) == (1, 1, 404)
    assert "'nobody' does not exist" in str(told.events[-1])
    record_property("seen", told.events[-1]["error"]["message"])


async def test_arguments_that_are_not_json_come_back_as_the_tools_error(codex: Codex, record_property: Saw) -> None:
    broken = '<tool_call>\n{"name": "exec_command", "arguments": {"cmd": 7}}\n</tool_call>'
    script = scripted(("<tool_response>", Reply("I see the mistake.")), ("", Reply(broken)))
    async with serving(script) as served:
        await codex.configure(served)
        told = await codex.run("run something")
        last = served.prompts()[-1]

    assert (told.status, told.messages) == (0, ["I see the mistake."])
    error = last.rpartition("<tool_response>")[2].partition("</tool_response>")[0].strip()
    assert "failed to parse" in error
    record_property("seen", "the model is given Codex's error")


async def test_a_patch_in_free_text_is_applied(codex: Codex, record_property: Saw) -> None:
    patch = "*** Begin Patch\n*** Add File: made.txt\n+made by a patch\n*** End Patch"
    script = scripted(
        ("<tool_response>", Reply("The file is made.")), ("", Reply(tool_calls=(("apply_patch", {"input": patch}),)))
    )
    async with serving(script, "--model-name", "gpt-5.5") as served:
        await codex.configure(served)
        told = await codex.run("make made.txt")
        asked = served.asked("/v1/responses")[0]

    assert "apply_patch" in [tool.get("name") for tool in asked.json["tools"]]
    assert (told.status, told.messages) == (0, ["The file is made."])
    assert (codex.workspace / "made.txt").read_text() == "made by a patch\n"
    record_property("seen", "a custom tool with a grammar, called with free text")


async def test_tools_that_come_within_the_input_are_called(codex: Codex, record_property: Saw) -> None:
    script = scripted(
        ("<tool_response>", Reply("It was run.")),
        ("", Reply(tool_calls=(("functions__exec", {"input": "text(40 + 2)"}),))),
    )
    async with serving(script, "--model-name", "gpt-6.1-sol") as served:
        await codex.configure(served)
        told = await codex.run("add one and one")
        first, second = served.asked("/v1/responses")

        answer = served.prompts()[-1].rpartition("<tool_response>")[2].partition("</tool_response>")[0]

    assert not first.json.get("tools")
    assert "additional_tools" in [item["type"] for item in first.json["input"]]
    assert "custom_tool_call_output" in [item["type"] for item in second.json["input"]]
    assert (told.status, told.messages) == (0, ["It was run."])
    assert "42" in answer
    record_property("seen", "custom tool of a namespace, run by Codex; its output is in the next prompt")


async def test_the_history_is_compacted_by_the_gateway_where_codex_asks_it_to(
    codex: Codex, record_property: Saw
) -> None:
    script = scripted(
        ("SUMMARY-7", Reply("I go on from the summary.")),
        ("<tool_response>", Reply("SUMMARY-7: a note was read.")),
        ("", Reply(reasoning="I must open the file.", tool_calls=(READ_NOTE,))),
    )
    async with serving(script) as served:
        await codex.configure(served, top="model_auto_compact_token_limit = 1000\n")
        named = codex.home / "config.toml"
        named.write_text(named.read_text().replace('name = "smg"', 'name = "OpenAI"'))
        told = await codex.run("what does note.txt say?")
        kinds = [each.json["input"][-1]["type"] for each in served.asked("/v1/responses")]
        prompts = served.prompts()

    assert (told.status, told.messages) == (0, ["I go on from the summary."])
    assert "compaction_trigger" in kinds
    assert "SUMMARY-7" in prompts[-1]
    assert "ZEPHYR-42" not in prompts[-1]
    record_property("seen", f"last items of the requests: {', '.join(kinds)}")
