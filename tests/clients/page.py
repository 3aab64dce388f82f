"""The page of what clients do with the gateway, from the results of a run."""

from collections.abc import Iterable
from itertools import groupby

import attrs
from tests.clients.versions import version

HEAD = """# Clients

Made by `make test-clients`, which installs each client in the version named here, and lets it work with a real gateway before a
scripted engine; no line is written by hand. What a client does is judged by its own output and exit status, and by what the
gateway and the engine were asked.
"""


@attrs.frozen
class Case:
    """One case of one client (a package's name): what was seen, and whether it passed."""

    client: str
    name: str
    seen: str
    passed: bool


def page(cases: Iterable[Case]) -> str:
    """The page, client by client."""
    ordered = sorted(cases, key=lambda case: case.client)
    return HEAD + "".join(_table(client, list(rows)) for client, rows in groupby(ordered, lambda case: case.client))


def _table(client: str, cases: list[Case]) -> str:
    rows = [f"| {case.name} | {'works' if case.passed else '**fails**'} | {case.seen} |" for case in cases]
    return "\n".join([f"\n## {client} {version(client)}\n", "| case | | seen |", "|---|---|---|", *rows]) + "\n"
