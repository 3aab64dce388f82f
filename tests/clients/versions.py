"""Which versions of the clients are tried, and where they are installed."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

NPM = {
    "@anthropic-ai/claude-code": "2.1.197",
    "@anthropic-ai/sdk": "1.12.0",
    "@openai/codex": "0.169.0",
    "@google/genai": "2.32.0",
    "@google/gemini-cli": "0.61.0",
    "@continuedev/cli": "1.5.47",
    "opencode-ai": "1.18.33",
    "openai": "6.49.0",
}
"""Packages of npm, with the version that is tried."""

PYPI = ("openai-agents",)
"""Packages of PyPI: those of the environment that the tests run in."""

APART = {
    "aider-chat": "0.86.2",
    "aiperf": "0.13.0",
    "basedpyright": "1.40.2",
    "livekit-plugins-openai": "1.8.9",
    "pipecat-ai": "1.14.0",
}
"""Packages of PyPI, with the version that is tried, that have an environment of their own: they need other packages than ours,
in versions of their choice."""

FOLDER = Path(__file__).parents[2] / "build" / "clients"


def version(package: str) -> str:
    """The version of a client that is tried."""
    return NPM.get(package) or APART.get(package) or metadata.version(package)


def install() -> Path:
    """Install the packages of npm, once for each set of versions, and return the folder that has their `node_modules`."""
    told = json.dumps({"name": "smg-clients", "private": True, "type": "module", "dependencies": NPM}, indent=1)
    folder = FOLDER / hashlib.sha256(told.encode()).hexdigest()[:16]
    with _making(folder) as needed:
        if needed:
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            (folder / "package.json").write_text(told)
            command = ["npm", "install", "--no-audit", "--no-fund", "--silent"]
            subprocess.run(command, cwd=folder, check=True, timeout=600)
    return folder


def install_apart(package: str) -> Path:
    """Install a package of `APART` in an environment of its own, once for each version, and return the folder of its programs."""
    folder = FOLDER / f"{package}-{APART[package]}"
    with _making(folder) as needed:
        if needed:
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=600)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, f"{package}=={APART[package]}"], check=True, timeout=1800)
    return folder / "bin"


@contextmanager
def _making(folder: Path) -> Iterator[bool]:
    """Say whether what belongs in `folder` has still to be installed; one process at a time is told so, and at the end of its
    block the folder is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        needed = not done.exists()
        yield needed
        if needed:
            done.touch()
