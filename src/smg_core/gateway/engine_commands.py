"""The commands that start engines by name, and the words put into any command.

Pure. Above: `launched`, up.plan. Below: nothing.
"""

import re
from collections.abc import Sequence

__all__ = ["COMMANDS", "command_line"]

COMMANDS: dict[str, tuple[str, ...]] = {
    "vllm": (
        "{python}",
        "-m",
        "vllm.entrypoints.grpc_server",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--model",
        "{model}",
    ),
    "mlx": (
        "{python}",
        "-m",
        "smg_grpc_servicer.mlx.server",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--model",
        "{model}",
    ),
    "sglang": (
        "{python}",
        "-m",
        "sglang.launch_server",
        "--host",
        "127.0.0.1",
        "--port",
        "{port}",
        "--model-path",
        "{model}",
        "--smg-grpc-mode",
    ),
    "simulator": ("{python}", "-m", "smg_core", "simulate", "--listen", "127.0.0.1:{port}", "--model", "{model}"),
}
"""The command that starts each engine that is known by name."""


def command_line(words: Sequence[str], *, port: int, model: str, python: str) -> list[str]:
    """The words of a command with {port}, {model} and {python} replaced; other braces, as of JSON, stay as they are."""
    values = {"{port}": str(port), "{model}": model, "{python}": python}
    return [re.sub(r"\{(port|model|python)\}", lambda found: values[found[0]], word) for word in words]
