"""The tools of `smg-gateway demo --tools`: a function, a search of files and code, called by a scripted model (edge).

All but the model's words is real: the function runs in the gateway, the file is uploaded, indexed and searched, and the program
runs: in a container where `smg-gateway interpreter build` has made an interpreter, else in a Python of its own, which takes this
one program alone. Above: demo. Below: a plain HTTP client.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from smg_core.commands.interpreter import interpreter_folder
from smg_core.containers.settings import ContainersConfig
from smg_core.pipeline.settings import McpConfig
from smg_simulator.answers.replies import Reply, Rule

__all__ = ["code_settings", "show_tools", "tool_rules", "tool_settings"]

_NOTES = "The pilot flame of the gateway is blue. It was green until the spring of 2025."
_PROGRAM = "import statistics\nprint(statistics.median([3, 1, 4, 1, 5, 9, 2, 6]))"
_HOURS = {"sunday": "10:00 to 16:00", "monday": "closed"}
_PATIENCE_S = 30.0
_PAUSE_S = 0.05

_ASKED = (
    (
        "When does the library open on Sunday?",
        "demo__opening_hours",
        {"day": "Sunday"},
        "It is open from 10:00 to 16:00.",
    ),
    ("What colour is the pilot flame?", "file_search", {"query": "pilot flame"}, "It is blue.【1】"),
    ("What is the median of my numbers?", "code_interpreter", {"code": _PROGRAM}, "The median is 3.5."),
)
_FOUND = ("10:00 to 16:00", "was green until", "3.5")
"""What stands in the result of each call, so that the model answers it."""


def opening_hours(day: str) -> str:
    """Says when the library is open.

    Args:
        day: The day of the week.
    """
    return _HOURS.get(day.lower(), "not known")


def run_python(code: str) -> str:
    """Runs a program: that of the demo, and no other."""
    if code != _PROGRAM:
        raise ValueError("the demo runs its own program alone")
    ran = subprocess.run(  # noqa: S603  # the text of this module
        [sys.executable, "-I", "-c", _PROGRAM], capture_output=True, text=True, timeout=_PATIENCE_S, check=True
    )
    return ran.stdout


def tool_rules() -> tuple[Rule, ...]:
    """What the model says: to each question a call, and to its result the answer."""
    answers = [
        Rule((question, found), Reply(reply)) for (question, *_, reply), found in zip(_ASKED, _FOUND, strict=True)
    ]
    calls = [Rule((question,), Reply(tool_calls=((name, made),))) for question, name, made, _ in _ASKED]
    return (*answers, *calls)


def tool_settings(folder: Path) -> McpConfig:
    """The tools of the gateway, of which the file lies in `folder`."""
    here = "smg_simulator.commands.demo_tools"
    servers = [
        {"name": "demo", "protocol": "python", "functions": [f"{here}:opening_hours"]},
        {
            "name": "sandbox",
            "protocol": "python",
            "functions": [f"{here}:run_python"],
            "builtin_type": "code_interpreter",
            "builtin_tool_name": "run_python",
        },
    ]
    file = folder / "tools.json"
    file.write_text(json.dumps({"servers": servers}))
    return McpConfig(config=str(file))


def code_settings() -> ContainersConfig:
    """Containers, where there is an interpreter for them."""
    folder = interpreter_folder()
    made = folder.is_dir() and any(folder.iterdir())
    return ContainersConfig(interpreter=str(folder) if made else None, folder=tempfile.gettempdir() if made else None)


def show_tools(client: httpx.Client, model: str) -> None:
    """Ask the three questions, and print the calls and answers. Raises httpx.HTTPError."""
    store = _stored(client)
    tools = (
        {"type": "mcp", "server_label": "demo", "require_approval": "never"},
        {"type": "file_search", "vector_store_ids": [store]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
    )
    include = ["file_search_call.results", "code_interpreter_call.outputs"]
    for (question, *_), tool in zip(_ASKED, tools, strict=True):
        print(f"> {question}\n", flush=True)
        body = {"model": model, "input": question, "tools": [tool], "include": include}
        answer = client.post("/v1/responses", json=body).raise_for_status().json()
        for item in answer["output"]:
            if line := _line(item):
                print(f"  {line}")
        print(flush=True)


def _stored(client: httpx.Client) -> str:
    """The vector store of the demo's file, once that is indexed."""
    sent = {"file": ("notes.txt", _NOTES.encode(), "text/plain")}
    file = client.post("/v1/files", files=sent, data={"purpose": "assistants"}).raise_for_status().json()
    made = client.post("/v1/vector_stores", json={"name": "demo", "file_ids": [file["id"]]}).raise_for_status().json()
    until = time.monotonic() + _PATIENCE_S
    while made["status"] != "completed" and time.monotonic() < until:
        time.sleep(_PAUSE_S)
        made = client.get(f"/v1/vector_stores/{made['id']}").raise_for_status().json()
    return str(made["id"])


def _line(item: dict[str, Any]) -> str:
    """An item of an answer as a person reads it; "" for one that says nothing here."""
    match item["type"]:
        case "mcp_call":
            return f"function   {item['name']}({item['arguments']}) gave {item['output']!r}"
        case "file_search_call":
            found = (item.get("results") or [{}])[0]
            return f"files      {item['queries'][0]!r} found in {found.get('filename')}: {found.get('text')!r}"
        case "code_interpreter_call":
            logs = (item.get("outputs") or [{}])[0].get("logs")
            return f"code       {item['code']!r} printed {logs!r}"
        case "message":
            part = item["content"][0]
            cited = "".join(f" [{each.get('filename')}]" for each in part["annotations"])
            return f"answer     {part['text']}{cited}"
    return ""
