"""An MCP server over stdio that goes wrong as it is told, in the standard library alone: `python faulty.py LOG`.

Every line that it reads is appended to LOG, after one line with its process id.
"""

import json
import os
import sys
from pathlib import Path

LOG = Path(sys.argv[1])
STATE: dict[str, bool] = {}
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
TOOLS = {
    name: {"name": name, "description": f"does {name}", "inputSchema": SCHEMA}
    for name in (
        "echo",
        "hang",
        "die",
        "flood",
        "huge",
        "large",
        "wrong_id",
        "twice",
        "change",
        "progress",
        "lie",
        "blur",
        "tear",
        "faint",
        "grow",
        "Echo",
        "chatter",
        "babble",
    )
}
TOOLS["retried"] = {"name": "retried", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}}
TOOLS["lie"]["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS["no_schema"] = {"name": "no_schema", "inputSchema": "any"}
TOOLS["far"] = {"name": "far", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/schema.json"}}
TOOLS["ahead"] = {
    "name": "ahead",
    "description": 7,
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(?!x)"}}},
}
TOOLS["numbered"] = {"name": "numbered", "inputSchema": {"type": "object", "properties": {"text": 5}}}
TOOLS["vast"] = {"name": "vast", "inputSchema": {"type": "object", "description": "x" * 100_000}}


def note(text: str) -> None:
    with LOG.open("a") as file:
        file.write(text + "\n")


def say(message: object) -> None:
    sys.stdout.write((message if isinstance(message, str) else json.dumps(message)) + "\n")
    sys.stdout.flush()


def answer(request: dict, result: object) -> None:
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def text(words: str, **more: object) -> dict:
    return {"content": [{"type": "text", "text": words}], **more}


def echo(request: dict, arguments: dict) -> None:
    answer(request, text(json.dumps(arguments)))


def die(request: dict, arguments: dict) -> None:
    os._exit(3)


def retried(request: dict, arguments: dict) -> None:
    if LOG.read_text().count("pid ") == 1:
        os._exit(3)
    answer(request, text("at the second try"))


def flood(request: dict, arguments: dict) -> None:
    for number in range(200_000):
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": number}})
    answer(request, text("flooded"))


def wrong_id(request: dict, arguments: dict) -> None:
    say({"jsonrpc": "2.0", "id": 4242, "result": text("for somebody else")})


def twice(request: dict, arguments: dict) -> None:
    result = '{"content": [], "content": [{"type": "text", "text": "b"}]}'
    say(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {result}}}')


def change(request: dict, arguments: dict) -> None:
    TOOLS["added"] = {"name": "added", "inputSchema": SCHEMA}
    del TOOLS["progress"]
    say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    answer(request, text("changed"))


def faint(request: dict, arguments: dict) -> None:
    STATE["faint"] = True
    answer(request, text("ill"))


def grow(request: dict, arguments: dict) -> None:
    TOOLS["grown"] = {"name": "grown", "inputSchema": SCHEMA}
    answer(request, text("grown, and nobody is told"))


def progress(request: dict, arguments: dict) -> None:
    token = request["params"]["_meta"]["progressToken"]
    for done in (1, 2):
        params = {"progressToken": token, "progress": done, "total": 2, "message": f"step {done}"}
        say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    answer(request, text("done"))


def chatter(request: dict, arguments: dict) -> None:
    for line in (
        "Listening on port 3000",
        "[12:00] INFO ready",
        "42",
        '{"level": "info"}',
        "\x1b[32mok\x1b[0m",
        "{broken",
    ):
        say(line)
    answer(request, text("heard"))


def babble(request: dict, arguments: dict) -> None:
    for _ in range(2000):
        say("all work and no play " * 5)
    answer(request, text("unheard"))


CALLS = {
    "chatter": chatter,
    "babble": babble,
    "echo": echo,
    "Echo": echo,
    "ahead": echo,
    "numbered": echo,
    "hang": lambda request, arguments: None,
    "die": die,
    "retried": retried,
    "flood": flood,
    "huge": lambda request, arguments: answer(request, text("x" * 20_000_000)),
    "large": lambda request, arguments: answer(request, text("y" * 300_000, structuredContent={"z": "z" * 300_000})),
    "wrong_id": wrong_id,
    "twice": twice,
    "change": change,
    "progress": progress,
    "faint": faint,
    "grow": grow,
    "blur": lambda request, arguments: answer(
        request, {"content": [{"type": "image", "mimeType": "image/png", "data": "\u00e9"}]}
    ),
    "tear": lambda request, arguments: answer(
        request, {"content": [{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAAAAE="}]}
    ),
    "lie": lambda request, arguments: answer(request, text("a lie", structuredContent={"n": "no number"})),
    "added": lambda request, arguments: answer(request, text("I am new")),
}


def main() -> None:
    note(f"pid {os.getpid()}")
    for line in sys.stdin:
        note(line.strip())
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            info = {"name": "faulty", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            version = "2025-11-25"
            answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})
        elif method == "tools/list":
            answer(request, {"tools": list(TOOLS.values())})
        elif method == "tools/call":
            CALLS[request["params"]["name"]](request, request["params"].get("arguments") or {})
        elif method == "ping":
            if STATE:
                os._exit(3)
            answer(request, {})
        elif "id" in request:
            say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}})


main()
