"""`smg-gateway demo`: starts a toy engine and the real `serve` before it, and streams one answer to the terminal (edge).

Decides what is asked, what is printed, and the settings of that gateway: it keeps its history in memory, reads no file and no
variable of the user's, and listens on the loopback alone. Only the model is a toy: the engine is called over gRPC, and the
gateway over HTTP, by a plain client that reads server-sent events. Above: flags. Below: processes.serve, server.grpc_server.
"""

import argparse
import json
import secrets
import signal
import sys
import tempfile
import threading
from pathlib import Path

import attrs
import httpx

from smg_core.admin.settings import AdminConfig
from smg_core.config.config import Config
from smg_core.history.settings import HistoryConfig
from smg_core.http.settings import ServerConfig
from smg_core.observability.settings import MetricsConfig, ObservabilityConfig
from smg_core.processes.serve import serve
from smg_core.sealing.settings import SealingConfig
from smg_core.server.listeners import Listeners
from smg_core.settings import number_flag
from smg_core.workers.settings import WorkersConfig
from smg_simulator.answers.replies import Reply, Rule
from smg_simulator.commands.demo_tools import code_settings, show_tools, tool_rules, tool_settings
from smg_simulator.engine.clockwork import Timing
from smg_simulator.engine.engine import SimulatorConfig
from smg_simulator.server.grpc_server import SimulatedEngine
from smg_simulator.testing import in_thread

__all__ = ["demo_flags"]

_PORT = number_flag(int, 0, 65535)
_LATER_PORT = 8000
_CONTEXT = 200_000
"""Tokens of prompt and output: Claude Code's first prompt has 29,600 of them, and it asks for 32,000 more."""
_PATIENCE_S = 60.0

QUESTION = "What does a gateway do?"
ANSWER = (
    "It stands between programs and the engines that run models. It takes a request in the words of OpenAI, Anthropic or "
    "Google, makes token ids of it, chooses an engine, and turns the tokens that come back into text, reasoning and tool "
    "calls, while they come. These words came that way: over gRPC from the engine, over HTTP to you."
)
_WRITTEN = Rule((f"{QUESTION}<|im_end|>\n<|im_start|>assistant",), Reply(ANSWER))
"""The answer to the question, where it is the last thing that was said."""

ENDS = """
Page           {base}/
Every route    {base}/docs
OpenAI         export OPENAI_BASE_URL={base}/v1 OPENAI_API_KEY=none  # the model is {model}
Claude Code    ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN=none ANTHROPIC_MODEL={model} claude
Codex          codex -c model={model} -c model_provider=smg -c 'model_providers.smg={{name="smg", base_url="{base}/v1"}}'
For good       {program} setup claude-code, codex, gemini, opencode, aider or continue: what each has to be told
A real engine  {program} serve --worker grpc://HOST:PORT for vLLM and SGLang, http://HOST:PORT for llama.cpp and Ollama
"""


def demo_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of `smg-gateway demo`."""
    parser.set_defaults(run=_demo)
    parser.add_argument("--prompt", default=QUESTION, help="what to ask (default: %(default)s)")
    text = f"port of the gateway; 0 takes a free one (default: {_LATER_PORT} with --serve, else a free one)"
    parser.add_argument("--port", type=_PORT, help=text)
    parser.add_argument("--serve", action="store_true", help="keep serving until interrupted")
    parser.add_argument(
        "--tools", action="store_true", help="show a function, a search of files and code, called by the model"
    )


def _demo(args: argparse.Namespace) -> int:
    port = args.port if args.port is not None else _LATER_PORT if args.serve else 0
    toy = _toy(tools=args.tools)
    engine = SimulatedEngine(toy)
    with in_thread(engine), tempfile.TemporaryDirectory(prefix="smg-demo-") as folder:
        show = _Show(args.prompt, args.serve, engine.target, toy.model, tools=args.tools)
        settings = _settings(engine.target, port, keep=args.serve)
        if args.tools:
            settings = attrs.evolve(settings, mcp=tool_settings(Path(folder)), containers=code_settings())
        status = serve(settings, opened=show.begin)
    return status or show.status


def _toy(*, tools: bool) -> SimulatorConfig:
    """A toy that reads at once, as engines do, and writes at a pace at which a person sees that it streams."""
    rules: tuple[Rule, ...] = (_WRITTEN,)
    if tools:
        rules = (*tool_rules(), *rules)
    return SimulatorConfig(context_length=_CONTEXT, rules=rules, timing=Timing(prefill_rate=200_000, decode_rate=40))


def _settings(engine: str, port: int, *, keep: bool) -> Config:
    """The settings of a gateway of which nothing stays; one that is to `keep` serving has an admin door and tells of requests."""
    return Config(
        server=ServerConfig(port=port, access_log=keep, wait_for_workers_s=_PATIENCE_S),
        workers=WorkersConfig(urls=(engine,)),
        admin=AdminConfig(port=0 if keep else None),
        metrics=MetricsConfig(admin=keep),
        history=HistoryConfig(url="memory:"),
        sealing=SealingConfig(keys=(secrets.token_hex(32),)),
        observability=ObservabilityConfig(log_level="info" if keep else "warning"),
    )


@attrs.define
class _Show:
    """Asks the gateway one question once it listens, prints what there is to see, and ends it unless it is to be kept."""

    prompt: str
    keep: bool
    engine: str
    model: str
    tools: bool = False
    status: int = 0

    def begin(self, listeners: Listeners) -> None:
        """Ask in a thread of its own: the main thread serves."""
        places = [
            f"http://{each.getsockname()[0]}:{each.getsockname()[1]}" if each is not None else ""
            for each in (listeners.public, listeners.admin)
        ]
        threading.Thread(target=self._ask, args=places, name="demo", daemon=True).start()

    def _ask(self, base: str, admin: str) -> None:
        try:
            with httpx.Client(base_url=base, timeout=_PATIENCE_S, trust_env=False) as client:
                print(f"engine   {self.engine}: a toy without a model, that draws words; it speaks real gRPC")
                print(f"gateway  {base}\n", flush=True)
                if self.tools:
                    show_tools(client, self.model)
                else:
                    print(f"> {self.prompt}\n", flush=True)
                    _stream(client, self.model, self.prompt)
            self._say_what_next(base, self.model, admin)
        except httpx.HTTPError as error:
            self.status = 1
            print(f"smg-gateway: the demo was not answered: {error}", file=sys.stderr)
        if not self.keep or self.status:
            signal.raise_signal(signal.SIGTERM)

    def _say_what_next(self, base: str, model: str, admin: str) -> None:
        program = sys.argv[0] if sys.argv[0].endswith("smg-gateway") else "python -m smg_core"
        if self.keep:
            watched = f"To watch       {program} top --admin {admin}"
            print(f"{ENDS.format(base=base, model=model, program=program)}{watched}\n")
            print("Serving until Ctrl-C; a line a request follows.", flush=True)
            return
        print(f"This gateway ends now. To have one at these places: {program} demo --serve")
        print(ENDS.format(base=f"http://127.0.0.1:{_LATER_PORT}", model=model, program=program), end="", flush=True)


def _stream(client: httpx.Client, model: str, prompt: str) -> None:
    """Ask, and print each piece of the answer when it arrives."""
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 400,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    usage: dict[str, int] = {}
    with client.stream("POST", "/v1/chat/completions", json=asked) as response:
        if response.is_error:
            response.read()
        response.raise_for_status()
        for line in response.iter_lines():
            data = line.removeprefix("data: ")
            if data and data != "[DONE]":
                chunk = json.loads(data)
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    sys.stdout.write(choice["delta"].get("content") or "")
                    sys.stdout.flush()
    whose = "written for this question" if prompt == QUESTION else "words that the toy drew"
    counts = f"{usage.get('prompt_tokens')} tokens in, {usage.get('completion_tokens')} out, each sent as it came"
    print(f"\n\n({whose}; {counts})")
