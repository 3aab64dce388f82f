"""Which versions of the clients are tried, and where they are installed."""

import fcntl
import hashlib
import json
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

NPM = {
    "@anthropic-ai/claude-code": "2.1.197",
    "@anthropic-ai/sdk": "1.12.0",
    "@openai/codex": "0.169.0",
    "@google/genai": "2.32.0",
    "openai": "6.49.0",
}
"""Packages of npm, with the version that is tried."""

PYPI = ("openai-agents",)
"""Packages of PyPI: those of the environment that the tests run in."""

FOLDER = Path(__file__).parents[2] / "build" / "clients"


def version(package: str) -> str:
    """The version of a client that is tried."""
    return NPM.get(package) or metadata.version(package)


def install() -> Path:
    """Install the packages of npm, once for each set of versions, and return the folder that has their `node_modules`."""
    told = json.dumps({"name": "smg-clients", "private": True, "type": "module", "dependencies": NPM}, indent=1)
    folder = FOLDER / hashlib.sha256(told.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.exists():
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            (folder / "package.json").write_text(told)
            subprocess.run(
                ["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True, timeout=600
            )
            done.touch()
    return folder
