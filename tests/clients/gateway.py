"""`smg-gateway serve` as a process of its own, before a scripted engine, with what clients and engine say written down."""

import asyncio
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
from tests.clients.recorder import Exchange, recording

from smg_simulator.answers.faults import Fault
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.engine.model_folder import MODEL_FOLDER
from smg_simulator.server.grpc_server import SimulatedEngine

PATIENCE_S = 90.0
"""How long a gateway may take to start and a client to end, before it counts as hung."""
LISTENING = re.compile(r"listening on http://[^:]+:(\d+)")
NO_SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("SMG_")}

CONTEXT = 200_000
NOTE = "The word of the day is ZEPHYR-42."
"""What is in note.txt of every workspace; no client can say it that has not read the file."""


def thoughtful_template(folder: Path) -> str:
    """A file with the engine's own chat template, which also shows the model what it has thought in earlier turns."""
    template = (MODEL_FOLDER / "chat_template.jinja").read_text()
    shown = template.replace(
        "{{- text_of(message.content) }}\n        {%- for call",
        "{{- ('<think>\\n' ~ message.reasoning_content ~ '\\n</think>\\n') if message.reasoning_content }}\n"
        "        {{- text_of(message.content) }}\n        {%- for call",
    )
    assert shown != template
    (folder / "template.jinja").write_text(shown)
    return str(folder / "template.jinja")


@attrs.define
class Served:
    """A gateway with its engine. `port` is the recorder's, `exchanges` what came through it."""

    engine: SimulatedEngine
    port: int
    exchanges: list[Exchange]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked(self, path: str, method: str = "POST") -> list[Exchange]:
        """The requests of `path`, whatever their query."""
        return [each for each in self.exchanges if each.method == method and each.target.partition("?")[0] == path]

    def created(self) -> list[Any]:
        """The bodies of the responses that were asked for, by HTTP and in frames of WebSockets, in order."""
        bodies = list[Any]()
        for each in self.exchanges:
            if each.target.partition("?")[0] == "/v1/responses":
                bodies += [json.loads(text) for text in ([each.body] if each.method == "POST" else each.frames)]
        return bodies

    def prompts(self) -> list[str]:
        """What the engine was given, in order."""
        vocabulary = self.engine.engine.vocabulary
        return [vocabulary.decode(list(each.input_ids), skip_special_tokens=False) for each in self.engine.requests]


@attrs.frozen
class Ended:
    """How a program ended."""

    status: int
    out: str
    err: str


def scripted(*rules: tuple[str, Reply], faults: Sequence[Fault | None] = ()) -> SimulatorConfig:
    """An engine whose answer to a prompt is that of the first of `rules` whose word is in it."""
    return SimulatorConfig(
        context_length=CONTEXT, rules=tuple(Rule((word,), reply) for word, reply in rules), faults=tuple(faults)
    )


@asynccontextmanager
async def serving(config: SimulatorConfig, *arguments: str, upgrades: bool = True) -> AsyncIterator[Served]:
    """A gateway that is ready, behind a recorder, which without `upgrades` is a proxy that passes on no WebSocket."""
    async with (
        SimulatedEngine(config) as engine,
        started(engine.target, *arguments) as port,
        recording(port, upgrades=upgrades) as relay,
    ):
        yield Served(engine, *relay)


@asynccontextmanager
async def started(target: str, *arguments: str) -> AsyncIterator[int]:
    """A gateway before the engine at this URL, without a recorder; yields its port when it is ready."""
    command = [sys.executable, "-m", "smg_core", "serve", "--worker", target, "--port", "0", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stderr=PIPE, env=NO_SETTINGS)
    assert process.stderr is not None
    log: list[str] = []
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def read(lines: asyncio.StreamReader) -> None:
        port = 0
        while line := (await lines.readline()).decode():
            log.append(line)
            if found := LISTENING.search(line):
                port = int(found[1])
            if " ready, with " in line and not ready.done():
                ready.set_result(port)
        if not ready.done():
            ready.set_exception(RuntimeError("the gateway has not started:\n" + "".join(log)))

    reading = asyncio.create_task(read(process.stderr))
    try:
        async with asyncio.timeout(PATIENCE_S):
            port = await asyncio.shield(ready)
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


async def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    said: bytes = b"",
    *,
    patience_s: float = PATIENCE_S,
) -> Ended:
    """Run a client to its end. Of this process's environment it gets the PATH alone."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **environment},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(patience_s):
            out, err = await process.communicate(said)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def set_up(program: str, served: Served, home: Path, **variables: str) -> Ended:
    """What `smg-gateway setup --write` says, which tells a program of the gateway in the files of this home."""
    command = [sys.executable, "-m", "smg_core", "setup", program, "--url", served.url, "--write"]
    ended = await run(command, home, {**NO_SETTINGS, "HOME": str(home), **variables})
    assert ended.status == 0, ended.err
    served.exchanges.clear()
    return ended


async def run_case(npm: Path, program: Path, served: Served, case: str) -> dict[str, Any]:
    """What a program for Node.js made of one case, as its JSON. It is copied to where its packages are: Node.js looks for them
    there."""
    copied = npm / program.name
    shutil.copyfile(program, copied)
    ended = await run(["node", str(copied), case, served.url], npm, {"HOME": str(npm)})
    assert ended.status == 0, ended.err
    found: dict[str, Any] = msgspec.json.decode(ended.out)
    return found
