"""The page of what clients do with the gateway, from the results of a run."""

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import attrs
from tests.clients.versions import FOLDER, version

FILE = FOLDER / "results.json"
HEAD = """# Clients

Made by `make test-clients`, which installs each client in the version named here, and lets it work with a real gateway before a
scripted engine; no line is written by hand. What a client does is judged by its own output and exit status, and by what the
gateway and the engine were asked.
"""


@attrs.frozen
class Case:
    """One case of one client (a package's name) in one version: what was seen, and whether it passed."""

    client: str
    version: str
    name: str
    seen: str
    passed: bool


def remember(cases: Iterable[Case], file: Path = FILE) -> list[Case]:
    """Add the results of a run, which may be of a part, to those of earlier ones; returns those of the versions tried now."""
    before = [Case(**each) for each in json.loads(file.read_text())] if file.exists() else []
    known = {(each.client, each.name): each for each in [*before, *cases] if each.version == version(each.client)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([attrs.asdict(each) for each in known.values()], indent=1))
    return list(known.values())


def page(cases: Iterable[Case]) -> str:
    """The page, client by client."""
    ordered = sorted(cases, key=lambda case: case.client)
    return HEAD + "".join(_table(client, list(rows)) for client, rows in groupby(ordered, lambda case: case.client))


def _table(client: str, cases: list[Case]) -> str:
    rows = [f"| {case.name} | {'works' if case.passed else '**fails**'} | {case.seen} |" for case in cases]
    return "\n".join([f"\n## {client} {version(client)}\n", "| case | | seen |", "|---|---|---|", *rows]) + "\n"
